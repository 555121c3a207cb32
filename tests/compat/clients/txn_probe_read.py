"""Transaction scenarios: what readers and administrators see of transactions."""

from dataclasses import replace
from typing import Final

from tests.compat.batches import make_batch
from tests.compat.clients.txn_probe import OLD, ONE, Identity, Read, TxnProbe, TxnScenario
from tests.compat.raw import Plain, versions


def _ends_of(probe: TxnProbe, name: str, topic: str) -> None:
    for level in (0, 1):
        for label, timestamp in (
            ("latest", -1),
            ("earliest", -2),
            ("highest time", -3),
            ("a time", 1),
        ):
            row = {"name": topic, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}
            body = {"replica_id": -1, "isolation_level": level, "topics": [row]}
            probe.ask(f"{name}, {label}, isolation {level}", "list_offsets", 7, body)


def reading(probe: TxnProbe) -> None:
    """Two transactions and a plain writer share a partition."""
    topic_id = probe.topic("shared")
    one, two = probe.producer("shared-1"), probe.producer("shared-2")
    probe.append("shared", make_batch(ONE))
    for who in (one, two):
        probe.writes(f"{who.name} writes", who, "shared", 0, version=12)
    probe.append("shared", make_batch(ONE * 2))
    probe.reads_both("both open", "shared")
    _ends_of(probe, "both open", "shared")
    probe.reads("both open, from the LSO", "shared", Read(offset=1))
    probe.reads("both open, beyond the LSO", "shared", Read(offset=3))
    probe.reads("both open, at the end", "shared", Read(offset=5))
    probe.reads("both open, beyond the end", "shared", Read(offset=6))
    one = probe.ends("the first aborts", one, commit=False, version=5)
    probe.reads_both("one open", "shared")
    probe.ends("the second commits", two, commit=True, version=5)
    for version in versions("fetch"):
        topic = topic_id if version >= 13 else "shared"
        probe.reads_both(f"all ended, v{version}", topic, Read(version=version))
    for offset in range(1, 8):
        probe.reads(f"all ended, from {offset}", "shared", Read(offset=offset))
    _ends_of(probe, "all ended", "shared")
    probe.producers_of("all ended", "shared")
    probe.writes("the first writes again", one, "shared", 0, version=12)
    probe.reads("third open", "shared")
    _ends_of(probe, "third open", "shared")
    probe.ends("the first aborts again", one, commit=False, version=5)
    probe.reads("two aborted", "shared")
    probe.reads("two aborted, from between", "shared", Read(offset=5))


def rolled(probe: TxnProbe) -> None:
    """Markers are in later segments than old records."""
    probe.topic("rolled")
    one, two = probe.producer("rolled-1"), probe.producer("rolled-2")
    for who in (one, two):
        probe.writes(f"{who.name} writes", who, "rolled", 0, version=12, records=who.batch(0, OLD))
    one = probe.ends("the first aborts", one, commit=False, version=5)
    probe.reads_both("one open", "rolled")
    two = probe.ends("the second aborts", two, commit=False, version=5)
    for offset in range(5):
        probe.reads(f"both ended, from {offset}", "rolled", Read(offset=offset))
    probe.append("rolled", make_batch(OLD))
    probe.reads_both("an old record after the markers", "rolled", Read(offset=4))


def deleted_records(probe: TxnProbe) -> None:
    """DeleteRecords within a transaction."""
    probe.topic("shortened")
    who = probe.producer("shortened")
    probe.append("shortened", make_batch(ONE))
    probe.writes("write", who, "shortened", 0, version=12)
    for offset in (1, 2, -1):
        row = {"name": "shortened", "partitions": [{"partition_index": 0, "offset": offset}]}
        body = {"timeout": 5000, "topics": [row]}
        probe.ask(f"delete before {offset}", "delete_records", 2, body)
    probe.reads_both("while open", "shortened", Read(offset=2))
    probe.producers_of("while open", "shortened")
    probe.ends("abort", who, commit=False, version=5)
    probe.reads_both("aborted", "shortened", Read(offset=2))


