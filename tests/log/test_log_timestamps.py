"""Offsets by time, against a search through every record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.conftest import append, open_log

from barnabas.config.topic_config import TimestampType, TopicConfig
from barnabas.log.log import PartitionLog
from barnabas.log.timestamps import TimedOffset
from barnabas.model.errors import DecodeError
from barnabas.wire.records.batch import walk
from barnabas.wire.records.record import decode_batch, encode_batch
from barnabas.world.memory import MemoryFiles

_STAMPS = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4), max_size=14)
_ENDS = st.sampled_from(["kill", "clean stop", "none"])


def written(
    files: MemoryFiles, stamps: list[list[int]], config: TopicConfig, codec: int = 0
) -> PartitionLog:
    """A log with one batch for each list of timestamps; appended at moments 0, 10, 20, ..."""
    log = open_log(files, config=config)
    for number, times in enumerate(stamps):
        data = encode_batch([(at, None, b"v", []) for at in times], codec=codec)
        append(log, memoryview(bytearray(data)), now_ms=10 * number)
    return log


def visible(files: MemoryFiles, log: PartitionLog, up_to: int) -> list[TimedOffset]:
    return [
        TimedOffset(record.offset, record.timestamp)
        for segment in log.segments
        for data in [files.read(segment.path(".log"))]
        for position, _ in walk(data)
        for record in decode_batch(data, position)
        if log.start_offset <= record.offset < up_to
    ]


def check(files: MemoryFiles, log: PartitionLog, up_to: int) -> None:
    records = visible(files, log, up_to)
    search = log.timestamp_search(up_to)
    for at in sorted({-1, 0, 200, *(stamp + n for _, stamp in records for n in (-1, 0, 1))}):
        expected = next((each for each in records if each.timestamp >= at), None)
        assert search.first_at_or_after(at) == expected, at
    latest = max((each.timestamp for each in records), default=-1)
    assert search.latest() == next((each for each in records if each.timestamp == latest), None)


@given(
    stamps=_STAMPS,
    segment_bytes=st.sampled_from([150, 400, 1 << 20]),
    interval=st.sampled_from([1, 200, 4096]),
    kind=st.sampled_from(["CreateTime", "LogAppendTime"]),
    hidden=st.tuples(st.integers(0, 60), st.integers(0, 60)),
    end=_ENDS,
)
def test_the_search_finds_what_a_look_at_every_record_finds(
    stamps: list[list[int]],
    segment_bytes: int,
    interval: int,
    kind: TimestampType,
    hidden: tuple[int, int],
    end: str,
) -> None:
    config = TopicConfig(
        segment_bytes=segment_bytes, index_interval_bytes=interval, message_timestamp_type=kind
    )
    files = MemoryFiles()
    files.make_dirs("data/events-0")
    log = written(files, stamps, config)
    if end != "none":
        log.close(clean=end == "clean stop")
        log = open_log(files, clean=end == "clean stop", config=config)
    log.advance_start(min(hidden[0], log.end_offset))
    check(files, log, log.end_offset)
    check(files, log, max(log.start_offset, log.end_offset - hidden[1]))


@pytest.mark.parametrize("codec", range(5))
def test_records_are_found_inside_compressed_batches(files: MemoryFiles, codec: int) -> None:
    log = written(files, [[1, 2, 3], [4, 5, 6], [7, 8, 9]], TopicConfig(), codec)
    assert log.timestamp_search(9).first_at_or_after(5) == TimedOffset(4, 5)
    assert log.timestamp_search(9).latest() == TimedOffset(8, 9)


def test_in_an_empty_log_nothing_is_found(files: MemoryFiles) -> None:
    search = open_log(files).timestamp_search(0)
    assert (search.first_at_or_after(0), search.latest()) == (None, None)


def test_records_without_time_are_never_found(files: MemoryFiles) -> None:
    log = written(files, [[-1, -1]], TopicConfig())
    search = log.timestamp_search(2)
    assert (search.first_at_or_after(0), search.latest()) == (None, None)


def test_a_damaged_batch_is_told_of_instead_of_passed_over(files: MemoryFiles) -> None:
    log = written(files, [[1], [9], [3]], TopicConfig())
    file = files.open(log.segments[0].path(".log"))
    file.pwrite(b"!", 2 * (file.size() // 3) - 1)
    with pytest.raises(DecodeError):
        log.timestamp_search(3).first_at_or_after(2)
