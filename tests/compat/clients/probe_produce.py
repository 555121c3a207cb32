"""What is asked when writing: Produce in right and wrong ways, InitProducerId, producer state."""

import time
from typing import Any, Final

from tests.compat.batches import FIXED_TIME_MS, Lies, Rec, make_batch
from tests.compat.clients.probe import Probe, Scenario, produce_body
from tests.compat.clients.probe_metadata import UNKNOWN_ID
from tests.compat.raw import ConnectionGone, versions

ONE: Final = [Rec(value=b"one")]
THREE: Final = [Rec(value=b"a"), Rec(value=b"b", timestamp=FIXED_TIME_MS + 5), Rec(value=b"c")]
PRODUCER: Final = 4_000_000
FAR_FUTURE_MS: Final = 32_503_680_000_000


def produce_versions(probe: Probe) -> None:
    topic_id = probe.make_topic("written", 2)
    for version in versions("produce"):
        probe.produce(f"Produce v{version}", topic_id if version >= 13 else "written",
                      make_batch(THREE), version=version)  # fmt: skip
    for acks in (1, -1, 2, -2, 5):
        probe.produce(f"Produce v12, acks={acks}", "written", make_batch(ONE), acks=acks)
    probe.produce("Produce v12, unknown topic", "unwritten", make_batch(ONE))
    probe.produce("Produce v12, invalid topic name", "a/b", make_batch(ONE))
    probe.produce("Produce v12, unknown partition", "written", make_batch(ONE), partition=9)
    probe.produce("Produce v12, negative partition", "written", make_batch(ONE), partition=-1)
    probe.produce("Produce v13, unknown topic id", UNKNOWN_ID, make_batch(ONE), version=13)
    probe.produce("Produce v12, a transactional id on a plain batch", "written", make_batch(ONE),
                  transactional_id="t")  # fmt: skip
    two = {"index": 0, "records": make_batch(ONE)}, {"index": 7, "records": make_batch(ONE)}
    probe.ask("Produce v12, one good and one unknown partition", "produce", 12,
              {"acks": -1, "timeout": 1000,
               "topic_data": [{"name": "written", "partition_data": list(two)}]})  # fmt: skip
    probe.ask("Produce v12, no topics", "produce", 12, {"acks": -1, "timeout": 1000})
    again = {"index": 0, "records": make_batch(ONE)}
    probe.ask("Produce v12, same partition twice", "produce", 12,
              {"acks": -1, "timeout": 1000,
               "topic_data": [{"name": "written", "partition_data": [again, again]}]})  # fmt: skip


def produce_acks_zero(probe: Probe) -> None:
    probe.make_topic("unanswered")
    for label, topic, data in (
        ("good", "unanswered", make_batch(ONE)),
        ("unknown topic", "unwritten", make_batch(ONE)),
        ("bad crc", "unanswered", make_batch(ONE, lies=Lies(crc_xor=1))),
    ):
        probe.connection.tell("produce", 12, produce_body(topic, data, acks=0))
        try:
            probe.connection.ask("metadata", 12, {"topics": []})
            answer = {"connection": "stays open, nothing is answered"}
        except ConnectionGone:
            probe.reconnect()
            answer = {"connection": "closed"}
        probe.answers[f"Produce v12, acks=0, {label}"] = {"api": "produce v12", "answer": answer}


