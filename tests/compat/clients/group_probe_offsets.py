"""Group scenarios: OffsetCommit, OffsetFetch and OffsetDelete."""

import time

from tests.compat.clients.group_probe import GroupProbe, GroupScenario
from tests.compat.clients.group_probe_members import (
    BEAT,
    JOIN,
    beat,
    commit,
    describe,
    fetch,
    given_id,
    join,
    joined,
    leave,
    stable,
    subscription,
)
from tests.compat.raw import Plain, versions

UNKNOWN_ID = "11111111-2222-3333-4444-555555555555"


def commit_versions(probe: GroupProbe) -> None:
    """OffsetCommit and OffsetFetch at every version."""
    topic_id = probe.topic("commit-v", 2)
    for version in versions("offset_commit"):
        group = f"simple-v{version}"
        body = commit(group, {"commit-v": {0: (10 + version, "note")}}, topic_id=topic_id)
        probe.ask(f"OffsetCommit v{version}", "offset_commit", version, body)
        describe(probe, f"the group after v{version}", group)
    for version in versions("offset_fetch"):
        body = fetch("simple-v8", {"commit-v": (0, 1)}, topic_id=topic_id)
        probe.ask(f"OffsetFetch v{version}", "offset_fetch", version, body)
        body = fetch("no-such-group", {"commit-v": (0,)}, topic_id=topic_id)
        probe.ask(f"OffsetFetch v{version}, unknown group", "offset_fetch", version, body)
    for version in range(2, 11):
        body = fetch("simple-v8", None)
        probe.ask(f"OffsetFetch v{version}, everything", "offset_fetch", version, body)
    probe.ask("ListGroups of a simple group", "list_groups", 5, {"states_filter": ["Nothing"]})


def commit_details(probe: GroupProbe) -> None:
    """OffsetCommit in detail."""
    topic_id = probe.topic("commit-d", 2)

    def ask(name: str, topics: Plain, version: int = 9, **options: object) -> None:
        body = commit("details", topics, **options)
        probe.ask(name, "offset_commit", version, body)

    ask("metadata of 4096", {"commit-d": {0: (1, "m" * 4096)}})
    ask("metadata of 4097", {"commit-d": {0: (2, "m" * 4097), 1: 2}})
    ask("metadata of 2049 two-byte letters", {"commit-d": {1: (3, "é" * 2049)}})
    ask("metadata of 4096 two-byte letters", {"commit-d": {1: (3, "é" * 4096)}})
    ask("null metadata", {"commit-d": {1: (4, None)}})
    ask("unknown topic beside a known one", {"commit-d": {0: 5}, "no-topic": {0: 5}})
    ask("unknown topic alone", {"no-topic": {0: 5, 1: 6}})
    ask("unknown partition beside a known one", {"commit-d": {0: 6, 2: 6, -1: 6}})
    ask("offset -1", {"commit-d": {0: -1}})
    ask("offset -2", {"commit-d": {0: -2}})
    ask("offset far beyond the end", {"commit-d": {0: 2**62}})
    ask("offset goes back", {"commit-d": {0: 7}})
    ask("leader epoch 5", {"commit-d": {0: 8}}, leader_epoch=5)
    ask("leader epoch -2", {"commit-d": {1: 8}}, leader_epoch=-2)
    ask("invalid topic name", {"no/such topic": {0: 8}})
    ask("no topics", {})
    ask("a topic without partitions", {"commit-d": {}})
    body = commit("details", {"commit-d": {0: 9}})
    body["topics"] += commit("details", {"commit-d": {0: (10, "later")}})["topics"]
    probe.ask("one partition twice", "offset_commit", 9, body)
    ask("v10, unknown id", {"x": {0: 1}}, 10, topic_id=UNKNOWN_ID)
    ask("v10, known id, unknown partition", {"x": {0: 11, 7: 1}}, 10, topic_id=topic_id)
    ask("v10, null id", {"x": {0: 1}}, 10, topic_id=None)
    for name, generation in (("generation -1", -1), ("generation 0", 0), ("generation -2", -2)):
        probe.ask(f"unknown group, {name}", "offset_commit", 9,
                  commit("unheard-of", {"commit-d": {0: 1}}, generation=generation))  # fmt: skip
        probe.ask(f"unknown group, {name}, with a member", "offset_commit", 9,
                  commit("unheard-of-2", {"commit-d": {0: 1}}, generation=generation,
                         member="client-x"))  # fmt: skip
    probe.ask("unknown group v8, generation 0", "offset_commit", 8,
              commit("unheard-of-3", {"commit-d": {0: 1}}, generation=0))  # fmt: skip
    probe.ask("unknown group, with an instance", "offset_commit", 9,
              commit("unheard-of-4", {"commit-d": {0: 1}}, instance="i"))  # fmt: skip
    for version in (2, 9):
        probe.ask(f"empty group id, v{version}", "offset_commit", version,
                  commit("", {"commit-d": {0: 1}}))  # fmt: skip
    probe.ask("retention time, v2", "offset_commit", 2,
              commit("kept", {"commit-d": {0: 1}}, retention=1))  # fmt: skip
    time.sleep(1)
    probe.ask("retention time, fetched later", "offset_fetch", 9, fetch("kept", None))
    probe.ask("what it has", "offset_fetch", 9, fetch("details", {"commit-d": (0, 1)}))


