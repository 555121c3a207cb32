"""What is asked when reading: Fetch and its sessions, ListOffsets, epochs, DeleteRecords."""

from typing import Any, Final

from tests.compat.batches import FIXED_TIME_MS, Rec, make_batch
from tests.compat.clients.probe import Probe, Scenario
from tests.compat.clients.probe_metadata import UNKNOWN_ID
from tests.compat.raw import Plain, versions

MIB: Final = 1 << 20
T: Final = FIXED_TIME_MS


def _fill(probe: Probe, topic: str) -> None:
    """Ten records in four batches: offsets 0-2, 3-5, 6-8, 9; times T, T+10, T+20 ... T+90."""
    for start, count in ((0, 3), (3, 3), (6, 3), (9, 1)):
        records = [Rec(value=b"x" * 100, timestamp=T + 10 * n) for n in range(start, start + count)]
        probe.append(topic, make_batch(records))


def _fetch(topic: str, offset: int, version: int = 12, **options: Any) -> Plain:
    row = {
        "partition": options.pop("partition", 0),
        "fetch_offset": offset,
        "partition_max_bytes": options.pop("partition_max_bytes", MIB),
        "current_leader_epoch": options.pop("current_leader_epoch", -1),
        "last_fetched_epoch": options.pop("last_fetched_epoch", -1),
        "log_start_offset": options.pop("log_start_offset", -1),
    }
    key = "topic_id" if version >= 13 else "topic"
    body = {"max_wait": 0, "min_bytes": 1, "max_bytes": MIB, "replica_id": -1}
    return {**body, "topics": [{key: topic, "partitions": [row]}], **options}


def fetch(probe: Probe) -> None:
    topic_id = probe.make_topic("read", 2)
    _fill(probe, "read")
    for version in versions("fetch"):
        name = topic_id if version >= 13 else "read"
        probe.ask(f"Fetch v{version}, from 0", "fetch", version, _fetch(name, 0, version))

    def ask(label: str, offset: int, topic: str = "read", **options: Any) -> None:
        probe.ask(f"Fetch v12, {label}", "fetch", 12, _fetch(topic, offset, **options))

    ask("inside a batch (offset 4 of 3-5)", 4)
    ask("at the end", 10)
    ask("one beyond the end", 11)
    ask("negative offset", -1)
    ask("empty partition, offset 0", 0, partition=1)
    ask("empty partition, offset 1", 1, partition=1)
    ask("unknown partition", 0, partition=9)
    ask("unknown topic", 0, topic="unread")
    ask("invalid topic name", 0, topic="a/b")
    ask("partition_max_bytes 1 (first batch comes whole)", 0, partition_max_bytes=1)
    ask("partition_max_bytes of about two and a half batches", 0, partition_max_bytes=900)
    ask("max_bytes 1", 0, max_bytes=1)
    ask("max_bytes 0", 0, max_bytes=0)
    ask("partition_max_bytes 0", 0, partition_max_bytes=0)
    ask("partition_max_bytes negative", 0, partition_max_bytes=-1)
    ask("current leader epoch 0", 0, current_leader_epoch=0)
    ask("current leader epoch 5 (unknown)", 0, current_leader_epoch=5)
    ask("last fetched epoch 0", 0, last_fetched_epoch=0)
    ask("last fetched epoch 3", 0, last_fetched_epoch=3)
    ask("read committed", 0, isolation_level=1)
    ask("isolation level 7", 0, isolation_level=7)
    ask("replica id 5 (not a replica)", 0, replica_id=5)
    ask("log start offset 100 from a consumer", 0, log_start_offset=100)
    probe.ask("Fetch v13, unknown topic id", "fetch", 13, _fetch(UNKNOWN_ID, 0, 13))
    probe.ask("Fetch v13, zero topic id", "fetch", 13,
              _fetch("00000000-0000-0000-0000-000000000000", 0, 13))  # fmt: skip
    twice = _fetch("read", 9)
    twice["topics"] *= 2
    probe.ask("Fetch v12, same partition twice", "fetch", 12, twice)
    many = _fetch("read", 0)
    many["topics"] += _fetch("unread", 0)["topics"] + _fetch("read", 99, partition=1)["topics"]
    probe.ask("Fetch v12, one good, one unknown, one out of range", "fetch", 12, many)
    probe.ask("Fetch v12, no topics, no session", "fetch", 12,
              {"max_wait": 0, "min_bytes": 1, "max_bytes": MIB, "replica_id": -1})  # fmt: skip


