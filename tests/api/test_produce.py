"""Produce: what is taken, what is refused and how, at every version."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.conftest import T
from tests.api.hot_path import (
    PRODUCE_VERSIONS,
    UNKNOWN_ID,
    Row,
    StillClock,
    batch,
    fetch_one,
    produce,
    produce_frame,
    stored,
)

from barnabas.model.errors import DecodeError, ErrorCode
from barnabas.wire.records.batch import LOG_APPEND_TIME, assemble, parse_header, walk
from barnabas.wire.records.compression import CODECS_BY_NAME
from barnabas.wire.records.record import decode_batch, encode_batch

if TYPE_CHECKING:
    from tests.api.conftest import House

THREE = batch(b"one", b"two", b"three")
ONE = batch(b"one")
FAR_AHEAD = 32_503_680_000_000


def _records(house: House, topic: str = "t", index: int = 0) -> bytes:
    """Everything in a partition, as a consumer gets it."""
    data: bytes = fetch_one(
        house, topic, house.partition(topic, index).log.start_offset, 12, index
    )["records"]
    return data


def _row(house: House, records: bytes | None, version: int = 12, **options: Any) -> Row:
    """What becomes of one partition's records."""
    (row,) = produce(house, version, ("t", 0, records), **options)
    return row


def _changed(data: bytes, **fields: int) -> bytes:
    """The batch with other header fields, and a checksum that matches."""
    header = parse_header(data)._replace(**fields)
    return assemble(header, data[61:])


def _set(data: bytes, at: int, value: bytes) -> bytes:
    """The batch with other bytes, whatever the checksum says."""
    return data[:at] + value + data[at + len(value) :]


# --- success ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("acks", [-1, 1])
def test_records_are_stored_as_they_came(house: House, version: int, acks: int) -> None:
    topic_id = house.topic("t")
    expected: Row = {"index": 0, "error_code": "none", "log_append_time": None}
    if version >= 5:
        expected |= {"log_start_offset": 0}
    if version >= 8:
        expected |= {"record_errors": [], "error_message": None}
    if version >= 10:
        expected |= {"current_leader": {"leader_id": -1, "leader_epoch": -1}}
    for base in (0, 3, 6):
        answer = house.ask(
            "produce",
            version,
            acks=acks,
            topic_data=[
                {
                    **({"topic_id": topic_id} if version >= 13 else {"name": "t"}),
                    "partition_data": [{"index": 0, "records": THREE}],
                }
            ],
        )
        (topic,) = answer["responses"]
        assert topic.get("topic_id", topic_id) == topic_id
        assert topic.get("name", "t") == "t"
        assert topic["partition_responses"] == [{**expected, "base_offset": base}]
    assert _records(house) == b"".join(stored(THREE, base) for base in (0, 3, 6))


def test_the_leader_epoch_is_stamped(house: House) -> None:
    house.topic("t")
    house.partition("t").leader_epoch = 7
    assert _row(house, THREE)["error_code"] == "none"
    assert _records(house) == stored(THREE, 0, 7)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_no_topics_are_answered_with_none(house: House, version: int) -> None:
    assert produce(house, version) == []


def test_a_few_bytes_behind_the_batch_are_left_out(house: House) -> None:
    house.topic("t")
    assert _row(house, THREE + b"\0\0\0")["base_offset"] == 0
    assert _row(house, ONE)["base_offset"] == 3
    assert _records(house) == stored(THREE, 0) + stored(ONE, 3)


@pytest.mark.parametrize("stamp", [-1, -2])
def test_records_need_no_time(house: House, stamp: int) -> None:
    house.topic("t")
    assert _row(house, batch(b"v", at=stamp))["error_code"] == "none"


def test_the_broker_decides_whose_time_it_is(house: House) -> None:
    house.topic("t")
    assert _row(house, _changed(ONE, attributes=LOG_APPEND_TIME))["log_append_time"] is None
    assert _records(house) == stored(ONE, 0)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_log_append_time(build_house: Callable[..., House], version: int) -> None:
    clock = StillClock()
    house = build_house(clock=clock)
    house.topic("t", message_timestamp_type="LogAppendTime")
    row = _row(house, THREE, version)
    assert row["log_append_time"] == datetime.fromtimestamp(clock.now_ms / 1000, UTC)
    data = _records(house)
    assert parse_header(data).attributes == LOG_APPEND_TIME
    assert [each.timestamp for each in decode_batch(data)] == [clock.now_ms] * 3
    assert [each.value for each in decode_batch(data)] == [b"one", b"two", b"three"]


