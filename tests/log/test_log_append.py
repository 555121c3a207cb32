"""Appending: where a batch goes, what is stamped into it, and when another segment begins."""

from itertools import pairwise

import pytest
from tests.log.conftest import LOG_FILE, NOW_MS, append, batch, open_log, read_values

from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import PartitionLog
from barnabas.log.segment import Segment
from barnabas.wire.records.batch import (
    LOG_APPEND_TIME,
    BatchHeader,
    assemble,
    parse_header,
    problem_of,
    stamp_append_time,
    walk,
)
from barnabas.wire.records.record import decode_batch, encode_batch
from barnabas.world.memory import MemoryFiles

HOUR_MS = 3_600_000
STAMPED = TopicConfig(message_timestamp_type="LogAppendTime")


def stored(files: MemoryFiles, log: PartitionLog) -> list[BatchHeader]:
    """Every batch on disk, each of them sound."""
    headers = []
    for segment in log.segments:
        data = files.read(segment.path(".log"))
        assert len(data) == segment.size
        for position, header in walk(data):
            assert problem_of(data, position, header) is None
            headers.append(header)
    return headers


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_batches_get_dense_offsets_and_the_leader_epoch(files: MemoryFiles) -> None:
    log = open_log(files)
    offsets = [append(log, batch(*[b"x"] * size), epoch=size) for size in (1, 3, 2, 5)]
    assert offsets == [0, 1, 4, 6]
    assert log.end_offset == 11
    headers = stored(files, log)
    assert [(each.base_offset, each.leader_epoch) for each in headers] == [
        (0, 1), (1, 3), (4, 2), (6, 5)
    ]  # fmt: skip


def test_what_was_sent_is_stored_byte_for_byte_behind_offset_and_epoch(files: MemoryFiles) -> None:
    log = open_log(files)
    sent = bytes(batch(b"a", b"b"))
    append(log, memoryview(bytearray(sent)), epoch=9)
    on_disk = files.read(LOG_FILE)
    assert on_disk[:8] == bytes(8)
    assert on_disk[12:16] == (9).to_bytes(4, "big")
    assert on_disk[8:12] + on_disk[16:] == sent[8:12] + sent[16:]


def test_bytes_behind_the_batch_are_left_out(files: MemoryFiles) -> None:
    log = open_log(files)
    append(log, memoryview(bytearray(bytes(batch(b"a")) + b"tail")))
    append(log, batch(b"b"))
    assert read_values(log) == [(0, b"a"), (1, b"b")]
    assert len(stored(files, log)) == 2


def test_log_append_time_is_stamped_with_a_valid_checksum(files: MemoryFiles) -> None:
    log = open_log(files, config=STAMPED)
    records = batch(b"a", b"b", timestamp=5)
    appended = log.append(records, log.check(records, NOW_MS), 0, NOW_MS + 7)
    (header,) = stored(files, log)
    assert appended.append_time_ms == header.max_timestamp == NOW_MS + 7
    assert header.attributes & LOG_APPEND_TIME
    assert {each.timestamp for each in decode_batch(files.read(LOG_FILE))} == {NOW_MS + 7}


def test_with_create_time_a_clients_claim_to_be_the_broker_is_taken_back(
    files: MemoryFiles,
) -> None:
    log = open_log(files)
    claimed = batch(b"a", timestamp=NOW_MS)
    stamp_append_time(claimed, 0, parse_header(claimed), NOW_MS - 1)
    appended = log.append(claimed, log.check(claimed, NOW_MS), 0, NOW_MS)
    (header,) = stored(files, log)
    assert appended.append_time_ms == -1
    assert not header.attributes & LOG_APPEND_TIME
    assert decode_batch(files.read(LOG_FILE))[0].timestamp == NOW_MS


def test_a_segment_is_rolled_before_it_grows_beyond_its_size(files: MemoryFiles) -> None:
    size = len(batch(b"x"))
    log = open_log(files, config=TopicConfig(segment_bytes=3 * size))
    for _ in range(10):
        append(log, batch(b"x"))
    assert bases(log) == [0, 3, 6, 9]
    exact = open_log(files, config=TopicConfig(segment_bytes=3 * size - 1))
    for _ in range(4):
        append(exact, batch(b"x"))
    assert bases(exact) == [0, 3, 6, 9, 11, 13]


def test_a_segment_is_rolled_when_its_messages_span_more_than_segment_ms(
    files: MemoryFiles,
) -> None:
    log = open_log(files, config=TopicConfig(segment_ms=HOUR_MS))
    for minutes in (0, 30, 60, 61, 90, 121, 122):
        now_ms = NOW_MS + minutes * 60_000
        append(log, batch(b"x", timestamp=now_ms), now_ms=now_ms)
    assert bases(log) == [0, 3, 6]


