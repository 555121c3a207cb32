"""Transaction scenarios: TxnOffsetCommit, and OffsetFetch beside it."""

from typing import Any, Final

from tests.compat.clients.group_probe_members import commit, fetch, stable
from tests.compat.clients.txn_probe import Identity, TxnProbe, TxnScenario, add_offsets, txn_commit
from tests.compat.raw import versions

API: Final = "txn_offset_commit"


def _fetched(
    probe: TxnProbe, name: str, group: str, topic: str, parts: tuple[int, ...] = (0,)
) -> None:
    for stable_only in (False, True):
        body = fetch(group, {topic: parts}, require_stable=stable_only)
        probe.ask(f"{name}, require_stable={stable_only}", "offset_fetch", 8, body)


def _producer_of_offsets(probe: TxnProbe, name: str, who: Identity) -> None:
    """What the offsets' partition knows of one producer."""
    body = {"topics": [{"name": "__consumer_offsets", "partition_indexes": [0]}]}
    answer = probe.quietly("describe_producers", 0, body)
    rows = answer["topics"][0]["partitions"][0]["active_producers"]
    mine = [row for row in rows if row["producer_id"] == who.producer_id]
    probe.keep(name, "describe_producers v0", body, {"active_producers": mine})


def commit_versions(probe: TxnProbe) -> None:
    """TxnOffsetCommit at every version."""
    probe.topic("txn-off", 3)
    for version in versions(API):
        for committed in (True, False):
            name = f"v{version}, {'commit' if committed else 'abort'}"
            group = f"txn-off-{version}-{committed}"
            who = probe.producer(group)
            probe.quietly("offset_commit", 8, commit(group, {"txn-off": {0: 3}}))
            if version < 5:
                probe.ask(f"{name}, add offsets", "add_offsets_to_txn", 3, add_offsets(who, group))
            probe.ask(name, API, version, txn_commit(who, group, {"txn-off": {0: 10, 1: 11}}))
            probe.describes(f"{name}, described", who)
            _fetched(probe, f"{name}, pending", group, "txn-off", (0, 1, 2))
            probe.ask(
                f"{name}, everything pending",
                "offset_fetch",
                8,
                fetch(group, None, require_stable=True),
            )
            _producer_of_offsets(probe, f"{name}, the producer", who)
            probe.ends(f"{name}, end", who, commit=committed, version=max(3, version))
            _producer_of_offsets(probe, f"{name}, the producer at the end", who)
            _fetched(probe, f"{name}, ended", group, "txn-off", (0, 1, 2))


def commit_wrong(probe: TxnProbe) -> None:
    """TxnOffsetCommit in wrong ways."""
    probe.topic("txn-wrong", 2)
    topics = {"txn-wrong": {0: 5}}
    for version in (0, 2, 3, 4, 5):
        who = probe.producer(f"txn-wrong-{version}")
        group = f"txn-wrong-{version}"

        def ask(
            label: str,
            who: Identity,
            group: str,
            what: Any = topics,
            *,
            version: int = version,
            **more: Any,
        ) -> None:
            probe.ask(f"v{version}, {label}", API, version, txn_commit(who, group, what, **more))

        ask("not added", who, f"{group}-unadded")
        probe.describes(f"v{version}, described", who)
        probe.ask(f"v{version}, add offsets", "add_offsets_to_txn", 3, add_offsets(who, group))
        ask("wrong epoch", who.at(9), group)
        ask("old epoch", who.at(-1), group)
        ask("another producer id", who._replace(producer_id=who.producer_id + 900), group)
        ask("unknown transactional id", Identity("nobody", 5, 0), group)
        ask("empty transactional id", who._replace(name=""), group)
        ask("another group", who, f"{group}-other")
        ask("empty group", who, "")
        ask("unknown topic", who, group, {"txn-wrong": {0: 1}, "nope": {0: 1}})
        ask("unknown partition", who, group, {"txn-wrong": {0: 1, 9: 1}})
        ask("no topics", who, group, {})
        ask("long metadata", who, group, metadata="m" * 5000)
        ask("unknown member", who, group, member="x", generation=1)
        ask("generation without member", who, group, generation=1)
        ask("unknown instance", who, group, instance="i")
        ask("right", who, group)
        probe.ends(f"v{version}, commit", who, commit=True)
        _fetched(probe, f"v{version}, committed", group, "txn-wrong")
        ask("after the commit", who, group)
        _fetched(probe, f"v{version}, after the commit", group, "txn-wrong")