def produce_bad_batches(probe: Probe) -> None:
    good = make_batch(THREE)
    length_lie = bytearray(good)
    length_lie[8:12] = (len(good) * 2).to_bytes(4, "big")
    short_lie = bytearray(good)
    short_lie[8:12] = (20).to_bytes(4, "big")
    cases: dict[str, bytes | None] = {
        "null records": None,
        "empty records": b"",
        "bad crc": make_batch(THREE, lies=Lies(crc_xor=1)),
        "magic 0": make_batch(THREE, lies=Lies(magic=0)),
        "magic 1": make_batch(THREE, lies=Lies(magic=1)),
        "magic 3": make_batch(THREE, lies=Lies(magic=3)),
        "magic -1": make_batch(THREE, lies=Lies(magic=-1)),
        "base offset 100": make_batch(THREE, lies=Lies(base_offset=100)),
        "count says 2 of 3": make_batch(THREE, lies=Lies(count=2, last_offset_delta=2)),
        "count says 4 of 3": make_batch(THREE, lies=Lies(count=4, last_offset_delta=3)),
        "last offset delta 5 with 3 records": make_batch(THREE, lies=Lies(last_offset_delta=5)),
        "no records, count 0": make_batch([], lies=Lies(last_offset_delta=0)),
        "max timestamp lies": make_batch(THREE, lies=Lies(max_timestamp=1)),
        "two batches": make_batch(ONE) + make_batch(THREE),
        "batch cut short": good[:-3],
        "batch and a few bytes more": good + b"\0\0\0",
        "length beyond the data": bytes(length_lie),
        "length below a header": bytes(short_lie),
        "fewer bytes than a header": good[:20],
        "control batch": make_batch(ONE, attributes=0x20),
        "transactional batch, no transactional id": make_batch(
            ONE, attributes=0x10, producer=(PRODUCER, 0, 0)
        ),
        "unknown codec 5": make_batch(ONE, attributes=5),
        "codec gzip, but the bytes are not": make_batch(ONE, attributes=1),
        "codec zstd, but the bytes are not": make_batch(ONE, attributes=4),
        "timestamp -1": make_batch([Rec(timestamp=-1)]),
        "timestamp -2": make_batch([Rec(timestamp=-2)]),
        "timestamp far in the future": make_batch([Rec(timestamp=FAR_FUTURE_MS)]),
        "log append time flag set by the client": make_batch(ONE, attributes=0x08),
        "sequence without producer id": make_batch(ONE, producer=(-1, -1, 3)),
        "producer id without sequence": make_batch(ONE, producer=(PRODUCER, 0, -1)),
        "producer id without epoch": make_batch(ONE, producer=(PRODUCER, -1, 0)),
        "producer id -2": make_batch(ONE, producer=(-2, 0, 0)),
    }
    for n, (label, data) in enumerate(cases.items()):
        probe.make_topic(f"checked-{n}")
        probe.produce(f"Produce v12, {label}", f"checked-{n}", data)
    probe.make_topic("checked")
    probe.produce("Produce v6 with zstd codec bits", "checked", make_batch(ONE, attributes=4),
                  version=6)  # fmt: skip
    probe.produce("Produce v7, bad crc", "checked", make_batch(ONE, lies=Lies(crc_xor=1)),
                  version=7)  # fmt: skip