def fetch_sessions(probe: Probe) -> None:
    topic_id = probe.make_topic("session", 3)
    other_id = probe.make_topic("session-other", 1)
    probe.append("session", make_batch([Rec()]))

    def ask(label: str, session: int, epoch: int, **options: Any) -> Plain:
        offset = options.pop("offset", 0)
        body = _fetch(topic_id, offset, 13, session_id=session, session_epoch=epoch, **options)
        return probe.ask(f"Fetch v13, session: {label}", "fetch", 13, body)

    first = ask("id 0, epoch 0 asks for a new one", 0, 0)
    number = first["session_id"]
    ask("next epoch, offset moved on: nothing new", number, 1, offset=1, topics=[])
    ask("next epoch, partition updated", number, 2, offset=1)
    probe.append("session", make_batch([Rec(value=b"second")]))
    ask("next epoch, new data for a known partition", number, 3, topics=[])
    ask("same data again, offset not moved", number, 4, topics=[])
    ask("epoch skipped", number, 9, topics=[])
    ask("unknown session id", 12345, 1, topics=[])
    ask("id 0, epoch 1", 0, 1)
    ask("id 0, epoch -1 (sessionless)", 0, -1)
    ask("partition added", number, 5, topics=_fetch(other_id, 0, 13)["topics"])
    ask("partition forgotten", number, 6, topics=[],
        forgotten_topics_data=[{"topic_id": topic_id, "partitions": [0]}])  # fmt: skip
    ask("unknown topic id inside a session", number, 7, topics=_fetch(UNKNOWN_ID, 0, 13)["topics"])
    ask("and again in the next epoch", number, 8, topics=[])
    ask("out of range inside a session", number, 9, topics=_fetch(other_id, 7, 13)["topics"])
    ask("and again in the next epoch (out of range)", number, 10, topics=[])
    ask("close with epoch -1", number, -1, topics=[])
    ask("closed session used", number, 11, topics=[])
    by_name = _fetch("session", 0, 12, session_id=0, session_epoch=0)
    old = probe.ask("Fetch v12, session made by name", "fetch", 12, by_name)
    mixed = _fetch(topic_id, 0, 13, session_id=old["session_id"], session_epoch=1)
    probe.ask("Fetch v13 on a session made by v12", "fetch", 13, mixed)


