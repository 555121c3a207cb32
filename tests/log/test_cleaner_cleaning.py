"""What cleaning leaves of a log, case by case."""

import errno

import pytest
from tests.log.cleaner_scenes import (
    SECRET,
    Collected,
    StillClock,
    clean,
    compacting,
    contents,
    limits,
    put,
    run_cleaning,
    stored,
    stored_batches,
    swap_in,
)
from tests.log.conftest import NOW_MS, flip, open_log, sync
from tests.log.txn_log import aborted, end, read_committed, stable

from barnabas.log.cleaner.choosing import cleanable, plan_cleaning
from barnabas.log.cleaner.cleaning import clean_log, grouped
from barnabas.log.cleaner.plan import CleaningFailedError, Source
from barnabas.log.cleaner.throttle import Throttle
from barnabas.log.log import PartitionLog
from barnabas.ports.files import Files
from barnabas.ports.work import JobCancelledError
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles
from barnabas.wire.records.batch import (
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    BatchHeader,
    assemble,
    parse_header,
    stamp,
)
from barnabas.wire.records.record import encode_batch
from barnabas.world.memory import MemoryFiles

HOME = "data/events-0"
RETENTION_MS = 1_000


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in stored(log)]


def headers(log: PartitionLog) -> list[BatchHeader]:
    return [header for header, _ in stored_batches(log)]


def settle(log: PartitionLog) -> None:
    log.roll(NOW_MS)
    while log.proven_offset < log.end_offset:
        sync(log)


def leftovers(files: Files) -> list[str]:
    return [name for name in files.list(HOME) if name.endswith((".cleaned", ".swap", ".deleted"))]


def test_a_batch_that_loses_nothing_is_copied_byte_for_byte(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting())
    for codec in range(5):
        put(log, (b"a%d" % codec, b"v" * 30), (b"b%d" % codec, b"w"), codec=codec)
    before = files.read(f"{HOME}/00000000000000000000.log")
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    clean(files, log)
    after = log.segments[0].file.pread(log.segments[0].size, 0)
    assert after[: len(before)] == before
    assert offsets(log) == [*range(10), 11]


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_that_loses_records_keeps_codec_offsets_times_and_headers(
    files: MemoryFiles, codec: int
) -> None:
    log = open_log(files, config=compacting())
    put(log, (b"a", b"1"), (b"b", b"2"), (b"c", b"3"), codec=codec, producer=(5, 1, 40))
    put(log, (b"c", b"4"), now_ms=NOW_MS - 50)
    clean(files, log)
    first, *_ = headers(log)
    assert (first.base_offset, first.last_offset, first.count) == (0, 2, 2)
    assert (first.producer_id, first.producer_epoch, first.base_sequence) == (5, 1, 40)
    assert first.codec == codec
    assert first.max_timestamp == NOW_MS + 1
    assert [(r.offset, r.timestamp, r.value, r.headers) for r in stored(log)] == [
        (0, NOW_MS, b"1", [("h", b"x")]),
        (1, NOW_MS + 1, b"2", [("h", b"x")]),
        (3, NOW_MS - 50, b"4", [("h", b"x")]),
    ]


def test_a_log_that_is_clean_is_left_alone(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting(segment_bytes=100))
    for number in range(5):
        put(log, (b"%d" % number, b"v"))
    settle(log)
    report, parts = run_cleaning(files, log)
    assert parts == []
    assert (report.records_read, report.records_kept, report.end_offset) == (5, 5, 5)
    assert leftovers(files) == []


def test_tombstones_stay_for_a_time_and_go(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting(delete_retention_ms=RETENTION_MS))
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"c", b"1"))
    clean(files, log)
    assert contents(log) == {b"a": None, b"b": b"1", b"c": b"1"}
    marked = headers(log)[1]
    assert marked.attributes & DELETE_HORIZON
    assert marked.base_timestamp == NOW_MS + RETENTION_MS
    assert marked.max_timestamp == NOW_MS + 1
    assert [record.timestamp for record in stored(log)] == [NOW_MS + 1, NOW_MS, NOW_MS + 1]
    clean(files, log, cleaned_to=4, now_ms=NOW_MS + RETENTION_MS - 1)
    assert b"a" in contents(log)
    clean(files, log, cleaned_to=4, now_ms=NOW_MS + RETENTION_MS)
    assert contents(log) == {b"b": b"1", b"c": b"1"}
    assert offsets(log) == [1, 3]
    assert [record.timestamp for record in stored(log)] == [NOW_MS + 1, NOW_MS + 1]


