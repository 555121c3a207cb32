"""Transactions in a log: what is open, what is stable, what was aborted, and who is fenced."""

import pytest
from tests.log.conftest import NOW_MS, append, batch, open_log
from tests.log.txn_log import aborted, aborted_entries, end, read_committed, stable, write

from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import PartitionLog
from barnabas.log.truncation import restart_at, truncate_to
from barnabas.log.verification import OPEN_ALREADY, VerificationGuard
from barnabas.model import limits
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.records.batch import BatchHeader, parse_header
from barnabas.world.memory import MemoryFiles

A, B, C = 1000, 2000, 3000


@pytest.fixture
def log(files: MemoryFiles) -> PartitionLog:
    return open_log(files)


def code_of(refused: "pytest.ExceptionInfo[KafkaError]") -> ErrorCode:
    return refused.value.code


def header(
    producer: tuple[int, int, int], *values: bytes, transactional: bool = True
) -> BatchHeader:
    return parse_header(batch(*(values or (b"v",)), producer=producer, transactional=transactional))


def verification(
    log: PartitionLog, producer: tuple[int, int, int], *, bumps: bool = True, now_ms: int = NOW_MS
) -> VerificationGuard:
    return log.producers.begin_verification(header(producer), now_ms, bumps_epochs=bumps)


# --- the last stable offset ------------------------------------------------------------------


def test_an_open_transaction_holds_the_last_stable_offset(log: PartitionLog) -> None:
    append(log, batch(b"plain"))
    write(log, (A, 0, 0), b"a1")
    append(log, batch(b"plain"))
    assert (stable(log), log.end_offset) == (1, 3)
    write(log, (B, 0, 0), b"b1")
    end(log, A, 0, committed=True)
    assert stable(log) == 3, "the first batch of the other"
    end(log, B, 0, committed=False)
    assert stable(log) == log.end_offset == 6
    assert read_committed(log) == [(0, b"plain"), (1, b"a1"), (2, b"plain")]


def test_a_marker_above_the_high_watermark_decides_nothing_yet(log: PartitionLog) -> None:
    write(log, (A, 0, 0))
    write(log, (B, 0, 0))
    assert end(log, B, 0, committed=True) == 2
    assert end(log, A, 0, committed=True) == 3
    assert stable(log, 2) == 0
    assert stable(log, 3) == 0, "the marker of the first is not committed"
    assert stable(log, 4) == 4


def test_one_that_ended_later_and_began_later_holds_back_on_its_own(log: PartitionLog) -> None:
    write(log, (A, 0, 0))
    write(log, (B, 0, 0))
    end(log, A, 0, committed=True)
    end(log, B, 0, committed=True)
    assert stable(log, 2) == 0
    assert stable(log, 3) == 1
    assert stable(log, 4) == 4


def test_a_marker_without_batches_ends_nothing(log: PartitionLog) -> None:
    write(log, (B, 0, 0))
    assert end(log, A, 0, committed=False) == 1
    assert (stable(log), aborted(log)) == (0, [])
    known = log.producers.get(A)
    assert known is not None
    assert (known.epoch, known.coordinator_epoch, known.last_sequence) == (0, 0, -1)


def test_records_that_were_deleted_do_not_hold_it_back(log: PartitionLog) -> None:
    for sequence in range(4):
        write(log, (A, 0, sequence))
    log.advance_start(3)
    assert stable(log) == 3
    end(log, A, 0, committed=False)
    assert stable(log) == 5
    assert aborted(log, 3) == [(A, 0)]


# --- what was aborted ------------------------------------------------------------------------


def test_entries_tell_what_was_stable_after_them(log: PartitionLog) -> None:
    write(log, (A, 0, 0))
    write(log, (B, 0, 0))
    end(log, B, 0, committed=False)
    end(log, A, 0, committed=False)
    assert aborted_entries(log, 0, 4) == [(B, 1, 2, 0), (A, 0, 3, 4)]


def test_only_what_overlaps_is_told(log: PartitionLog) -> None:
    for number in range(5):
        write(log, (A, 0, number))
        end(log, A, 0, committed=False)
    assert aborted(log, 0) == [(A, 0), (A, 2), (A, 4), (A, 6), (A, 8)]
    assert aborted(log, 2, 5) == [(A, 2), (A, 4)]
    assert aborted(log, 3, 4) == [(A, 2)]
    assert aborted(log, 10) == []


def test_what_ends_later_may_have_begun_sooner(log: PartitionLog) -> None:
    write(log, (A, 0, 0))
    write(log, (B, 0, 0))
    write(log, (C, 0, 0))
    end(log, C, 0, committed=False)
    end(log, B, 0, committed=False)
    end(log, A, 0, committed=False)
    assert aborted(log, 0, 1) == [(A, 0)]
    assert aborted(log, 1, 2) == [(B, 1), (A, 0)]
    assert aborted(log, 2, 3) == [(C, 2), (B, 1), (A, 0)]