# --- where to -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize(
    ("topic", "index"), [("nowhere", 0), ("t", 9), ("t", -1), ("t", 2**31 - 1), ("a/b", 0)]
)
def test_what_is_not_here(house: House, version: int, topic: str, index: int) -> None:
    house.topic("t")
    (row,) = produce(house, version, (topic, index, ONE))
    by_id = version >= 13 and topic != "t"
    assert row["error_code"] == ("unknown_topic_id" if by_id else "unknown_topic_or_partition")
    assert (row["index"], row["base_offset"], row.get("log_start_offset", -1)) == (index, -1, -1)


def test_a_topic_is_found_by_its_present_id_only(house: House) -> None:
    house.topic("t")
    frame = produce_frame(house, 13, ("t", 0, ONE))
    house.run(house.cluster.delete_topics(["t"]))
    assert house.topic("t") != UNKNOWN_ID
    answer = house.read(0, 13, frame)
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.unknown_topic_id


def test_a_partition_whose_files_are_damaged(house: House) -> None:
    house.topic("t", 2)
    hosted = house.replicas.by_name["t"]
    del hosted.partitions[1]
    hosted.damaged[1] = "It is broken."
    bad, good = produce(house, 12, ("t", 1, ONE), ("t", 0, ONE))
    assert (bad["error_code"], bad["error_message"]) == ("kafka_storage_error", "It is broken.")
    assert good["error_code"] == "none"


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_each_partition_stands_for_itself(house: House, version: int) -> None:
    house.topic("t", 2)
    house.topic("u")
    bad = _set(ONE, 20, bytes([ONE[20] ^ 1]))
    rows = produce(
        house,
        version,
        ("t", 0, ONE),
        ("t", 7, ONE),
        ("u", 0, bad),
        ("nowhere", 0, ONE),
        ("t", 1, THREE),
    )
    said = [(each["index"], each["error_code"], each["base_offset"]) for each in rows]
    missing = "unknown_topic_id" if version >= 13 else "unknown_topic_or_partition"
    # The partitions of a topic are answered together, wherever in the request they stood.
    assert said == [
        (0, "none", 0),
        (7, "unknown_topic_or_partition", -1),
        (1, "none", 0),
        (0, "corrupt_message", -1),
        (0, missing, -1),
    ]
    assert (_records(house), _records(house, index=1)) == (stored(ONE, 0), stored(THREE, 0))


@pytest.mark.parametrize("apart", [False, True])
def test_a_partition_named_twice_is_answered_once(house: House, apart: bool) -> None:
    house.topic("t")
    house.topic("u")
    between = [("u", 0, ONE)] if apart else []
    rows = produce(house, 12, ("t", 0, ONE), *between, ("t", 0, THREE))
    assert [each["error_code"] for each in rows] == ["none"] * (1 + len(between))
    assert _records(house) == stored(THREE, 0)


# --- what is refused ----------------------------------------------------------------------------

_TOLD, _UNTOLD = 0, -1
"""Whether the log start comes with the refusal."""