def test_tombstones_are_marked_where_the_broker_sets_the_times_too(files: MemoryFiles) -> None:
    config = compacting(message_timestamp_type="LogAppendTime")
    log = open_log(files, config=config)
    put(log, (b"a", None), (b"b", b"1"), now_ms=NOW_MS)
    clean(files, log)
    (header,) = headers(log)
    assert (
        header.attributes & (DELETE_HORIZON | LOG_APPEND_TIME) == DELETE_HORIZON | LOG_APPEND_TIME
    )
    assert header.max_timestamp == NOW_MS
    assert [record.timestamp for record in stored(log)] == [NOW_MS, NOW_MS]


def test_for_ever_is_a_time_too(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting(delete_retention_ms=2**63 - 1))
    put(log, (b"a", None), now_ms=NOW_MS)
    clean(files, log)
    assert headers(log)[0].base_timestamp == 2**63 - 1
    assert stored(log)[0].timestamp == NOW_MS


def test_the_last_batch_of_a_producer_keeps_its_header(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting())
    put(log, (b"a", b"1"), (b"a", b"2"), producer=(5, 3, 0))
    put(log, (b"a", b"3"), (b"a", b"4"), producer=(5, 3, 2))
    put(log, (b"a", b"5"))
    clean(files, log)
    empty, _ = headers(log)
    assert (empty.base_offset, empty.last_offset, empty.count) == (2, 3, 0)
    assert (empty.producer_id, empty.producer_epoch, empty.last_sequence) == (5, 3, 3)
    put(log, (b"b", b"1"), producer=(5, 3, 4))
    clean(files, log, cleaned_to=5)
    assert [header.base_offset for header in headers(log)] == [4, 5]


def test_aborted_data_goes_and_markers_follow_in_their_time(files: MemoryFiles) -> None:
    config = compacting(delete_retention_ms=RETENTION_MS, segment_bytes=200)
    log = open_log(files, config=config)
    put(log, (b"a", b"1"), (b"b", b"no"), producer=(9, 0, 0), transactional=True)
    end(log, 9, 0, committed=False)
    put(log, (b"a", b"2"), producer=(9, 0, 2), transactional=True)
    end(log, 9, 0, committed=True)
    put(log, (b"a", b"3"), producer=(9, 0, 3), transactional=True)
    end(log, 9, 0, committed=True)
    seen = read_committed(log)
    report = clean(files, log)
    # The data is gone; that there was an abortion is still told.
    assert contents(log) == {b"a": b"3"}
    assert aborted(log) == [(9, 0)]
    assert [h.base_offset for h in headers(log) if h.is_control] == [2, 4, 6]
    for passed_ms, markers in (
        (0, [2, 4, 6]),
        (RETENTION_MS - 1, [2, 4, 6]),
        (RETENTION_MS, [6]),
    ):
        now_ms = NOW_MS + passed_ms
        clean(files, log, cleaned_to=report.end_offset, now_ms=now_ms)
        assert [h.base_offset for h in headers(log) if h.is_control] == markers
        assert aborted(log) == []
        assert read_committed(log) == [each for each in seen if each[0] == 5]


def test_what_is_committed_later_outdates_and_what_is_open_does_not(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting(segment_bytes=100))
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), producer=(9, 0, 0), transactional=True)
    put(log, (b"a", b"3"))
    put(log, (b"z", b"z"))
    report = clean(files, log)
    # The first open transaction begins at 1: no segment from there on is touched.
    assert report.end_offset == 1
    assert offsets(log) == [0, 1, 2, 3]
    end(log, 9, 0, committed=False)
    clean(files, log, cleaned_to=report.end_offset)
    assert offsets(log) == [2, 3]
    assert read_committed(log) == [(2, b"3"), (3, b"z")]


def test_an_aborted_producers_next_transaction_is_its_own(files: MemoryFiles) -> None:
    """Cleaning begins behind the abortion: it must not be taken for what follows it."""
    log = open_log(files, config=compacting(segment_bytes=150))
    put(log, (b"a", b"no"), producer=(9, 0, 0), transactional=True)
    end(log, 9, 0, committed=False)
    report = clean(files, log)
    put(log, (b"a", b"yes"), producer=(9, 0, 1), transactional=True)
    end(log, 9, 0, committed=True)
    put(log, (b"z", b"z"))
    clean(files, log, cleaned_to=report.end_offset)
    assert contents(log) == {b"a": b"yes", b"z": b"z"}