def commit_with_members(probe: TxnProbe) -> None:
    """TxnOffsetCommit to a group with members."""
    probe.topic("txn-members")
    made = stable(probe, "txn-members", 2)
    group, (one, _two) = made.group, made.ids
    who = probe.producer("txn-members")
    probe.ask("add offsets", "add_offsets_to_txn", 3, add_offsets(who, group), "p")

    def ask(label: str, version: int = 3, **more: Any) -> None:
        probe.ask(label, API, version, txn_commit(who, group, {"txn-members": {0: 4}}, **more), "p")

    ask("right", member=one, generation=2)
    ask("old generation", member=one, generation=1)
    ask("future generation", member=one, generation=3)
    ask("unknown member", member="client-x", generation=2)
    ask("no member", generation=-1)
    ask("no member, but the generation", generation=2)
    ask("unknown instance", member=one, generation=2, instance="i")
    ask("by v2: no member", 2)
    ask("by v5: right", 5, member=one, generation=2)
    ask("by v5: old generation", 5, member=one, generation=1)
    probe.ask(
        "OffsetFetch pending",
        "offset_fetch",
        8,
        fetch(group, {"txn-members": (0,)}, require_stable=True),
        "p",
    )
    probe.ask("plain OffsetCommit beside it", "offset_commit", 8,
              commit(group, {"txn-members": {0: 2}}, member=one, generation=2), "p")  # fmt: skip
    probe.ask("OffsetFetch beside it", "offset_fetch", 8, fetch(group, {"txn-members": (0,)}), "p")
    row = {"name": "txn-members", "partitions": [{"partition_index": 0}]}
    probe.ask(
        "OffsetDelete beside it", "offset_delete", 0, {"group_id": group, "topics": [row]}, "p"
    )
    probe.ends("commit", who, commit=True)
    probe.ask(
        "OffsetFetch after",
        "offset_fetch",
        8,
        fetch(group, {"txn-members": (0,)}, require_stable=True),
        "p",
    )


def pending_and_groups(probe: TxnProbe) -> None:
    """A group with pending offsets is deleted, or committed to."""
    probe.topic("txn-pend", 2)
    group = "txn-pend"
    who = probe.producer(group)
    probe.ask("commit", API, 5, txn_commit(who, group, {"txn-pend": {0: 7}}))
    probe.ask("ListGroups", "list_groups", 5, {"states_filter": ["Nothing"]})
    probe.ask("DescribeGroups", "describe_groups", 5, {"groups": [group]})
    probe.ask(
        "plain commit of the same partition",
        "offset_commit",
        8,
        commit(group, {"txn-pend": {0: 3}}),
    )
    _fetched(probe, "after the plain commit", group, "txn-pend", (0, 1))
    probe.ask(
        "second transactional commit", API, 5, txn_commit(who, group, {"txn-pend": {0: 8, 1: 9}})
    )
    other = probe.producer("txn-pend-2")
    probe.ask("another producer", API, 5, txn_commit(other, group, {"txn-pend": {1: 20}}))
    now = probe.ends("commit of the first", who, commit=True, version=5)
    _fetched(probe, "after the first", group, "txn-pend", (0, 1))
    probe.ends("commit of the second", other, commit=True, version=5)
    _fetched(probe, "after the second", group, "txn-pend", (0, 1))
    probe.ask("commit once more", API, 5, txn_commit(now, group, {"txn-pend": {0: 30}}))
    probe.ask("DeleteGroups while pending", "delete_groups", 2, {"groups_names": [group]})
    _fetched(probe, "deleted", group, "txn-pend", (0, 1))
    probe.ends("commit after the deletion", now, commit=True, version=5)
    _fetched(probe, "committed after the deletion", group, "txn-pend", (0, 1))


SCENARIOS: Final[tuple[TxnScenario, ...]] = (
    commit_versions, commit_wrong, commit_with_members, pending_and_groups,
)  # fmt: skip