def produce_topic_rules(probe: Probe) -> None:
    probe.make_topic("small-only", 1, max_message_bytes="1000")
    probe.produce("Produce v12, batch above max.message.bytes", "small-only",
                  make_batch([Rec(value=b"x" * 2000)]))  # fmt: skip
    exact = make_batch([Rec(value=b"x" * (1000 - 71 - 1))])
    probe.answers["(bytes of the batch at the limit)"] = {"api": "", "answer": len(exact)}
    probe.produce("Produce v12, batch of exactly max.message.bytes (1000)", "small-only",
                  make_batch([Rec(value=b"x" * (1000 - len(exact) + 928))]))  # fmt: skip
    probe.produce("Produce v12, batch of max.message.bytes + 1", "small-only",
                  make_batch([Rec(value=b"x" * (1000 - len(exact) + 929))]))  # fmt: skip
    probe.make_topic("stamped", 1, message_timestamp_type="LogAppendTime")
    probe.produce("Produce v12, LogAppendTime topic", "stamped", make_batch(THREE))
    probe.make_topic("keyed", 1, cleanup_policy="compact")
    probe.produce("Produce v12, no key to a compacted topic", "keyed", make_batch(THREE))
    mixed = [Rec(key=b"k"), Rec(), Rec(key=b"k"), Rec()]
    probe.produce("Produce v12, some without key to a compacted topic", "keyed", make_batch(mixed))
    probe.produce("Produce v12, keys to a compacted topic", "keyed", make_batch([Rec(key=b"k")]))
    probe.make_topic("punctual", 1, message_timestamp_before_max_ms="60000",
                     message_timestamp_after_max_ms="60000")  # fmt: skip
    probe.produce("Produce v12, older than message.timestamp.before.max.ms", "punctual",
                  make_batch([Rec(timestamp=1000), Rec(timestamp=2000)]))  # fmt: skip
    probe.produce("Produce v12, newer than message.timestamp.after.max.ms", "punctual",
                  make_batch([Rec(timestamp=FAR_FUTURE_MS)]))  # fmt: skip
    probe.make_topic("squeezed", 1, compression_type="zstd")
    probe.produce("Produce v12, topic with compression.type=zstd", "squeezed", make_batch(THREE))
    probe.ask("    and what is stored then", "fetch", 12, {
        "max_wait": 100, "min_bytes": 1, "max_bytes": 1 << 20,
        "topics": [{"topic": "squeezed", "partitions": [
            {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]}]})  # fmt: skip
    probe.make_topic("tight", 1, min_insync_replicas="2")
    probe.produce("Produce v12, min.insync.replicas=2 with one replica, acks=all", "tight",
                  make_batch(ONE))  # fmt: skip
    probe.produce("Produce v12, min.insync.replicas=2 with one replica, acks=1", "tight",
                  make_batch(ONE), acks=1)  # fmt: skip
    probe.make_topic("short-segments", 1, segment_bytes="1048576", max_message_bytes="3000000")
    probe.produce("Produce v12, batch above segment.bytes", "short-segments",
                  make_batch([Rec(value=b"x" * 2_000_000)]))  # fmt: skip


def idempotence(probe: Probe) -> None:
    probe.make_topic("once", 2)
    steps: tuple[tuple[str, tuple[int, int, int], int, int], ...] = (
        ("first batch, sequence 0", (PRODUCER, 0, 0), 1, 0),
        ("next batch of 3, sequence 1", (PRODUCER, 0, 1), 3, 0),
        ("duplicate of sequence 1", (PRODUCER, 0, 1), 3, 0),
        ("duplicate of sequence 0", (PRODUCER, 0, 0), 1, 0),
        ("gap: sequence 9", (PRODUCER, 0, 9), 1, 0),
        ("sequence 1 again with another length", (PRODUCER, 0, 1), 1, 0),
        ("sequence 4", (PRODUCER, 0, 4), 1, 0),
        ("sequence 5", (PRODUCER, 0, 5), 1, 0),
        ("sequence 6", (PRODUCER, 0, 6), 1, 0),
        ("sequence 7", (PRODUCER, 0, 7), 1, 0),
        ("sequence 8", (PRODUCER, 0, 8), 1, 0),
        ("duplicate older than five batches", (PRODUCER, 0, 0), 1, 0),
        ("epoch 1 starts at sequence 4", (PRODUCER, 1, 4), 1, 0),
        ("epoch 1 starts at sequence 0", (PRODUCER, 1, 0), 1, 0),
        ("old epoch 0", (PRODUCER, 0, 9), 1, 0),
        ("unknown producer starts at sequence 5", (PRODUCER + 1, 0, 5), 1, 0),
        ("known producer on another partition, sequence 7", (PRODUCER, 1, 7), 1, 1),
        ("sequence near the wrap", (PRODUCER + 2, 0, 2**31 - 2), 3, 0),
        ("after the wrap, sequence 1", (PRODUCER + 2, 0, 1), 1, 0),
    )
    for label, producer, count, partition in steps:
        probe.produce(f"Produce v12, idempotent: {label}", "once",
                      make_batch(ONE * count, producer=producer), partition=partition)  # fmt: skip
    both = make_batch(ONE, producer=(PRODUCER + 3, 0, 0)) + make_batch(
        ONE, producer=(PRODUCER + 3, 0, 1)
    )
    probe.produce("Produce v12, idempotent: two batches in one request", "once", both)
    probe.produce("Produce v9, idempotent: gap", "once",
                  make_batch(ONE, producer=(PRODUCER, 1, 50)), version=9)  # fmt: skip
    probe.ask("DescribeProducers", "describe_producers", 0,
              {"topics": [{"name": "once", "partition_indexes": [0, 1, 9]},
                          {"name": "never", "partition_indexes": [0]},
                          {"name": "a/b", "partition_indexes": [0]}]})  # fmt: skip
    probe.ask("DescribeProducers, no topics", "describe_producers", 0, {"topics": []})


def init_producer_id(probe: Probe) -> None:
    api = "init_producer_id"

    def ask(label: str, version: int, **body: Any) -> None:
        probe.ask(f"InitProducerId v{version}, {label}", api, version, body)

    # A Kafka that has never given out a producer id fetches its first block of them now.
    while probe.quietly(api, 5, {})["error_code"] == "COORDINATOR_LOAD_IN_PROGRESS":
        time.sleep(0.1)
    for version in range(6):
        ask("idempotent", version, transaction_timeout=60_000)
    ask("timeout 0, no transactional id", 4, transaction_timeout=0)
    ask("known id and epoch, no transactional id", 4, transaction_timeout=1, producer_id=1000,
        producer_epoch=0)  # fmt: skip
    ask("id without epoch", 4, transaction_timeout=1, producer_id=5, producer_epoch=-1)
    ask("epoch without id", 4, transaction_timeout=1, producer_id=-1, producer_epoch=5)
    ask("empty transactional id", 4, transactional_id="", transaction_timeout=60_000)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    produce_versions,
    produce_acks_zero,
    produce_bad_batches,
    produce_topic_rules,
    idempotence,
    init_producer_id,
)
