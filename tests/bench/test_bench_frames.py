"""The hand-encoded requests are what Kafka's own definitions say, and so are the answers."""

import struct
from typing import Any

import pytest
from kio.schema.create_topics.v4.request import CreateTopicsRequest
from kio.schema.delete_topics.v3.request import DeleteTopicsRequest
from kio.schema.fetch.v12.request import FetchRequest
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.metadata.v4.request import MetadataRequest
from kio.schema.produce.v11.request import ProduceRequest
from kio.schema.produce.v11.response import ProduceResponse
from kio.serial import entity_reader

from barnabas.bench import frames
from barnabas.bench.payload import VALUE_BYTES, build_batch
from barnabas.model.check import BrokenInvariantError
from barnabas.wire.records import batch as batches
from barnabas.wire.records.record import decode_batch

TOPIC = "bench-0123456789"


def body_of(frame: bytes, *, flexible: bool) -> bytes:
    size, _, _, correlation = frames.REQUEST_HEAD.unpack_from(frame)
    assert size == len(frame) - 4
    assert correlation == 0
    return frame[frames.REQUEST_HEAD.size + 2 + len(frames.CLIENT_ID) + flexible :]


def read(entity: Any, data: bytes) -> Any:
    message, size = entity_reader(entity)(data, 0)
    assert size == len(data), "bytes are left over"
    return message


@pytest.mark.parametrize("size", [0, 100, 8_192, 100_000, 1_000_000])
def test_produce_carries_the_batch(size: int) -> None:
    batch = build_batch(size)
    message = read(
        ProduceRequest, body_of(frames.produce(TOPIC, batch.data, acks=1), flexible=True)
    )
    (topic,) = message.topic_data
    (partition,) = topic.partition_data
    assert (message.acks, topic.name, partition.index) == (1, TOPIC, 0)
    assert partition.records == batch.data


def test_fetch_asks_where_the_positions_say() -> None:
    frame = bytearray(frames.fetch(TOPIC, bytes_max=12345))
    frames.OFFSET.pack_into(frame, frames.FETCH_OFFSET_AT, 77)
    message = read(FetchRequest, body_of(bytes(frame), flexible=True))
    (partition,) = message.topics[0].partitions
    assert (message.topics[0].topic, message.session_epoch) == (TOPIC, -1)
    assert (partition.fetch_offset, partition.partition_max_bytes) == (77, 12345)
    assert struct.unpack_from(">i", frame, frames.FETCH_BYTES_AT) == (12345,)


def test_topic_requests_name_the_topic() -> None:
    metadata = read(MetadataRequest, body_of(frames.metadata(TOPIC, create=True), flexible=False))
    assert ([topic.name for topic in metadata.topics], metadata.allow_auto_topic_creation) == (
        [TOPIC],
        True,
    )
    created = read(
        CreateTopicsRequest, body_of(frames.create_topic(TOPIC, {"a": "b"}), flexible=False)
    )
    assert (created.topics[0].name, created.topics[0].num_partitions) == (TOPIC, 1)
    assert [(each.name, each.value) for each in created.topics[0].configs] == [("a", "b")]
    deleted = read(DeleteTopicsRequest, body_of(frames.delete_topic(TOPIC), flexible=False))
    assert tuple(deleted.topic_names) == (TOPIC,)


def test_the_limits_answers_are_real_answers() -> None:
    produced = frames.produce_answer()
    message = read(ProduceResponse, produced[9:])
    assert message.responses[0].partition_responses[0].error_code.value == 0
    assert frames.PRODUCE_ANSWER.unpack_from(produced) == (len(produced) - 4, 0, 0)

    records = build_batch(8_192).data
    fetched = frames.fetch_answer_head(len(records)) + records + frames.PRODUCE_TAIL
    message = read(FetchResponse, fetched[9:])
    assert message.responses[0].partitions[0].records == records
    assert frames.FETCH_ANSWER.unpack_from(fetched)[:4] == (len(fetched) - 4, 0, 0, 0)
    length = fetched[frames.FETCHED_LENGTH_AT :]
    assert (length[0] & 0x7F) | (length[1] << 7) == len(records) + 1


def test_a_topic_name_of_another_length_is_refused() -> None:
    with pytest.raises(BrokenInvariantError):
        frames.produce("short", b"", acks=1)


@pytest.mark.parametrize("size", [0, 8_192, 100_000, 1_000_000])
def test_batches_are_sound_and_full(size: int) -> None:
    batch = build_batch(size)
    header = batches.parse_header(batch.data)
    assert batches.problem_of(batch.data, 0, header) is None
    assert (header.size, header.count) == (len(batch.data), batch.records)
    assert header.last_offset_delta == batch.records - 1
    if size:
        assert size - VALUE_BYTES - 12 < len(batch.data) <= size
    else:
        assert batch.records == 1


def test_records_hold_a_hundred_bytes_and_no_key() -> None:
    batch = build_batch(1_000)
    records = decode_batch(batch.data)
    assert len(records) == batch.records > 1
    assert [record.offset for record in records] == list(range(batch.records))
    assert {(record.key, len(record.value or b"")) for record in records} == {(None, VALUE_BYTES)}