def commit_to_members(probe: GroupProbe) -> None:
    """OffsetCommit to a group with members."""
    probe.topic("commit-m")
    topics = {"commit-m": {0: 1}}
    made = stable(probe, "commit-m", 2)
    group, (one, two) = made.group, made.ids

    def ask(name: str, version: int = 9, **options: object) -> None:
        probe.ask(name, "offset_commit", version, commit(group, topics, **options), "c")

    ask("Stable, right", member=one, generation=2)
    ask("Stable, without a member", generation=-1)
    ask("Stable, without a member v2", version=2, generation=-1)
    ask("Stable, member but generation -1", member=one, generation=-1)
    ask("Stable, no member but the generation", generation=2)
    ask("Stable, unknown member", member="client-x", generation=2)
    ask("Stable, old generation", member=one, generation=1)
    ask("Stable, future generation", member=one, generation=3)
    ask("Stable, unknown instance", member=one, generation=2, instance="i")
    waiting = probe.begin("join_group", JOIN, join(group, one), "a")
    ask("Preparing, right", member=two, generation=2)
    ask("Preparing, of the one who waits", member=one, generation=2)
    ask("Preparing, old generation", member=two, generation=1)
    ask("Preparing, without a member", generation=-1)
    other = probe.begin("join_group", JOIN, join(group, two), "b")
    probe.collect(waiting)
    probe.collect(other)
    ask("Completing, right", member=one, generation=3)
    ask("Completing, old generation", member=one, generation=2)
    ask("Completing, without a member", generation=-1)
    ask("Completing, v2", version=2, member=one, generation=3)
    probe.must("leave_group", 5, leave(group, (one, None), (two, None)))
    ask("Empty, without a member", generation=-1)
    ask("Empty, with a member", member=one, generation=4)
    ask("Empty, generation but no member", generation=4)
    ask("Empty, generation -1 and a member", member=one, generation=-1)
    pending = given_id(probe, group, "a")
    ask("Empty, a member with only an id", member=pending, generation=4)


def commit_extends_the_session(probe: GroupProbe) -> None:
    """OffsetCommit instead of heartbeats."""
    probe.topic("commit-s")
    made = stable(probe, "commit-s", session=1200)
    for offset in range(4):
        time.sleep(0.6)
        body = commit(made.group, {"commit-s": {0: offset}}, member=made.ids[0], generation=1)
        probe.must("offset_commit", 9, body)
    probe.ask("Heartbeat after two sessions", "heartbeat", BEAT, beat(made.group, 1, made.ids[0]))


def fetch_details(probe: GroupProbe) -> None:
    """OffsetFetch in detail."""
    topic_id = probe.topic("fetch-d", 3)
    for group in ("fetch-1", "fetch-2"):
        probe.must("offset_commit", 9, commit(group, {"fetch-d": {0: (1, "a"), 1: 2}}))

    def ask(name: str, body: Plain, version: int = 9) -> None:
        probe.ask(name, "offset_fetch", version, body)

    ask("partition without an offset", fetch("fetch-1", {"fetch-d": (2,)}))
    ask("partition that is not there", fetch("fetch-1", {"fetch-d": (9, -1)}))
    ask("topic that is not there", fetch("fetch-1", {"no-topic": (0,)}))
    ask("topic that is not there, v1", fetch("fetch-1", {"no-topic": (0,)}), 1)
    ask("no topics", fetch("fetch-1", {}))
    ask("no topics, v1", fetch("fetch-1", {}), 1)
    ask("topic without partitions", fetch("fetch-1", {"fetch-d": ()}))
    ask("one partition twice", fetch("fetch-1", {"fetch-d": (0, 0)}))
    body = fetch("fetch-1", {"fetch-d": (0,)})
    twice = body["groups"][0] | {"topics": body["topics"] * 2}
    ask("one topic twice", {"groups": [twice]})
    ask("one group twice", {"groups": body["groups"] * 2}, 8)
    rows = [fetch(name, None)["groups"][0] for name in ("fetch-1", "fetch-2", "no-group", "")]
    ask("several groups, v8", {"groups": rows}, 8)
    ask("several groups, v9", {"groups": rows})
    ask("no groups", {"groups": []})
    ask("empty group, v7", fetch("", None), 7)
    ask("empty group, v1", fetch("", {"fetch-d": (0,)}), 1)
    ask("require stable, v7", fetch("fetch-1", None, require_stable=True), 7)
    ask("require stable, v9", fetch("fetch-1", {"fetch-d": (0, 2)}, require_stable=True))
    ask("v10, by id", fetch("fetch-1", {"x": (0, 2, 9)}, topic_id=topic_id), 10)
    ask("v10, unknown id", fetch("fetch-1", {"x": (0,)}, topic_id=UNKNOWN_ID), 10)
    ask("v10, null id", fetch("fetch-1", {"x": (0,)}, topic_id=None), 10)
    ask("member of a group of none", fetch("fetch-1", None, member="client-x", epoch=1))
    ask("member of a group of none, epoch -1", fetch("fetch-1", None, member="client-x", epoch=-1))
    ask("no member but an epoch", fetch("fetch-1", None, epoch=1))
    ask("unknown group with a member", fetch("no-group", None, member="client-x", epoch=1))
    made = stable(probe, "fetch-m")
    ask("member right", fetch("fetch-m", None, member=made.ids[0], epoch=1))
    ask("member's old generation", fetch("fetch-m", None, member=made.ids[0], epoch=0))
    ask("member unknown", fetch("fetch-m", None, member="client-x", epoch=1))
    ask("no member", fetch("fetch-m", None))


