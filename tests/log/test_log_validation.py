"""What a client's batch must be: each refusal with the error code that Kafka answers."""

import struct
from collections.abc import Callable

import pytest
from tests.log.conftest import NOW_MS, append, batch, open_log, read_values

from barnabas.config.topic_config import TopicConfig
from barnabas.log.validation import check_batch
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.records.batch import CONTROL, HEADER_BYTES, assemble, parse_header
from barnabas.world.memory import MemoryFiles

DEFAULTS = TopicConfig()
DAY_MS = 86_400_000


def changed(**fields: int) -> bytes:
    """A batch of three records whose header says something else, under a right checksum."""
    data = bytes(batch(b"a", b"b", b"c"))
    return assemble(parse_header(data)._replace(**fields), data[HEADER_BYTES:])


def patched(position: int, replacement: bytes) -> bytes:
    """The same with some bytes changed, and the checksum as it was."""
    data = bytearray(batch(b"a", b"b", b"c"))
    data[position : position + len(replacement)] = replacement
    return bytes(data)


def whole() -> bytes:
    return bytes(batch(b"a", b"b", b"c"))


def refusal(data: bytes, config: TopicConfig = DEFAULTS, now_ms: int = NOW_MS) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        check_batch(memoryview(bytearray(data)), config, now_ms)
    assert refused.value.message.endswith(".")
    return refused.value.code


def accepts(data: bytes, config: TopicConfig = DEFAULTS, now_ms: int = NOW_MS) -> bool:
    return check_batch(memoryview(bytearray(data)), config, now_ms).count == 3


@pytest.mark.parametrize(
    ("code", "make"),
    [
        (ErrorCode.invalid_record, lambda: b""),
        (ErrorCode.invalid_record, lambda: whole()[:60]),
        (ErrorCode.invalid_record, lambda: whole()[:-1]),
        (ErrorCode.invalid_record, lambda: whole()[:HEADER_BYTES]),
        (ErrorCode.corrupt_message, lambda: patched(17, b"\x00\x00\x00\x00")),
        (ErrorCode.corrupt_message, lambda: patched(65, b"!")),
        (ErrorCode.corrupt_message, lambda: patched(27, b"\x01")),
        (ErrorCode.invalid_record, lambda: patched(16, b"\x00")),
        (ErrorCode.invalid_record, lambda: patched(16, b"\x01")),
        (ErrorCode.corrupt_message, lambda: patched(16, b"\x03")),
        (ErrorCode.corrupt_message, lambda: patched(16, b"\xff")),
        (ErrorCode.invalid_record, lambda: patched(8, struct.pack(">i", 100_000))),
        (ErrorCode.invalid_record, lambda: patched(8, struct.pack(">i", 2**31 - 1))),
        (ErrorCode.corrupt_message, lambda: patched(8, struct.pack(">i", 48))),
        (ErrorCode.corrupt_message, lambda: patched(8, struct.pack(">i", 0))),
        (ErrorCode.corrupt_message, lambda: patched(8, struct.pack(">i", -5))),
        (ErrorCode.invalid_record, lambda: whole() + whole()),
        (ErrorCode.invalid_record, lambda: changed(base_offset=100)),
        (ErrorCode.invalid_record, lambda: changed(count=2)),
        (ErrorCode.invalid_record, lambda: changed(count=4)),
        (ErrorCode.invalid_record, lambda: changed(last_offset_delta=5)),
        (ErrorCode.invalid_record, lambda: changed(count=0, last_offset_delta=-1)),
        (ErrorCode.invalid_record, lambda: changed(count=-1, last_offset_delta=-2)),
        (ErrorCode.invalid_record, lambda: changed(attributes=CONTROL)),
        (ErrorCode.invalid_record, lambda: changed(producer_id=7, base_sequence=-1)),
        (ErrorCode.unsupported_compression_type, lambda: changed(attributes=5)),
        (ErrorCode.unsupported_compression_type, lambda: changed(attributes=7)),
        (ErrorCode.invalid_timestamp, lambda: changed(max_timestamp=32_503_680_000_000)),
    ],
)  # fmt: skip
def test_what_is_not_one_sound_batch_is_refused(code: ErrorCode, make: Callable[[], bytes]) -> None:
    assert refusal(make()) is code


@pytest.mark.parametrize(
    "make",
    [
        whole,
        lambda: whole() + b"a few bytes more",
        lambda: whole() + bytes(HEADER_BYTES - 1),
        lambda: changed(base_timestamp=-1, max_timestamp=-1),
        lambda: changed(max_timestamp=-2),
        lambda: changed(max_timestamp=0),
        lambda: changed(base_sequence=3),
        lambda: changed(producer_id=7, producer_epoch=-1, base_sequence=0),
        lambda: changed(producer_id=-2),
        lambda: changed(leader_epoch=2**31 - 1),
    ],
)
def test_what_kafka_accepts_is_accepted(make: Callable[[], bytes]) -> None:
    assert accepts(make())


def test_the_largest_batch_has_exactly_max_message_bytes() -> None:
    size = len(whole())
    assert accepts(whole(), TopicConfig(max_message_bytes=size))
    assert refusal(whole(), TopicConfig(max_message_bytes=size - 1)) is ErrorCode.message_too_large


def test_bytes_behind_a_batch_do_not_make_it_too_large() -> None:
    assert accepts(whole() + b"tail", TopicConfig(max_message_bytes=len(whole())))


def test_a_batch_must_fit_into_a_segment() -> None:
    size = len(whole())
    assert accepts(whole(), TopicConfig(segment_bytes=size))
    assert refusal(whole(), TopicConfig(segment_bytes=size - 1)) is ErrorCode.record_list_too_large


def test_timestamps_may_run_ahead_by_message_timestamp_after_max_ms() -> None:
    config = TopicConfig(message_timestamp_after_max_ms=DAY_MS)
    assert accepts(changed(max_timestamp=NOW_MS + DAY_MS), config)
    ahead = changed(max_timestamp=NOW_MS + DAY_MS + 1)
    assert refusal(ahead, config) is ErrorCode.invalid_timestamp


def test_with_log_append_time_a_clients_clock_does_not_matter() -> None:
    config = TopicConfig(
        message_timestamp_type="LogAppendTime",
        message_timestamp_after_max_ms=0,
        message_timestamp_before_max_ms=0,
    )
    assert accepts(changed(max_timestamp=32_503_680_000_000), config)


def test_no_bit_of_a_batch_can_change_unnoticed() -> None:
    """Outside the checksum lie only base offset and epoch, which the broker writes itself."""
    data = bytearray(whole())
    for position in range(8, len(data)):
        if 12 <= position < 16:
            continue
        for bit in range(8):
            data[position] ^= 1 << bit
            assert refusal(bytes(data)) in (ErrorCode.corrupt_message, ErrorCode.invalid_record)
            data[position] ^= 1 << bit


def test_a_refused_batch_leaves_no_trace(files: MemoryFiles) -> None:
    log = open_log(files)
    append(log, batch(b"a"))
    for data in (whole()[:-1], changed(count=2), patched(70, b"!")):
        with pytest.raises(KafkaError):
            append(log, memoryview(bytearray(data)))
    append(log, batch(b"b"))
    assert read_values(log) == [(0, b"a"), (1, b"b")]