def test_an_old_transaction_is_found_from_any_offset_it_spans(files: MemoryFiles) -> None:
    log = open_log(files, config=TopicConfig(segment_bytes=200))
    write(log, (A, 0, 0), b"first")
    for number in range(20):
        append(log, batch(b"plain %d" % number))
    end(log, A, 0, committed=False)
    assert len(log.segments) > 5
    for offset in range(22):
        assert aborted(log, offset, offset + 1) == [(A, 0)]
    assert [value for _, value in read_committed(log)] == [b"plain %d" % each for each in range(20)]


def test_what_was_aborted_goes_with_its_segment(files: MemoryFiles) -> None:
    log = open_log(files, config=TopicConfig(segment_bytes=200))
    for number in range(20):
        write(log, (A, 0, number))
        end(log, A, 0, committed=False)
    gone, kept = log.segments[:4], log.segments[4:]
    log.drop(gone)
    for segment in gone:
        segment.close()
        segment.remove_files()
    first = kept[0].base_offset
    assert aborted(log, first) == [(A, each) for each in range(first, 40, 2)]
    left = [name for name in files.list("data/events-0") if name.endswith(".txnindex")]
    assert len(left) == len(kept)


def test_reading_off_the_loop_finds_the_same(log: PartitionLog) -> None:
    for number in range(300):
        write(log, (A, 0, number))
        end(log, A, 0, committed=False)
    search = log.aborted_search(100, 400)
    assert search is not None
    assert [each.first_offset for each in search.read()] == list(range(100, 400, 2))


# --- who may write a marker ------------------------------------------------------------------


def test_an_older_coordinator_is_fenced(log: PartitionLog) -> None:
    write(log, (A, 0, 0))
    end(log, A, 0, committed=True, coordinator_epoch=5)
    end(log, A, 0, committed=True, coordinator_epoch=5)
    with pytest.raises(KafkaError) as refused:
        end(log, A, 0, committed=True, coordinator_epoch=4)
    assert code_of(refused) is ErrorCode.transaction_coordinator_fenced
    assert log.end_offset == 3


@pytest.mark.parametrize(
    ("version", "epoch", "is_open", "taken"),
    [
        (0, 3, True, False),
        (0, 4, True, True),
        (0, 5, True, True),
        (1, 3, False, False),
        (1, 4, False, True),
        (2, 3, True, False),
        (2, 4, True, False),
        (2, 5, True, True),
        (2, 3, False, False),
        (2, 4, False, True),
        (2, 9, False, True),
    ],
)
def test_epochs_of_markers(
    log: PartitionLog, version: int, epoch: int, is_open: bool, taken: bool
) -> None:
    write(log, (A, 4, 0))
    if not is_open:
        end(log, A, 4, committed=True)
    before = log.end_offset
    if taken:
        end(log, A, epoch, committed=True, version=version)
        assert stable(log) == log.end_offset == before + 1
    else:
        with pytest.raises(KafkaError) as refused:
            end(log, A, epoch, committed=True, version=version)
        assert code_of(refused) is ErrorCode.invalid_producer_epoch
        assert log.end_offset == before


def test_the_last_epoch_of_all_can_be_ended_by_itself(log: PartitionLog) -> None:
    write(log, (A, 32767, 0))
    end(log, A, 32767, committed=False, version=2)
    assert stable(log) == 2


# --- who may write a batch -------------------------------------------------------------------


def test_after_a_bumping_marker_sequences_begin_anew(log: PartitionLog) -> None:
    write(log, (A, 0, 0), b"1", b"2")
    end(log, A, 1, committed=True, version=2)
    for producer, code in [
        ((A, 0, 2), ErrorCode.invalid_producer_epoch),
        ((A, 0, 0), ErrorCode.invalid_producer_epoch),
        ((A, 1, 2), ErrorCode.out_of_order_sequence_number),
        ((A, 2, 1), ErrorCode.out_of_order_sequence_number),
    ]:
        with pytest.raises(KafkaError) as refused:
            write(log, producer, b"1", b"2")
        assert code_of(refused) is code
    assert write(log, (A, 1, 0)).first_offset == 3


def test_after_a_classic_marker_sequences_go_on(log: PartitionLog) -> None:
    write(log, (A, 0, 0), b"1", b"2")
    end(log, A, 0, committed=True)
    assert write(log, (A, 0, 0), b"1", b"2").repeated
    assert stable(log) == log.end_offset, "a repeat opens nothing"
    assert write(log, (A, 0, 2)).first_offset == 3
    assert stable(log) == 3