_REFUSED: dict[str, tuple[bytes | None, str, int]] = {
    "null": (None, "invalid_record", _UNTOLD),
    "empty": (b"", "invalid_record", _UNTOLD),
    "fewer bytes than a header": (THREE[:20], "invalid_record", _UNTOLD),
    "a header and no more": (THREE[:61], "invalid_record", _UNTOLD),
    "cut short": (THREE[:-3], "invalid_record", _UNTOLD),
    "length beyond the data": (_set(THREE, 8, b"\0\1\0\0"), "invalid_record", _UNTOLD),
    "length below a header": (_set(THREE, 8, b"\0\0\0\5"), "corrupt_message", _UNTOLD),
    "negative length": (_set(THREE, 8, b"\xff\xff\xff\xff"), "corrupt_message", _UNTOLD),
    "two batches": (ONE + THREE, "invalid_record", _UNTOLD),
    "bad checksum": (_set(THREE, 17, b"\1\2\3\4"), "corrupt_message", _UNTOLD),
    "damaged record": (_set(THREE, 70, b"\x7f"), "corrupt_message", _UNTOLD),
    "magic 0": (_set(THREE, 16, b"\0"), "invalid_record", _UNTOLD),
    "magic 1": (_set(THREE, 16, b"\1"), "invalid_record", _UNTOLD),
    "magic 3": (_set(THREE, 16, b"\3"), "corrupt_message", _UNTOLD),
    "magic -1": (_set(THREE, 16, b"\xff"), "corrupt_message", _UNTOLD),
    "base offset 100": (_changed(THREE, base_offset=100), "invalid_record", _TOLD),
    "count 2 of 3": (_changed(THREE, count=2), "invalid_record", _TOLD),
    "last offset delta 5": (_changed(THREE, last_offset_delta=5), "invalid_record", _TOLD),
    "no records": (_changed(THREE, count=0, last_offset_delta=-1), "invalid_record", _TOLD),
    "negative count": (_changed(THREE, count=-1, last_offset_delta=-2), "invalid_record", _TOLD),
    "control batch": (_changed(ONE, attributes=0x20), "invalid_record", _TOLD),
    "codec 5": (_changed(ONE, attributes=5), "unsupported_compression_type", _UNTOLD),
    "far ahead": (batch(b"v", at=FAR_AHEAD), "invalid_timestamp", _TOLD),
    "id without sequence": (
        batch(b"v", producer_id=5, producer_epoch=0, base_sequence=-1),
        "invalid_record",
        _TOLD,
    ),
    "transactional": (
        batch(b"v", transactional=True, producer_id=5, producer_epoch=0, base_sequence=0),
        "transactional_id_authorization_failed",
        _UNTOLD,
    ),
}


@pytest.mark.parametrize("label", _REFUSED)
def test_refused_at_every_version(house: House, label: str) -> None:
    records, error, log_start = _REFUSED[label]
    house.topic("t")
    for version in PRODUCE_VERSIONS:
        row = _row(house, records, version)
        assert row["error_code"] == error
        assert (row["base_offset"], row["log_append_time"]) == (-1, None)
        assert row.get("log_start_offset", log_start) == log_start
        assert row.get("record_errors", []) == []
    assert house.partition("t").log.end_offset == 0
    # Nothing of it stays behind.
    assert _row(house, ONE)["base_offset"] == 0


def test_the_log_start_that_is_told_is_the_present_one(house: House) -> None:
    house.topic("t")
    assert _row(house, THREE)["log_start_offset"] == 0
    house.partition("t").log.advance_start(2)
    assert _row(house, _changed(ONE, base_offset=1))["log_start_offset"] == 2
    assert _row(house, ONE)["log_start_offset"] == 2


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_zstd_came_with_version_7(house: House, version: int) -> None:
    house.topic("t")
    row = _row(house, batch(b"v" * 100, codec=CODECS_BY_NAME["zstd"]), version)
    assert row["error_code"] == ("none" if version >= 7 else "unsupported_compression_type")


def test_max_message_bytes_is_of_the_whole_batch(house: House) -> None:
    limit = len(batch(bytes(900)))
    house.topic("t", max_message_bytes=str(limit))
    assert _row(house, batch(bytes(901)))["error_code"] == "message_too_large"
    assert _row(house, batch(bytes(900)))["error_code"] == "none"


def test_a_batch_fits_into_a_segment(house: House) -> None:
    house.topic("t", segment_bytes=str(1 << 20), max_message_bytes="3000000")
    row = _row(house, batch(bytes(2_000_000)))
    assert (row["error_code"], row["log_start_offset"]) == ("record_list_too_large", -1)


