"""When a batch is acknowledged: at once, when synced, or never."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.replica.conftest import NOW_MS, make_rig

from barnabas.config.topic_config import TopicConfig
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.replica.partition import Partition
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles

Play = Callable[[Callable[[], Any]], None]
SYNCED = TopicConfig(flush_messages=1)


def readable(partition: Partition) -> int:
    """Records a consumer may read."""
    return partition.high_watermark


def test_without_flush_settings_a_batch_is_committed_when_it_is_appended(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        assert rig.send(b"a", b"b") is None
        assert readable(rig.partition) == 2
        assert rig.work.started == 0

    play(scene)


def test_with_flush_messages_1_nothing_is_acknowledged_or_readable_before_its_sync(
    play: Play,
) -> None:
    async def scene() -> None:
        rig = make_rig(SYNCED)
        acknowledged = rig.send(b"a")
        await asyncio.sleep(60)
        assert acknowledged is not None
        assert not acknowledged.done()
        assert readable(rig.partition) == 0
        assert rig.partition.read(0, 1000, readable(rig.partition), at_least_one=True) is None
        await rig.work.finish()
        assert acknowledged.done()
        assert readable(rig.partition) == rig.partition.log.recovery_point == 1

    play(scene)


def test_one_sync_serves_all_that_came_while_another_ran(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig(SYNCED)
        waiting = [rig.send(b"%d" % number) for number in range(100)]
        assert len(rig.work.waiting) == 1
        await rig.work.finish()
        assert [each is not None and each.done() for each in waiting] == [True] + [False] * 99
        assert len(rig.work.waiting) == 1
        await rig.work.finish()
        assert all(each is not None and each.done() for each in waiting)
        assert (rig.work.started, rig.work.waiting) == (2, [])

    play(scene)


def test_with_flush_messages_n_the_batch_that_reaches_n_waits_for_the_sync(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig(TopicConfig(flush_messages=5))
        assert rig.send(b"1", b"2") is None
        assert rig.send(b"3", b"4") is None
        fifth = rig.send(b"5")
        assert fifth is not None
        assert readable(rig.partition) == 5
        assert rig.send(b"6") is None
        await rig.work.finish()
        assert fifth.done()
        assert rig.partition.log.recovery_point == 5
        assert rig.work.started == 1

    play(scene)


def test_a_repeat_is_acknowledged_no_earlier_than_what_it_repeats(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig(SYNCED)
        first = rig.send(b"a", producer=(1, 0, 0))
        repeat = rig.send(b"a", producer=(1, 0, 0))
        assert first is not None
        assert repeat is not None
        assert not repeat.done()
        await rig.work.finish()
        assert first.done()
        assert repeat.done()
        assert rig.send(b"a", producer=(1, 0, 0)) is None
        assert rig.partition.log.end_offset == 1

    play(scene)


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), RuntimeError("surprise")])
def test_a_failed_sync_is_told_and_never_tried_again(play: Play, error: Exception) -> None:
    async def scene() -> None:
        rig = make_rig(SYNCED)
        acknowledged = rig.send(b"a")
        rig.send(b"b")
        await rig.work.fail(error)
        assert len(rig.failures) == 1
        assert "data/events-0" in rig.failures[0]
        assert acknowledged is not None
        assert not acknowledged.done()
        rig.partition.sync()
        assert rig.work.waiting == []
        assert rig.partition.log.recovery_point == 0

    play(scene)


def test_a_cancelled_sync_counts_as_failed(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig(SYNCED)
        rig.send(b"a")
        rig.work.waiting.pop()[1].cancel()
        await asyncio.sleep(0)
        assert rig.failures == ["syncing data/events-0 failed: cancelled"]

    play(scene)


@pytest.mark.parametrize("flush_messages", [1, 2])
def test_stopping_tells_everybody_who_waits(play: Play, flush_messages: int) -> None:
    async def scene() -> None:
        rig = make_rig(TopicConfig(flush_messages=flush_messages))
        waiting = [each for each in (rig.send(b"a"), rig.send(b"b")) if each is not None]
        assert waiting
        rig.partition.stop(ErrorCode.kafka_storage_error, "The disk is gone.")
        for each in waiting:
            with pytest.raises(KafkaError, match="The disk is gone") as refused:
                await each
            assert refused.value.code is ErrorCode.kafka_storage_error
        with pytest.raises(KafkaError) as refused:
            rig.send(b"c")
        assert refused.value.code is ErrorCode.kafka_storage_error

    play(scene)


def test_a_sync_that_fails_because_its_topic_was_deleted_is_no_failed_disk(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig(SYNCED)
        acknowledged = rig.send(b"a")
        rig.partition.stop(ErrorCode.unknown_topic_or_partition, "The topic was deleted.")
        rig.files.rename("data/events-0", "data/events-0.x-delete")
        await rig.work.finish()
        assert rig.failures == []
        assert acknowledged is not None
        with pytest.raises(KafkaError):
            acknowledged.result()

    play(scene)


def test_a_full_disk_refuses_one_batch_and_those_before_it_are_acknowledged(play: Play) -> None:
    async def scene() -> None:
        files = SimFiles(3, chances=Chances(cold=0))
        rig = make_rig(SYNCED, files)
        first = rig.send(b"a")
        files.disk_bytes_max = 0
        with pytest.raises(KafkaError) as refused:
            rig.send(b"b")
        assert refused.value.code is ErrorCode.kafka_storage_error
        files.disk_bytes_max = None
        await rig.work.finish()
        assert first is not None
        assert first.done()
        assert rig.failures == []
        rig.send(b"c")
        await rig.work.finish()
        assert readable(rig.partition) == 2

    play(scene)


def test_a_sync_that_finds_no_room_is_tried_again_and_nobody_is_told_too_early(play: Play) -> None:
    async def scene() -> None:
        files = SimFiles(3, chances=Chances(cold=0))
        rig = make_rig(SYNCED, files)
        first = rig.send(b"a")
        files.disk_bytes_max = 0
        await rig.work.finish()
        assert first is not None
        assert not first.done(), "the epoch file had no room, so nothing is promised"
        assert rig.failures == []
        files.disk_bytes_max = None
        await asyncio.sleep(2)
        await rig.work.finish()
        assert first.done()
        assert rig.failures == []

    play(scene)


def test_settling_waits_for_the_sync_and_for_the_one_behind_it(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig(SYNCED)
        rig.send(b"a")
        rig.send(b"b")
        settling = asyncio.ensure_future(rig.partition.settle())
        await asyncio.sleep(1)
        assert not settling.done()
        await rig.work.finish()
        await asyncio.sleep(1)
        assert not settling.done()
        await rig.work.finish()
        await settling
        assert rig.partition.log.recovery_point == 2
        rig.partition.sync()
        assert rig.work.started == 2

    play(scene)


def test_lowering_the_flush_policy_does_not_release_what_waits_for_its_sync(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig(SYNCED)
        first = rig.send(b"a")
        rig.partition.log.configure(TopicConfig())
        second = rig.send(b"b")
        assert first is not None
        assert second is not None
        assert not first.done()
        await rig.work.finish()
        assert first.done()
        assert not second.done()
        await rig.work.finish()
        assert second.done()
        assert rig.send(b"c") is None

    play(scene)


def test_syncing_when_all_is_synced_does_nothing(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        rig.partition.sync()
        assert rig.work.started == 0
        rig.send(b"a")
        rig.partition.sync()
        await rig.work.finish()
        rig.partition.sync()
        assert rig.work.started == 1

    play(scene)


def test_batches_carry_the_leader_epoch(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        rig.send(b"a")
        assert rig.partition.log.epochs.entries == [(3, 0)]
        assert rig.partition.log.unsynced_since_ms == NOW_MS

    play(scene)