def _described(probe: TxnProbe, name: str, *ids: str) -> Plain:
    return probe.ask(name, "describe_transactions", 0, {"transactional_ids": list(ids)})


def describing(probe: TxnProbe) -> None:
    """DescribeTransactions."""
    probe.topic("described", 3)
    probe.topic("described-too", 1)
    who = probe.producer("described")
    _described(probe, "no ids")
    _described(probe, "unknown", "nobody")
    _described(probe, "an empty id", "")
    _described(probe, "empty", "described")
    probe.adds("add", who, {"described": [2, 0], "described-too": [0]})
    _described(probe, "open, and twice, and unknown", "described", "described", "nobody")
    probe.ends("commit", who, commit=True)
    _described(probe, "committed", "described")


def listing(probe: TxnProbe) -> None:
    """ListTransactions."""
    probe.topic("listed")
    done, open_one = probe.producer("list-done"), probe.producer("list-open")
    idle = probe.producer("list-idle")
    probe.adds("add", done, {"listed": [0]})
    probe.ends("abort", done, commit=False)
    probe.adds("add to another", open_one, {"listed": [0]})
    api = "list_transactions"
    mine = [done.producer_id, open_one.producer_id, idle.producer_id]

    def ask(label: str, version: int = 2, **body: object) -> None:
        probe.ask(label, api, version, {"producer_id_filters": mine, **body})

    for version in versions(api):
        ask(f"v{version}", version)
        ask(f"v{version}, state Ongoing", version, state_filters=["Ongoing"])
    ask("states Empty and CompleteAbort", state_filters=["Empty", "CompleteAbort"])
    ask("unknown states", state_filters=["Nothing", "ongoing"])
    ask("unknown and known states", state_filters=["Nothing", "Ongoing"])
    ask("state Dead", state_filters=["Dead"])
    ask("unknown producer", producer_id_filters=[987_654])
    ask("one producer", producer_id_filters=[idle.producer_id])
    ask("duration 0", duration_filter=0)
    ask("duration 1000 s", duration_filter=1_000_000)
    ask("duration -5", duration_filter=-5)
    ask("pattern", transactional_id_pattern="list-[di].*")
    ask("pattern of a part", transactional_id_pattern="list")
    ask("pattern that is none", transactional_id_pattern="list-[")
    ask("empty pattern", transactional_id_pattern="")
    ask("null pattern", transactional_id_pattern=None)
    ask("pattern with words of RE2", transactional_id_pattern=r"(?i)LIST-\pL+")
    ask("pattern with a look ahead", transactional_id_pattern=r"list-(?=d).*")


def describing_producers(probe: TxnProbe) -> None:
    """DescribeProducers around a transaction."""
    probe.topic("watched")
    who = probe.producer("watched")
    probe.producers_of("before", "watched")
    probe.adds("add", who, {"watched": [0]})
    probe.producers_of("added", "watched")
    probe.writes("write", who, "watched", 0)
    probe.producers_of("written", "watched")
    probe.writes("write more", who, "watched", 1)
    probe.producers_of("written more", "watched")
    probe.ends("commit", who, commit=True)
    probe.producers_of("committed", "watched")
    probe.adds("add again", who, {"watched": [0]})
    probe.writes("write again", who, "watched", 2)
    probe.ends("abort", who, commit=False)
    probe.producers_of("aborted", "watched")
    plain = Identity("", 5_000_000, 3)
    probe.append("watched", plain.batch(0, attributes=0))
    probe.producers_of("a plain producer too", "watched")
    many = replace(Read(), committed=False)
    probe.reads("the batches", "watched", many)


SCENARIOS: Final[tuple[TxnScenario, ...]] = (
    reading, deleted_records, describing, listing, describing_producers,
)  # fmt: skip