def test_timestamps_out_of_bounds(build_house: Callable[..., House]) -> None:
    clock = StillClock()
    house = build_house(clock=clock)
    house.topic("t", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
    for offset, error in ((-1001, "invalid_timestamp"), (1001, "invalid_timestamp"), (0, "none")):
        row = _row(house, batch(b"v", at=clock.now_ms + offset))
        assert (row["error_code"], row["log_start_offset"]) == (error, 0)
    for edge in (-1000, 1000):
        assert _row(house, batch(b"v", at=clock.now_ms + edge))["error_code"] == "none"


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_compacted_topic_names_the_records_without_a_key(house: House, version: int) -> None:
    house.topic("t", cleanup_policy="compact")
    mixed = decode_batch(batch(b"a", b"b", b"c", b"d"))
    keyed = [each._replace(key=b"k") if each.offset in (0, 2) else each for each in mixed]
    row = _row(house, encode_batch(keyed), version)
    assert (row["error_code"], row["base_offset"]) == ("invalid_record", -1)
    assert row.get("log_start_offset", 0) == 0
    if version >= 8:
        assert [each["batch_index"] for each in row["record_errors"]] == [1, 3]
        assert all("key" in each["batch_index_error_message"] for each in row["record_errors"])
        assert row["error_message"]
    assert _row(house, batch(b"v", key=b"k"), version)["base_offset"] == 0


@pytest.mark.parametrize("acks", [2, -2, 5, 32767, -32768])
def test_acks_that_do_not_exist(house: House, acks: int) -> None:
    house.topic("t")
    for version in PRODUCE_VERSIONS:
        row = _row(house, ONE, version, acks=acks)
        assert (row["error_code"], row["base_offset"]) == ("invalid_required_acks", -1)
    assert house.partition("t").log.end_offset == 0


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_a_transactional_id_alone_makes_no_transaction(house: House, version: int) -> None:
    house.topic("t")
    assert _row(house, ONE, version, transactional_id="mine")["error_code"] == "none"


# --- acks=0 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_without_acks_nothing_is_answered(house: House, version: int) -> None:
    house.topic("t")

    async def send() -> object:
        return house.dispatch_once(house.peer, produce_frame(house, version, ("t", 0, ONE), acks=0))

    assert house.run(send()) is None
    assert _records(house) == stored(ONE, 0)


@pytest.mark.parametrize(
    "sent", [("nowhere", 0, ONE), ("t", 9, ONE), ("t", 0, ONE[:-1]), ("t", 0, None)]
)
def test_without_acks_a_refusal_closes_the_connection(house: House, sent: Any) -> None:
    house.topic("t")
    for version in PRODUCE_VERSIONS:
        with pytest.raises(DecodeError, match="acks=0"):
            house.send(produce_frame(house, version, sent, acks=0))


# --- idempotence --------------------------------------------------------------------------------

_STEPS = [
    # Producer, epoch, sequence, records; and error, base offset, whether it is a repeat.
    ((7, 0, 0), 1, ("none", 0, False)),
    ((7, 0, 1), 3, ("none", 1, False)),
    ((7, 0, 1), 3, ("none", 1, True)),
    ((7, 0, 0), 1, ("none", 0, True)),
    ((7, 0, 9), 1, ("out_of_order_sequence_number", -1, False)),
    ((7, 0, 1), 1, ("out_of_order_sequence_number", -1, False)),
    ((7, 0, 4), 1, ("none", 4, False)),
    ((7, 0, 5), 1, ("none", 5, False)),
    ((7, 0, 6), 1, ("none", 6, False)),
    ((7, 0, 7), 1, ("none", 7, False)),
    ((7, 0, 8), 1, ("none", 8, False)),
    ((7, 0, 0), 1, ("out_of_order_sequence_number", -1, False)),
    ((7, 0, 4), 1, ("none", 4, True)),
    ((7, 1, 4), 1, ("out_of_order_sequence_number", -1, False)),
    ((7, 1, 0), 1, ("none", 9, False)),
    ((7, 0, 9), 1, ("invalid_producer_epoch", -1, False)),
    ((8, 0, 5), 1, ("none", 10, False)),
    ((9, 0, 2**31 - 2), 3, ("none", 11, False)),
    ((9, 0, 1), 1, ("none", 14, False)),
]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_idempotent_producers(house: House, version: int) -> None:
    house.topic("t")
    written_at = datetime.fromtimestamp(T / 1000, UTC)
    for (producer, epoch, sequence), count, (error, base, repeat) in _STEPS:
        data = batch(
            *[b"v"] * count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence
        )
        row = _row(house, data, version)
        assert (row["error_code"], row["base_offset"]) == (error, base)
        # Kafka tells a repeat by its time, also where topics keep the producer's.
        assert row["log_append_time"] == (written_at if repeat else None)
        assert row.get("log_start_offset", 0) == 0
    sizes = [header.count for _, header in walk(_records(house))]
    assert sum(sizes) == house.partition("t").log.end_offset == 15


def test_a_producer_is_known_by_partition(house: House) -> None:
    house.topic("t", 2)
    late = batch(b"v", producer_id=7, producer_epoch=1, base_sequence=7)
    rows = produce(house, 12, ("t", 0, late), ("t", 1, late))
    assert [each["base_offset"] for each in rows] == [0, 0]
