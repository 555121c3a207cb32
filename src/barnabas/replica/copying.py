"""What a follower does with its leader's answer: append, cut back, begin anew, or wait."""

import logging
from typing import Final

from barnabas.log.replicating import append_replicated, first_batch_around
from barnabas.log.truncation import restart_at, truncate_to
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.clock import Clock
from barnabas.replica.partition import Partition
from barnabas.wire.fetch import FetchPartition, FetchPartitionResult

logger = logging.getLogger(__name__)

_NOT_NOW: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower.value,
        ErrorCode.unknown_leader_epoch.value,
        ErrorCode.fenced_leader_epoch.value,
        ErrorCode.unknown_topic_or_partition.value,
        ErrorCode.unknown_topic_id.value,
        ErrorCode.kafka_storage_error.value,
        ErrorCode.leader_not_available.value,
    }
)
"""Leader and follower know different epochs, or the leader is not ready: one will hear of it."""


def question(partition: Partition, leader_epoch: int, max_bytes: int) -> FetchPartition:
    """What a follower asks for: what comes next. It says what it has, and up to where of that it
    knows that it is committed."""
    log = partition.log
    return FetchPartition(
        log.partition.partition,
        leader_epoch,
        log.end_offset,
        log.epochs.latest,
        log.start_offset,
        max_bytes,
        None,
        partition.high_watermark,
    )


def is_unsynced(partition: Partition) -> bool:
    """Whether what was copied last has to be synced before more is asked for: a question says what
    a replica has, and with `flush.messages=1` that is what a power cut would leave."""
    return partition.own_end < partition.log.end_offset


class Copier:
    """Applies answers to logs. On the loop: a log belongs to it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def take(self, partition: Partition, leader_epoch: int, result: FetchPartitionResult) -> bool:
        """One partition's answer. False: it should be left alone for a moment."""
        if partition.is_leader or partition.leader_epoch != leader_epoch or partition.log.failure:
            return False
        if result.error:
            return self._refused(partition, result)
        if result.diverging_epoch is not None:
            return self._cut_back(partition, *result.diverging_epoch)
        try:
            self._append(partition, memoryview(result.records or b""))
        except KafkaError as error:
            if error.code is not ErrorCode.kafka_storage_error:
                # (That one is told by the log itself, once.)
                logger.error("%s", error.message)
            partition.write_failed(error)
            return False
        except OSError as error:
            return self._fail(partition, f"beginning {partition.log.directory} failed: {error}")
        partition.learn_committed(result.high_watermark)
        self._begin_later(partition, result.log_start_offset)
        return True

    def _append(self, partition: Partition, records: memoryview) -> None:
        if not records:
            return
        log, now_ms = partition.log, self._clock.wall_ms()
        within = log.size == 0 and first_batch_around(records, log.end_offset)
        if within:
            # The leader's log begins within a batch, which comes whole: so does ours.
            restart_at(log, log.files, within.base_offset, now_ms)
            partition.truncated()
        end = log.end_offset
        try:
            append_replicated(log, records, partition.leader_epoch, now_ms)
        finally:
            partition.copied(log.end_offset - end, len(records))

    def _begin_later(self, partition: Partition, start: int) -> None:
        """What the leader has deleted is deleted here, too."""
        log = partition.log
        if start > log.start_offset:
            log.advance_start(min(start, log.end_offset))

    def _cut_back(self, partition: Partition, epoch: int, end: int) -> bool:
        """The logs agree at most up to the end of `epoch`: in ours, and in the leader's.

        Whether they agree there is seen by the next fetch, which asks again (KIP-279).
        """
        log = partition.log
        before = log.end_offset, log.epochs.latest
        ours, our_end = log.epochs.end_offset(epoch, log.end_offset)
        target = min(end, our_end) if ours >= 0 else min(end, log.end_offset)
        if target < partition.high_watermark:
            logger.error(
                "%s: offsets %d to %d were committed here, and the leader does not have them: an "
                "unclean election has lost them",
                log.partition.directory, target, partition.high_watermark - 1,
            )  # fmt: skip
        if target < log.end_offset:
            logger.info(
                "%s: cut back from %d to %d, where it parts from its leader's log",
                log.partition.directory, log.end_offset, target,
            )  # fmt: skip
        try:
            if target < log.segments[0].base_offset:
                # Nothing of it is the leader's, not even the place where it begins.
                restart_at(log, log.files, target, self._clock.wall_ms())
            else:
                truncate_to(log, target, self._clock.wall_ms())
            # Also an epoch in which nothing was written.
            log.epochs.truncate_end(log.end_offset)
            partition.truncated()
        except OSError as error:
            return self._fail(partition, f"cutting {log.directory} back failed: {error}")
        # (The leader answers such a question at once.)
        return before != (log.end_offset, log.epochs.latest)

    @staticmethod
    def _fail(partition: Partition, reason: str) -> bool:
        """Half done: only a restart can tell what is there."""
        partition.log.fail(reason)
        partition.fail_disk(reason)
        return False

    def _refused(self, partition: Partition, result: FetchPartitionResult) -> bool:
        log, start = partition.log, result.log_start_offset
        if result.error == ErrorCode.offset_out_of_range.value and log.end_offset < start:
            return self._begin_anew(partition, start)
        if result.error not in _NOT_NOW:
            logger.warning(
                "the leader of %s answers with error %d", log.partition.directory, result.error
            )
        return False

    def _begin_anew(self, partition: Partition, start: int) -> bool:
        """We end before the leader's log begins."""
        log = partition.log
        logger.warning(
            "%s: begins anew at %d, where its leader's log begins", log.partition.directory, start
        )
        try:
            restart_at(log, log.files, start, self._clock.wall_ms())
            log.epochs.forget_all()
            partition.truncated()
        except OSError as error:
            return self._fail(partition, f"beginning {log.directory} anew failed: {error}")
        return True
