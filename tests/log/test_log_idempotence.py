"""Idempotent producers: stored once however often sent, in order, across restarts."""

import pytest
from tests.log.conftest import NOW_MS, batch, open_log, read_values, sync

from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import Appended, PartitionLog
from barnabas.model import limits
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.world.memory import MemoryFiles

WRAP = 2**31
PRODUCER = 4_000_000


def send(
    log: PartitionLog,
    sequence: int,
    count: int = 1,
    *,
    epoch: int = 0,
    producer: int = PRODUCER,
    timestamp: int = NOW_MS,
) -> Appended:
    values = [b"%d/%d" % (epoch, (sequence + i) % WRAP) for i in range(count)]
    records = batch(*values, timestamp=timestamp, producer=(producer, epoch, sequence))
    return log.append(records, log.check(records, NOW_MS), 0, NOW_MS)


def refusal(log: PartitionLog, sequence: int, count: int = 1, *, epoch: int = 0) -> ErrorCode:
    end = log.end_offset
    with pytest.raises(KafkaError) as refused:
        send(log, sequence, count, epoch=epoch)
    assert log.end_offset == end
    return refused.value.code


def reopened(files: MemoryFiles, log: PartitionLog, how: str) -> PartitionLog:
    log.close(clean=how == "clean")
    return open_log(files, clean=how == "clean", recovery_point=0, config=log.config)


def test_each_of_the_last_five_batches_may_be_repeated(files: MemoryFiles) -> None:
    log = open_log(files)
    for number in range(7):
        send(log, 3 * number, 3, timestamp=NOW_MS - number)
    for number in (6, 2, 4, 3, 5):
        repeat = send(log, 3 * number, 3)
        assert repeat == Appended(3 * number, 3 * number + 2, NOW_MS - number, repeated=True)
    assert log.end_offset == 21
    assert refusal(log, 3, 3) is ErrorCode.out_of_order_sequence_number


def test_a_batch_that_only_resembles_an_earlier_one_is_out_of_order(files: MemoryFiles) -> None:
    log = open_log(files)
    send(log, 0, 3)
    send(log, 3, 3)
    assert refusal(log, 0, 2) is ErrorCode.out_of_order_sequence_number
    assert refusal(log, 1, 2) is ErrorCode.out_of_order_sequence_number
    assert refusal(log, 3, 4) is ErrorCode.out_of_order_sequence_number


def test_sequences_must_follow_without_gap(files: MemoryFiles) -> None:
    log = open_log(files)
    send(log, 0, 3)
    assert refusal(log, 4) is ErrorCode.out_of_order_sequence_number
    assert send(log, 3).first_offset == 3


def test_a_new_epoch_begins_at_zero_and_ends_the_old_one(files: MemoryFiles) -> None:
    log = open_log(files)
    send(log, 0, 3)
    assert refusal(log, 3, epoch=1) is ErrorCode.out_of_order_sequence_number
    assert send(log, 0, 2, epoch=1).first_offset == 3
    assert refusal(log, 3, epoch=0) is ErrorCode.invalid_producer_epoch
    assert refusal(log, 0, 3, epoch=0) is ErrorCode.invalid_producer_epoch
    assert send(log, 0, 2, epoch=1).repeated


def test_an_unknown_producer_may_begin_anywhere(files: MemoryFiles) -> None:
    log = open_log(files)
    assert send(log, 77).first_offset == 0
    assert send(log, 78).first_offset == 1
    assert refusal(log, 80) is ErrorCode.out_of_order_sequence_number


def test_producers_do_not_know_each_other(files: MemoryFiles) -> None:
    log = open_log(files)
    for producer in range(10, 20):
        assert not send(log, 0, producer=producer).repeated
    for producer in range(10, 20):
        assert send(log, 0, producer=producer).first_offset == producer - 10


def test_sequences_wrap_at_two_to_the_31(files: MemoryFiles) -> None:
    log = open_log(files)
    send(log, WRAP - 2, 3)
    assert send(log, WRAP - 2, 3).repeated
    assert refusal(log, WRAP - 1) is ErrorCode.out_of_order_sequence_number
    assert refusal(log, 0) is ErrorCode.out_of_order_sequence_number
    assert send(log, 1).first_offset == 3
    send(log, 2, 2)
    assert send(log, 1).repeated


def test_exactly_at_the_wrap(files: MemoryFiles) -> None:
    log = open_log(files)
    send(log, WRAP - 3, 3)
    assert send(log, 0).first_offset == 3