def test_a_batch_outside_the_open_transaction_is_refused(log: PartitionLog) -> None:
    write(log, (A, 0, 0))
    for producer, code in [
        ((A, 0, 1), ErrorCode.invalid_txn_state),
        ((A, 1, 0), ErrorCode.invalid_txn_state),
        ((A, 0, 2), ErrorCode.out_of_order_sequence_number),
    ]:
        with pytest.raises(KafkaError) as refused:
            write(log, producer, transactional=False)
        assert code_of(refused) is code
    end(log, A, 0, committed=True)
    write(log, (A, 0, 1), transactional=False)


def test_a_transaction_reaches_into_the_next_epoch_until_its_marker(log: PartitionLog) -> None:
    write(log, (A, 0, 0))
    write(log, (A, 1, 0))
    assert stable(log) == 0
    end(log, A, 1, committed=False)
    assert aborted(log) == [(A, 0)]
    assert read_committed(log) == []


def test_batches_without_sequence_numbers_are_no_repeats(log: PartitionLog) -> None:
    """The group coordinator's own: each comes once."""
    guard = verification(log, (A, 0, -1))
    for number in range(3):
        records = batch(b"%d" % number, producer=(A, 0, -1), transactional=True)
        assert log.append(records, parse_header(records), 0, NOW_MS, guard).first_offset == number
    end(log, A, 1, committed=True, version=2)
    records = batch(b"late", producer=(A, 0, -1), transactional=True)
    with pytest.raises(KafkaError) as refused:
        log.append(records, parse_header(records), 0, NOW_MS, guard)
    assert code_of(refused) is ErrorCode.invalid_producer_epoch


# --- verification ----------------------------------------------------------------------------


def test_no_transaction_opens_without_a_guard(log: PartitionLog) -> None:
    for guard in (None, VerificationGuard(), OPEN_ALREADY):
        with pytest.raises(KafkaError) as refused:
            write(log, (A, 0, 0), guard=guard)
        assert code_of(refused) is ErrorCode.invalid_txn_state
    guard = verification(log, (A, 0, 0))
    write(log, (A, 0, 0), guard=guard)
    write(log, (A, 0, 1), guard=None)
    write(log, (A, 0, 2), guard=guard)
    assert verification(log, (A, 0, 3)) is OPEN_ALREADY
    assert log.producers.has_open_transaction(A, 0)
    assert not log.producers.has_open_transaction(A, 1)
    assert not log.producers.has_open_transaction(B, 0)


def test_a_guard_is_of_one_producer(log: PartitionLog) -> None:
    guard = verification(log, (A, 0, 0))
    with pytest.raises(KafkaError) as refused:
        write(log, (B, 0, 0), guard=guard)
    assert code_of(refused) is ErrorCode.invalid_txn_state


@pytest.mark.parametrize(("bumps", "epoch", "valid"), [(True, 1, True), (True, 2, False),
                                                        (False, 1, False)])  # fmt: skip
def test_a_marker_takes_the_guard_back(
    log: PartitionLog, bumps: bool, epoch: int, valid: bool
) -> None:
    """Unless it is of the transaction before, and the guard of the one that follows it."""
    guard = verification(log, (A, 1, 0), bumps=bumps)
    end(log, A, epoch, committed=False, version=2 if bumps else 0)
    if valid:
        assert write(log, (A, 1, 0), guard=guard).first_offset == 1
        return
    with pytest.raises(KafkaError):
        write(log, (A, epoch, 0), guard=guard)
    fresh = verification(log, (A, epoch, 0), bumps=bumps)
    assert fresh is not guard
    write(log, (A, epoch, 0), guard=fresh)


def test_the_first_batch_uses_the_guard_up(log: PartitionLog) -> None:
    guard = verification(log, (A, 0, 0))
    write(log, (A, 0, 0), guard=guard)
    end(log, A, 1, committed=True, version=2)
    with pytest.raises(KafkaError) as refused:
        write(log, (A, 1, 0), guard=guard)
    assert code_of(refused) is ErrorCode.invalid_txn_state


def test_a_later_batch_waits_for_an_earlier_one(log: PartitionLog) -> None:
    guard = verification(log, (A, 0, 5), bumps=False)
    assert verification(log, (A, 0, 3), bumps=False) is guard
    assert verification(log, (A, 0, 7), bumps=False) is guard
    with pytest.raises(KafkaError) as refused:
        write(log, (A, 0, 5), guard=guard)
    assert code_of(refused) is ErrorCode.out_of_order_sequence_number
    write(log, (A, 0, 3), guard=guard)


