"""Reading back: from any offset, within any limit, across segments, past damage."""

import pytest
from tests.log.conftest import LOG_FILE, append, batch, flip, open_log, read_values

from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import PartitionLog
from barnabas.log.reading import ReadResult
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.records.batch import walk
from barnabas.world.memory import MemoryFiles

SMALL = TopicConfig(segment_bytes=400, index_interval_bytes=100)


def filled(files: MemoryFiles, batches: int = 30, config: TopicConfig = SMALL) -> PartitionLog:
    """Batches of three records: values 000, 001, 002, ... in many segments."""
    log = open_log(files, config=config)
    for number in range(batches):
        append(log, batch(*(b"%03d" % (3 * number + i) for i in range(3))))
    return log


def read(log: PartitionLog, offset: int, max_bytes: int = 1 << 20, **how: int) -> ReadResult:
    up_to = how.get("up_to", log.end_offset)
    plan = log.plan_read(offset, max_bytes, up_to, at_least_one=bool(how.get("at_least_one", 1)))
    assert plan is not None
    return plan.read()


def spans(result: ReadResult) -> list[tuple[int, int]]:
    """First and last offset of each batch that was read."""
    return [(header.base_offset, header.last_offset) for _, header in walk(result.data)]


def refusal(log: PartitionLog, offset: int) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        read(log, offset)
    return refused.value.code


def test_offsets_are_dense_across_segments(files: MemoryFiles) -> None:
    log = filled(files)
    assert len(log.segments) > 5
    assert read_values(log) == [(n, b"%03d" % n) for n in range(90)]


def test_every_offset_is_answered_with_the_batch_that_holds_it(files: MemoryFiles) -> None:
    log = filled(files)
    for offset in range(90):
        first = spans(read(log, offset, 1))[0]
        assert first == (offset // 3 * 3, offset // 3 * 3 + 2)
        assert read_values(log, offset) == [(n, b"%03d" % n) for n in range(offset, 90)]


def test_the_same_holds_without_index_and_after_a_restart(files: MemoryFiles) -> None:
    filled(files).close(clean=True)
    for name in files.list("data/events-0"):
        if name.endswith("index"):
            files.remove(f"data/events-0/{name}")
    log = open_log(files, config=SMALL)
    for offset in range(90):
        assert spans(read(log, offset, 1))[0] == (offset // 3 * 3, offset // 3 * 3 + 2)


def test_no_more_whole_batches_are_read_than_the_limit_allows(files: MemoryFiles) -> None:
    log = filled(files, config=TopicConfig())
    size = len(read(log, 0, 1).data)
    for limit in (3 * size, 3 * size + 1, 4 * size - 1):
        assert spans(read(log, 6, limit)) == [(6, 8), (9, 11), (12, 14)]


def test_a_batch_larger_than_the_limit_is_read_only_where_a_reader_must_get_on(
    files: MemoryFiles,
) -> None:
    log = filled(files)
    for limit in (0, 1, 60, 61, 62):
        assert spans(read(log, 4, limit)) == [(3, 5)]
        behind = read(log, 4, limit, at_least_one=0)
        assert (bytes(behind.data), behind.next_offset) == (b"", 4)


def test_nothing_at_or_above_the_high_watermark_is_read(files: MemoryFiles) -> None:
    log = filled(files, config=TopicConfig())
    for up_to in range(3, 90, 3):
        assert spans(read(log, 0, up_to=up_to))[-1] == (up_to - 3, up_to - 1)
        assert log.plan_read(up_to, 1000, up_to, at_least_one=True) is None


def test_reading_at_the_end_finds_nothing_yet(files: MemoryFiles) -> None:
    log = filled(files)
    assert log.plan_read(90, 1000, 90, at_least_one=True) is None
    append(log, batch(b"90"))
    assert read_values(log, 90) == [(90, b"90")]


def test_offsets_outside_the_log_are_out_of_range(files: MemoryFiles) -> None:
    log = filled(files)
    log.advance_start(10)
    assert refusal(log, 9) == refusal(log, 91) == refusal(log, -1) == ErrorCode.offset_out_of_range
    assert read_values(log, 10)[0] == (10, b"010")


def test_a_reader_at_the_tail_goes_on_after_a_roll(files: MemoryFiles) -> None:
    log = open_log(files)
    for number in range(4):
        append(log, batch(b"%d" % number))
        assert read_values(log, number) == [(number, b"%d" % number)]
        log.roll(0)


def test_readers_in_sequence_are_led_straight_to_their_place(files: MemoryFiles) -> None:
    log = filled(files, config=TopicConfig(index_interval_bytes=1 << 20))
    plan = log.plan_read(0, 500, 90, at_least_one=True)
    assert plan is not None
    result = plan.read()
    log.remember(plan, result)
    following = log.plan_read(result.next_offset, 500, 90, at_least_one=True)
    assert following is not None
    assert (plan.start, following.start) == (0, len(result.data))


def test_many_more_readers_than_are_remembered_all_get_what_they_ask_for(
    files: MemoryFiles,
) -> None:
    log = filled(files, 200)
    places = dict.fromkeys(range(100), 0)
    while places:
        for reader, offset in list(places.items()):
            plan = log.plan_read(offset, 300 + 17 * reader, 600, at_least_one=True)
            assert plan is not None
            result = plan.read()
            log.remember(plan, result)
            assert spans(result)[0][0] == offset
            places[reader] = result.next_offset
            if result.next_offset >= 600:
                del places[reader]


def test_a_damaged_batch_is_not_served_and_its_neighbours_are(files: MemoryFiles) -> None:
    log = filled(files, config=TopicConfig())
    size = len(read(log, 0, 1).data)
    flip(files, LOG_FILE, 5 * size + 70)
    assert spans(read(log, 0)) == [(n, n + 2) for n in range(0, 15, 3)]
    for offset in (15, 16, 17):
        assert refusal(log, offset) is ErrorCode.corrupt_message
    assert spans(read(log, 18))[0] == (18, 20)


@pytest.mark.parametrize("byte", range(8, 12))
def test_records_behind_a_damaged_length_are_never_passed_over_in_silence(
    files: MemoryFiles, byte: int
) -> None:
    log = filled(files, config=TopicConfig(index_interval_bytes=1 << 20))
    size = len(read(log, 0, 1).data)
    for bit in range(8):
        flip(files, LOG_FILE, 5 * size + byte, bit)
        for offset in range(15, 90):
            assert refusal(log, offset) is ErrorCode.corrupt_message
        flip(files, LOG_FILE, 5 * size + byte, bit)


def test_a_truncated_file_is_noticed_when_it_is_read(files: MemoryFiles) -> None:
    log = filled(files, config=TopicConfig())
    files.open(LOG_FILE).truncate(files.size_of(LOG_FILE) - 10)
    assert refusal(log, 89) is ErrorCode.corrupt_message