@pytest.mark.parametrize("how", ["clean", "unclean"])
def test_repeats_are_known_after_a_restart_with_offset_and_time(
    files: MemoryFiles, how: str
) -> None:
    log = open_log(files)
    for number in range(6):
        send(log, 2 * number, 2, timestamp=NOW_MS - number)
    log = reopened(files, log, how)
    for number in range(1, 6):
        expected = Appended(2 * number, 2 * number + 1, NOW_MS - number, repeated=True)
        assert send(log, 2 * number, 2) == expected
    assert refusal(log, 0, 2) is ErrorCode.out_of_order_sequence_number
    assert refusal(log, 13) is ErrorCode.out_of_order_sequence_number
    assert send(log, 12).first_offset == 12
    assert len(read_values(log)) == 13


@pytest.mark.parametrize("how", ["clean", "unclean"])
def test_the_wrap_survives_a_restart(files: MemoryFiles, how: str) -> None:
    log = open_log(files)
    send(log, WRAP - 2, 3)
    log = reopened(files, log, how)
    assert send(log, WRAP - 2, 3).repeated
    assert send(log, 1).first_offset == 3


@pytest.mark.parametrize("how", ["clean", "unclean"])
def test_repeats_are_known_after_their_segment_was_deleted(files: MemoryFiles, how: str) -> None:
    log = open_log(files, config=TopicConfig(segment_bytes=100))
    for number in range(4):
        send(log, number)
    assert len(log.segments) == 4
    sync(log)
    for segment in log.segments[:3]:
        segment.remove_files()
    log.drop(log.segments[:3])
    assert send(log, 1) == Appended(1, 1, NOW_MS, repeated=True)
    log.close(clean=how == "clean")
    log = open_log(files, clean=how == "clean", start_offset=3, recovery_point=3)
    for number in range(4):
        assert send(log, number) == Appended(number, number, NOW_MS, repeated=True)
    assert send(log, 4).first_offset == 4


def test_a_damaged_snapshot_is_made_up_for_from_the_batches(files: MemoryFiles) -> None:
    log = open_log(files)
    for number in range(6):
        send(log, number)
    log.close(clean=True)
    (snapshot,) = [name for name in files.list("data/events-0") if name.endswith(".snapshot")]
    files.replace(f"data/events-0/{snapshot}", b"damaged")
    log = open_log(files, clean=True)
    assert send(log, 5).repeated
    assert not files.exists(f"data/events-0/{snapshot}")


def test_a_missing_snapshot_too(files: MemoryFiles) -> None:
    log = open_log(files)
    send(log, 0)
    log.roll(NOW_MS)
    send(log, 1)
    log.close(clean=True)
    for name in files.list("data/events-0"):
        if name.endswith(".snapshot"):
            files.remove(f"data/events-0/{name}")
    log = open_log(files, clean=True)
    assert send(log, 0).repeated
    assert send(log, 1).repeated


def test_what_a_torn_tail_took_is_not_remembered(files: MemoryFiles) -> None:
    log = open_log(files)
    send(log, 0)
    send(log, 1)
    log.close(clean=True)
    file = files.open(log.segments[0].path(".log"))
    file.truncate(file.size() - 1)
    log = open_log(files, recovery_point=1)
    assert send(log, 1) == Appended(1, 1, -1, repeated=False)


def test_silent_producers_are_forgotten_and_may_begin_again(files: MemoryFiles) -> None:
    log = open_log(files)
    send(log, 0, 3)
    log.producers.expire(NOW_MS)
    assert send(log, 0, 3).repeated
    log.producers.expire(NOW_MS + 1)
    assert send(log, 0, 3) == Appended(3, 5, -1, repeated=False)


def test_of_too_many_producers_the_longest_silent_is_forgotten(
    files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PRODUCERS_PER_PARTITION_MAX", 3)
    log = open_log(files)
    for producer, sequence in ((1, 0), (2, 0), (3, 0), (1, 1), (4, 0)):
        send(log, sequence, producer=producer)
    assert [producer for producer, _ in log.producers] == [3, 1, 4]


def test_a_refused_write_is_not_remembered(files: MemoryFiles) -> None:
    log = open_log(files)
    send(log, 0)
    log.fail("the disk is gone")
    with pytest.raises(KafkaError):
        send(log, 1)
    log.failure = None
    assert not send(log, 1).repeated