def test_the_next_epoch_begins_its_own_waiting(log: PartitionLog) -> None:
    verification(log, (A, 0, 0), bumps=False)
    guard = verification(log, (A, 1, 2), bumps=False)
    write(log, (A, 1, 2), guard=guard)


def test_an_unknown_producer_that_bumps_epochs_begins_at_zero(log: PartitionLog) -> None:
    guard = verification(log, (A, 0, 4))
    with pytest.raises(KafkaError) as refused:
        write(log, (A, 0, 4), guard=guard)
    assert code_of(refused) is ErrorCode.out_of_order_sequence_number


def test_an_old_epoch_is_not_even_verified(log: PartitionLog) -> None:
    write(log, (A, 2, 0))
    with pytest.raises(KafkaError) as refused:
        verification(log, (A, 1, 0))
    assert code_of(refused) is ErrorCode.invalid_producer_epoch
    with pytest.raises(KafkaError) as refused:
        write(log, (A, 1, 0), guard=None)
    assert code_of(refused) is ErrorCode.invalid_producer_epoch


def test_guards_expire(log: PartitionLog) -> None:
    guard = verification(log, (A, 0, 0), now_ms=NOW_MS)
    log.producers.expire(NOW_MS)
    assert verification(log, (A, 0, 0)) is guard
    log.producers.expire(NOW_MS + 1)
    assert len(log.producers.verifications) == 0
    with pytest.raises(KafkaError):
        write(log, (A, 0, 0), guard=guard)


# --- what is forgotten, and what is not ------------------------------------------------------


def test_a_producer_with_an_open_transaction_is_never_forgotten(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PRODUCERS_PER_PARTITION_MAX", 3)
    write(log, (A, 0, 0))
    write(log, (B, 0, 0), transactional=False)
    for other in range(10, 20):
        write(log, (other, 0, 0), transactional=False)
    assert {each for each, _ in log.producers} == {A, 18, 19}
    log.producers.expire(NOW_MS + 10**9)
    assert {each for each, _ in log.producers} == {A}
    end(log, A, 0, committed=True)
    log.producers.expire(NOW_MS + 10**9)
    assert len(log.producers) == 0


def test_all_of_them_open_is_more_than_the_limit(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PRODUCERS_PER_PARTITION_MAX", 3)
    for other in range(10, 15):
        write(log, (other, 0, 0))
    assert len(log.producers) == 5
    end(log, 12, 0, committed=True)
    write(log, (15, 0, 0))
    assert {each for each, _ in log.producers} == {10, 11, 13, 14, 15}


def test_truncation_brings_back_what_was_open(files: MemoryFiles) -> None:
    log = open_log(files, config=TopicConfig(segment_bytes=400))
    for number in range(6):
        write(log, (A, 0, 2 * number))
        write(log, (A, 0, 2 * number + 1))
        end(log, A, 0, committed=False)
    truncate_to(log, 13, NOW_MS)
    assert (stable(log), log.end_offset) == (12, 13)
    assert aborted(log) == [(A, 0), (A, 3), (A, 6), (A, 9)]
    end(log, A, 0, committed=True)
    assert aborted(log) == [(A, 0), (A, 3), (A, 6), (A, 9)]
    truncate_to(log, 1, NOW_MS)
    for number in range(1, 9):
        end(log, A, 0, committed=False)
        write(log, (A, 0, number))
    assert aborted(log) == [(A, 0), *((A, each) for each in range(2, 15, 2))]
    assert len(aborted_entries(log, 5, 9)) == 3
    restart_at(log, files, 100, NOW_MS)
    assert (stable(log), aborted(log, 100)) == (100, [])
    assert not [name for name in files.list("data/events-0") if name.endswith(".txnindex")]


def test_a_client_writes_no_markers(log: PartitionLog) -> None:
    write(log, (A, 0, 0))
    end(log, A, 0, committed=True)
    plan = log.plan_read(1, 100, 2, at_least_one=True)
    assert plan is not None
    stored = bytearray(plan.read().data)
    stored[:8] = bytes(8)
    with pytest.raises(KafkaError) as refused:
        log.check(memoryview(stored), NOW_MS)
    assert code_of(refused) is ErrorCode.invalid_record


def test_markers_have_the_brokers_time_where_the_topic_wants_it(files: MemoryFiles) -> None:
    log = open_log(files, config=TopicConfig(message_timestamp_type="LogAppendTime"))
    write(log, (A, 0, 0))
    end(log, A, 0, committed=True, now_ms=NOW_MS + 7)
    assert log.segments[-1].max_timestamp == NOW_MS + 7
    known = log.producers.get(A)
    assert known is not None
    assert known.last_timestamp == NOW_MS + 7