def test_messages_without_time_are_rolled_by_the_clock(files: MemoryFiles) -> None:
    log = open_log(files, config=TopicConfig(segment_ms=HOUR_MS))
    for minutes in (0, 60, 61):
        append(log, batch(b"x", timestamp=-1), now_ms=NOW_MS + minutes * 60_000)
    assert bases(log) == [0, 2]


def test_jitter_makes_segments_roll_early_and_each_at_another_moment(files: MemoryFiles) -> None:
    config = TopicConfig(segment_ms=HOUR_MS, segment_jitter_ms=HOUR_MS // 2)
    log = open_log(files, config=config)
    for minutes in range(1_000):
        now_ms = NOW_MS + minutes * 60_000
        append(log, batch(b"x", timestamp=now_ms), now_ms=now_ms)
    lives = [after - before for before, after in pairwise(bases(log))]
    assert all(30 <= minutes <= 61 for minutes in lives)
    assert len(set(lives)) > 5
    assert bases(log) == bases(open_log(files, config=config))


def test_jitter_is_at_most_the_whole_time_of_a_segment(files: MemoryFiles) -> None:
    log = open_log(files)
    config = TopicConfig(segment_ms=10, segment_jitter_ms=HOUR_MS)
    assert 0 <= log.segments[0].jitter_ms(config) < 10
    assert log.segments[0].jitter_ms(TopicConfig(segment_ms=10)) == 0


def test_partitions_do_not_roll_at_once() -> None:
    config = TopicConfig(segment_ms=10 * HOUR_MS, segment_jitter_ms=HOUR_MS)
    files = MemoryFiles()
    segments = [Segment(files, f"data/events-{number}", 0, 0) for number in range(100)]
    moments = {segment.jitter_ms(config) // 60_000 for segment in segments}
    assert len(moments) > 30


def test_old_messages_do_not_roll(files: MemoryFiles) -> None:
    log = open_log(files, config=TopicConfig(segment_ms=HOUR_MS))
    for timestamp in (NOW_MS, 1_000, NOW_MS):
        append(log, batch(b"x", timestamp=timestamp))
    assert bases(log) == [0]


def test_a_segment_is_rolled_when_its_index_is_full(files: MemoryFiles) -> None:
    log = open_log(files, config=TopicConfig(index_interval_bytes=1, segment_index_bytes=120))
    for number in range(40):
        append(log, batch(b"x", timestamp=NOW_MS + number))
    assert len(log.segments) > 2
    for segment in log.segments:
        assert len(segment.offset_index) * 8 <= 120
        assert len(segment.time_index) * 12 <= 120 + 12
    assert [offset for offset, _ in read_values(log)] == list(range(40))


def wide(delta: int) -> memoryview:
    """A batch as compaction leaves it: one record, the last offset far from the first."""
    data = bytearray(encode_batch([(NOW_MS, b"k", b"v", [])]))
    header = parse_header(data)._replace(last_offset_delta=delta)
    return memoryview(bytearray(assemble(header, data[61:])))


def test_a_segment_is_rolled_before_an_offset_no_longer_fits_its_index(files: MemoryFiles) -> None:
    log = open_log(files, config=TopicConfig(index_interval_bytes=1))
    far = 2**31 - 1
    for records in (wide(far), wide(0), wide(0)):
        log.append(records, parse_header(records), 0, NOW_MS)
    assert bases(log) == [0, far + 1]
    assert log.end_offset == far + 3
    log.close(clean=True)
    again = open_log(files, clean=True, recovery_point=far + 3)
    assert again.end_offset == far + 3


def test_an_empty_segment_is_never_rolled(files: MemoryFiles) -> None:
    log = open_log(files)
    log.roll(NOW_MS)
    assert bases(log) == [0]
    append(log, batch(b"x"))
    log.roll(NOW_MS)
    log.roll(NOW_MS)
    assert bases(log) == [0, 1]


def test_a_roll_leaves_indexes_and_a_snapshot_behind(files: MemoryFiles) -> None:
    log = open_log(files)
    append(log, batch(b"x", producer=(7, 0, 0)))
    log.roll(NOW_MS)
    assert {
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000001.snapshot",
        "00000000000000000001.log",
    } <= set(files.list("data/events-0"))


@pytest.mark.parametrize("interval", [1, 300, 4096])
def test_index_entries_are_as_far_apart_as_index_interval_bytes_says(
    files: MemoryFiles, interval: int
) -> None:
    log = open_log(files, config=TopicConfig(index_interval_bytes=interval))
    size = len(batch(b"x"))
    for number in range(200):
        append(log, batch(b"x", timestamp=NOW_MS + number))
    step = interval // size + 1
    assert len(log.segments[0].offset_index) == 199 // step