def test_control_batches_of_other_kinds_stay(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting())
    data = encode_batch([(NOW_MS, b"\0\0\0\2", b"leader", [])], control=True)
    view = memoryview(bytearray(data))
    log.append(view, parse_header(view), 0, NOW_MS)
    put(log, (b"a", b"1"))
    clean(files, log)
    clean(files, log, cleaned_to=2, now_ms=NOW_MS + 10 * RETENTION_MS)
    assert [header.is_control for header in headers(log)] == [True, False]


def test_a_map_that_is_full_ends_the_round_and_the_next_goes_on(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting(segment_bytes=300))
    for number in range(40):
        put(log, (b"%d" % (number % 10), b"%d" % number))
    cleaned_to, rounds = 0, 0
    while cleaned_to < 40:
        report = clean(files, log, cleaned_to=cleaned_to, keys=5)
        assert report.end_offset > cleaned_to
        assert report.keys <= 5
        cleaned_to, rounds = report.end_offset, rounds + 1
    assert rounds > 3
    assert offsets(log) == list(range(30, 40))


def test_a_batch_may_be_larger_than_the_buffer(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting(segment_bytes=1 << 20))
    put(log, (b"a", b"x" * 300_000), (b"b", b"1"))
    put(log, (b"a", b"2"))
    put(log, (b"c", b"y" * 200_000))
    clean(files, log)
    assert {key: len(value or b"") for key, value in contents(log).items()} == {
        b"a": 1, b"b": 1, b"c": 200_000,
    }  # fmt: skip


def test_small_segments_become_one_and_their_indexes_are_right(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting(segment_bytes=400, index_interval_bytes=50))
    for number in range(60):
        put(log, (b"%d" % (number % 12), b"%d" % number), now_ms=NOW_MS + number)
    log.configure(compacting(segment_bytes=100_000, index_interval_bytes=50))
    assert len(log.segments) > 8
    clean(files, log)
    assert [segment.base_offset for segment in log.segments] == [0, 60]
    assert log.segments[0].max_timestamp == NOW_MS + 59
    for offset in range(60):
        plan = log.plan_read(offset, 1, 60, at_least_one=True)
        assert plan is not None
        found = parse_header(plan.read().data)
        assert found.base_offset == max(offset, 48)
    search = log.timestamp_search(60)
    for passed in range(60):
        timed = search.first_at_or_after(NOW_MS + passed)
        assert timed is not None
        assert timed.offset == max(passed, 48)
    assert [name for name in files.list(HOME) if name.endswith(".index")] == [
        "00000000000000000000.index"
    ]


def test_groups_stay_within_size_index_and_range(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting(segment_bytes=1_000, segment_index_bytes=64))
    settle(log)
    plan = plan_cleaning(cleanable(log, None, 0, NOW_MS), limits(), SECRET, NOW_MS)

    def bases(*sources: Source) -> list[list[int]]:
        return [[each.base_offset for each in group] for group in grouped(files, plan, sources)]

    assert bases(Source(0, 5, 600), Source(5, 9, 400), Source(9, 12, 1)) == [[0, 5], [9]]
    assert bases(Source(0, 5, 2_000), Source(5, 9, 2_000)) == [[0], [5]]
    assert bases(Source(0, 5, 10), Source(5, 2**31, 10)) == [[0, 5]]
    assert bases(Source(0, 5, 10), Source(5, 2**31 + 1, 10)) == [[0], [5]]
    assert bases(Source(0, 5, 0), Source(5, 9, 0)) == []
    for base in (5, 9):
        file = files.open(f"{HOME}/{base:020d}.index", create=True)
        file.pwrite(bytes(40), 0)
    assert bases(Source(0, 5, 10), Source(5, 9, 10), Source(9, 12, 10)) == [[0, 5], [9]]


# --- trouble ----------------------------------------------------------------------------------


@pytest.mark.parametrize("second_pass", [False, True])
def test_damage_ends_the_cleaning_and_nothing_is_left_of_it(
    files: MemoryFiles, second_pass: bool
) -> None:
    log = open_log(files, config=compacting(segment_bytes=300))
    for number in range(20):
        put(log, (b"%d" % (number % 3), b"%d" % number))
    settle(log)
    before = stored(log)
    victim = log.segments[2]
    flip(files, victim.path(".log"), victim.size - 1)
    with pytest.raises(CleaningFailedError, match=f"{victim.base_offset}.log is damaged at byte"):
        run_cleaning(files, log, cleaned_to=log.end_offset if second_pass else None)
    assert leftovers(files) == []
    flip(files, victim.path(".log"), victim.size - 1)
    assert stored(log) == before