def topic_goes(probe: GroupProbe) -> None:
    """The topic of an offset is deleted."""
    probe.topic("goes")
    topics = {"goes": {0: 5}}
    probe.must("offset_commit", 9, commit("keeps", topics))
    probe.must("delete_topics", 6, {"topics": [{"name": "goes"}], "timeout": 5000})
    time.sleep(1)
    probe.ask("OffsetFetch", "offset_fetch", 9, fetch("keeps", {"goes": (0,)}))
    probe.ask("OffsetFetch of everything", "offset_fetch", 9, fetch("keeps", None))
    describe(probe, "the group then", "keeps")
    topic_id = probe.topic("goes")
    probe.ask("OffsetFetch of the new one", "offset_fetch", 9, fetch("keeps", {"goes": (0,)}))
    probe.ask("OffsetFetch of the new one by id", "offset_fetch", 10,
              fetch("keeps", {"goes": (0,)}, topic_id=topic_id))  # fmt: skip


def delete(group: str, *rows: tuple[str, tuple[int, ...]]) -> Plain:
    """An OffsetDelete body."""
    topics = [
        {"name": name, "partitions": [{"partition_index": number} for number in numbers]}
        for name, numbers in rows
    ]
    return {"group_id": group, "topics": topics}


def delete_offsets(probe: GroupProbe) -> None:
    """OffsetDelete."""
    for name in ("del-one", "del-two"):
        probe.topic(name, 2)
    offsets = {"del-one": {0: 1, 1: 1}, "del-two": {0: 2, 1: 2}}

    def ask(name: str, body: Plain) -> None:
        probe.ask(name, "offset_delete", 0, body)

    ask("unknown group", delete("no-group", ("del-one", (0,))))
    probe.must("offset_commit", 9, commit("del-simple", offsets))
    ask("simple group", delete("del-simple", ("del-one", (0,))))
    ask("again", delete("del-simple", ("del-one", (0,))))
    ask("unknown partition and topic",
        delete("del-simple", ("del-one", (1, 7)), ("no-topic", (0,))))  # fmt: skip
    ask("nothing", delete("del-simple"))
    ask("a topic without partitions", delete("del-simple", ("del-two", ())))
    ask("one partition twice", delete("del-simple", ("del-two", (0, 0))))
    probe.ask("what is left", "offset_fetch", 9, fetch("del-simple", None))
    ask("the last", delete("del-simple", ("del-two", (1,))))
    describe(probe, "the group without offsets", "del-simple")
    made = stable(probe, "del-active", protocols=(("range", subscription("del-one")),))
    probe.must("offset_commit", 9,
               commit("del-active", offsets, member=made.ids[0], generation=1))  # fmt: skip
    ask("active, subscribed and not", delete("del-active", ("del-one", (0,)), ("del-two", (0,))))
    probe.must("leave_group", 5, leave("del-active", (made.ids[0], None)))
    ask("empty, once subscribed", delete("del-active", ("del-one", (0,))))
    made = stable(probe, "del-garbage", protocols=(("range", b"\xff"),))
    probe.must("offset_commit", 9,
               commit("del-garbage", offsets, member=made.ids[0], generation=1))  # fmt: skip
    ask("active, unreadable subscription", delete("del-garbage", ("del-one", (0,))))
    made = stable(probe, "del-connect", protocol_type="connect")
    probe.must("offset_commit", 9,
               commit("del-connect", offsets, member=made.ids[0], generation=1))  # fmt: skip
    ask("active, no consumers", delete("del-connect", ("del-one", (0,))))
    probe.must("leave_group", 5, leave("del-connect", (made.ids[0], None)))
    ask("empty, no consumers", delete("del-connect", ("del-one", (0,))))
    protocols = (("range", subscription("del-one")),)
    joined(probe, "del-completing", 1, protocols=protocols)
    ask("completing", delete("del-completing", ("del-one", (0,)), ("del-two", (0,))))


SCENARIOS: tuple[GroupScenario, ...] = (
    commit_versions, commit_details, commit_to_members, commit_extends_the_session,
    fetch_details, topic_goes, delete_offsets,
)  # fmt: skip