def list_offsets(probe: Probe) -> None:
    probe.make_topic("listed", 2)
    _fill(probe, "listed")

    def ask(label: str, timestamp: int, version: int = 11, topic: str = "listed",
            **row: Any) -> None:  # fmt: skip
        options = {"isolation_level": row.pop("isolation_level", 0), "replica_id": -1,
                   "timeout": 1000}  # fmt: skip
        partition = {"partition_index": 0, "timestamp": timestamp, **row}
        probe.ask(f"ListOffsets v{version}, {label}", "list_offsets", version,
                  {**options, "topics": [{"name": topic, "partitions": [partition]}]})  # fmt: skip

    for version in versions("list_offsets"):
        ask("latest (-1)", -1, version)
        ask("max timestamp (-3)", -3, version)
    specials = {"earliest (-2)": -2, "earliest local (-4)": -4, "latest tiered (-5)": -5,
                "earliest pending upload (-6)": -6, "-7": -7, "-99": -99}  # fmt: skip
    for label, timestamp in specials.items():
        ask(label, timestamp)
        ask(f"{label} of an empty partition", timestamp, partition_index=1)
    ask("latest of an empty partition", -1, partition_index=1)
    ask("max timestamp of an empty partition", -3, partition_index=1)
    ask("time 0 of an empty partition", 0, partition_index=1)
    ask("-4 at v7", -4, 7)
    ask("-5 at v8", -5, 8)
    ask("-6 at v10", -6, 10)
    ask("time 0", 0)
    ask("time T+40: inside the second batch", T + 40)
    ask("time T+41: next record is offset 5", T + 41)
    ask("time T+90: the last", T + 90)
    ask("time after the last", T + 91)
    ask("read committed latest", -1, isolation_level=1)
    ask("unknown topic", -1, topic="unlisted")
    ask("unknown partition", -1, partition_index=9)
    ask("invalid topic name", -1, topic="a/b")
    ask("leader epoch 0", -1, current_leader_epoch=0)
    ask("leader epoch 5 (unknown)", -1, current_leader_epoch=5)
    row = {"partition_index": 0, "timestamp": -1}
    probe.ask("ListOffsets v11, same partition twice", "list_offsets", 11,
              {"replica_id": -1,
               "topics": [{"name": "listed", "partitions": [row, row]}]})  # fmt: skip
    probe.ask("ListOffsets v11, replica id 5", "list_offsets", 11,
              {"replica_id": 5, "topics": [{"name": "listed", "partitions": [row]}]})  # fmt: skip
    equal = [Rec(timestamp=T + 500), Rec(timestamp=T + 500), Rec(timestamp=T + 100)]
    probe.append("listed", make_batch(equal))
    ask("max timestamp when two records share it", -3)


def offset_for_leader_epoch(probe: Probe) -> None:
    probe.make_topic("epochs", 2)
    probe.append("epochs", make_batch([Rec()] * 5))

    def ask(label: str, epoch: int, version: int = 4, topic: str = "epochs", **row: Any) -> None:
        partition = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": -1, **row}
        probe.ask(f"OffsetForLeaderEpoch v{version}, {label}", "offset_for_leader_epoch", version,
                  {"replica_id": -1,
                   "topics": [{"topic": topic, "partitions": [partition]}]})  # fmt: skip

    for version in versions("offset_for_leader_epoch"):
        ask("epoch 0", 0, version)
    ask("epoch 5 (not yet)", 5)
    ask("epoch -1", -1)
    ask("empty partition, epoch 0", 0, partition=1)
    ask("current epoch 5 (unknown)", 0, current_leader_epoch=5)
    ask("unknown partition", 0, partition=9)
    ask("unknown topic", 0, topic="no-epochs")


def delete_records(probe: Probe) -> None:
    probe.make_topic("trimmed", 2)
    _fill(probe, "trimmed")

    def ask(label: str, offset: int, topic: str = "trimmed", partition: int = 0) -> None:
        row = {"partition_index": partition, "offset": offset}
        probe.ask(f"DeleteRecords v2, {label}", "delete_records", 2,
                  {"topics": [{"name": topic, "partitions": [row]}], "timeout": 5000})  # fmt: skip

    ask("before 4 (inside a batch)", 4)
    probe.ask("    Fetch v12 below the log start", "fetch", 12, _fetch("trimmed", 3))
    probe.ask("    Fetch v12 at the log start, inside a batch", "fetch", 12, _fetch("trimmed", 4))
    ask("before 2: lower than the log start", 2)
    ask("beyond the high watermark", 11)
    ask("offset -2", -2)
    ask("everything (-1)", -1)
    ask("empty partition, -1", -1, partition=1)
    ask("unknown partition", 0, partition=9)
    ask("unknown topic", 0, topic="untrimmed")
    ask("invalid topic name", 0, topic="a/b")
    probe.make_topic("untrimmable", 1, cleanup_policy="compact")
    ask("compacted topic", 0, topic="untrimmable")
    probe.ask("    ListOffsets v11 earliest of the emptied partition", "list_offsets", 11,
              {"replica_id": -1, "topics": [{"name": "trimmed", "partitions": [
                  {"partition_index": 0, "timestamp": -2}]}]})  # fmt: skip


SCENARIOS: Final[tuple[Scenario, ...]] = (
    fetch,
    fetch_sessions,
    list_offsets,
    offset_for_leader_epoch,
    delete_records,
)