@pytest.mark.parametrize(("slot", "at"), [(0, -1), (1, 0)])
def test_a_batch_that_lies_outside_its_segment_outdates_nothing(
    files: MemoryFiles, slot: int, at: int
) -> None:
    log = open_log(files, config=compacting())
    for number in range(4):
        put(log, (b"a", b"%d" % number))
        if number % 2:
            settle(log)
    victim = log.segments[slot]
    batch_bytes = victim.size // 2
    # A bit of its first offset, which no checksum covers.
    flip(files, victim.path(".log"), at % 2 * batch_bytes + 7, 1 if slot else 4)
    with pytest.raises(CleaningFailedError, match="is damaged at byte"):
        run_cleaning(files, log)


@pytest.mark.parametrize("cut", [1, 30, 61])
def test_a_segment_that_is_cut_short_is_damaged(files: MemoryFiles, cut: int) -> None:
    log = open_log(files, config=compacting())
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    settle(log)
    files.open(log.segments[0].path(".log")).truncate(log.segments[0].size - cut)
    with pytest.raises(CleaningFailedError, match="cut short"):
        run_cleaning(files, log)


def test_records_that_are_nonsense_are_damage_too(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting())
    put(log, (b"a", b"1"))
    settle(log)
    header = headers(log)[0]
    bad = bytearray(assemble(header, b"\xff" * 12))
    stamp(bad, 0, 0, 0)
    file = files.open(log.segments[0].path(".log"))
    file.truncate(0)
    file.pwrite(bad, 0)
    log.segments[0].size = len(bad)
    with pytest.raises(CleaningFailedError, match=r"the batch at offset 0 .* can not be read"):
        run_cleaning(files, log)


def full_disk_log(room: int) -> tuple[SimFiles, PartitionLog]:
    files = SimFiles(1, chances=Chances(cold=0))
    files.make_dirs(HOME)
    log = open_log(files, config=compacting(segment_bytes=500))
    for number in range(40):
        put(log, (b"%d" % (number % 20), b"%d" % number))
    settle(log)
    log.configure(compacting(segment_bytes=100_000))
    files.disk_bytes_max = sum(files.size_of(f"{HOME}/{name}") for name in files.list(HOME)) + room
    return files, log


@pytest.mark.parametrize("room", [0, 100, 1_500])
def test_a_full_disk_ends_the_cleaning_and_nothing_is_left_of_it(room: int) -> None:
    files, log = full_disk_log(room)
    before = stored(log)
    with pytest.raises(OSError, match="No space") as caught:
        run_cleaning(files, log)
    assert caught.value.errno == errno.ENOSPC
    assert leftovers(files) == []
    assert stored(log) == before
    files.disk_bytes_max = None
    _, parts = run_cleaning(files, log)
    swap_in(files, log, parts)
    assert offsets(log) == list(range(20, 40))


def test_a_cleaning_that_nobody_wants_ends(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting())
    put(log, (b"a", b"1"))
    settle(log)

    class Impatient(Collected):
        def check(self) -> None:
            raise JobCancelledError

    plan = plan_cleaning(cleanable(log, None, stable(log), NOW_MS), limits(), SECRET, NOW_MS)
    with pytest.raises(JobCancelledError):
        clean_log(files, StillClock(), plan, Impatient())
    assert leftovers(files) == []


def test_the_throttle_keeps_to_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = StillClock()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now_ms += int(seconds * 1000)

    monkeypatch.setattr("time.sleep", sleep)
    throttle = Throttle(1_000.0, clock)
    for _ in range(20):
        throttle.spend(100)
    assert sum(slept) == pytest.approx(2.0, abs=0.05)
    clock.now_ms += 1_000
    slept.clear()
    throttle.spend(1_000)
    assert slept == []


def test_memory_is_bounded_by_the_buffer_and_told(files: MemoryFiles) -> None:
    log = open_log(files, config=compacting(segment_bytes=1 << 20))
    for number in range(50):
        put(log, *((b"%d" % (number * 20 + at), b"v") for at in range(20)))
    report = clean(files, log, keys=100)
    assert report.map_full
    assert report.keys <= 100
    assert report.peak_memory_bytes > 1 << 20
