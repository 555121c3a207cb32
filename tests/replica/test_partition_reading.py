"""Reading a partition, and waiting for what is not there yet."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from tests.replica.conftest import Rig, make_rig

from barnabas.config.topic_config import TopicConfig
from barnabas.log.reading import ReadResult
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.replica.parked import ParkedAppends, ParkedFetch
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles
from barnabas.wire.records.batch import walk
from barnabas.wire.records.record import decode_batch

Play = Callable[[Callable[[], Any]], None]


def values(result: ReadResult) -> list[bytes | None]:
    return [
        record.value
        for position, _ in walk(result.data)
        for record in decode_batch(result.data, position)
    ]


def read(rig: Rig, offset: int, max_bytes: int = 1 << 20) -> Any:
    mark = rig.partition.high_watermark
    return rig.partition.read(offset, max_bytes, mark, at_least_one=True)


async def read_to_the_end(rig: Rig, max_bytes: int) -> list[bytes | None]:
    offset, found = 0, []
    while offset < rig.partition.high_watermark:
        result = read(rig, offset, max_bytes)
        if isinstance(result, asyncio.Future):
            await rig.work.finish()
            result = await result
        assert result.next_offset > offset
        found += values(result)
        offset = result.next_offset
    return found


def test_cached_bytes_are_read_at_once(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        rig.send(b"a", b"b")
        assert values(read(rig, 0)) == [b"a", b"b"]
        assert read(rig, 2) is None
        assert rig.work.started == 0

    play(scene)


def test_cold_bytes_are_read_elsewhere(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig(files=SimFiles(1, chances=Chances(cold=1.0)))
        rig.send(b"a")
        reading = read(rig, 0)
        assert isinstance(reading, asyncio.Future)
        await rig.work.finish()
        assert values(await reading) == [b"a"]

    play(scene)


@pytest.mark.parametrize("cold", [0.0, 0.5])
def test_a_reader_gets_everything_across_segments(play: Play, cold: float) -> None:
    async def scene() -> None:
        files = SimFiles(5, chances=Chances(cold=cold))
        rig = make_rig(TopicConfig(segment_bytes=300), files)
        expected = [b"%d" % number for number in range(60)]
        for value in expected:
            rig.send(value)
        assert len(rig.partition.log.segments) > 10
        assert await read_to_the_end(rig, 250) == expected

    play(scene)


def test_a_reader_at_the_tail_sees_each_batch_although_segments_roll(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig(TopicConfig(segment_bytes=100))
        for number in range(20):
            rig.send(b"%d" % number)
            assert values(read(rig, number)) == [b"%d" % number]
            assert read(rig, number + 1) is None

    play(scene)


def test_out_of_range_is_said_on_both_sides(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        rig.send(b"a", b"b")
        rig.partition.log.advance_start(1)
        for offset in (0, 3):
            with pytest.raises(KafkaError) as refused:
                read(rig, offset)
            assert refused.value.code is ErrorCode.offset_out_of_range

    play(scene)


def test_a_waiting_fetch_is_woken_by_enough_bytes_only(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        rig.send(b"0" * 100)
        size = rig.partition.log.size
        fetch = ParkedFetch(2 * size + 1, 30.0)
        rig.partition.park_fetch(fetch)
        rig.send(b"1" * 100)
        rig.send(b"2" * 100)
        await asyncio.sleep(1)
        assert not fetch.done.done()
        rig.send(b"3")
        assert fetch.done.done()
        rig.partition.unpark_fetch(fetch)
        assert asyncio.get_running_loop().time() == pytest.approx(1)

    play(scene)


def test_bytes_count_once_they_are_committed_not_when_they_are_written(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig(TopicConfig(flush_messages=1))
        fetch = ParkedFetch(1, 30.0)
        rig.partition.park_fetch(fetch)
        rig.send(b"a")
        assert not fetch.done.done()
        await rig.work.finish()
        assert fetch.done.done()

    play(scene)


def test_bytes_of_all_its_partitions_count_together(play: Play) -> None:
    async def scene() -> None:
        rigs = [make_rig() for _ in range(3)]
        rigs[0].send(b"x")
        size = rigs[0].partition.log.size
        fetch = ParkedFetch(2 * size, 30.0)
        for rig in rigs:
            rig.partition.park_fetch(fetch)
        rigs[1].send(b"x")
        assert not fetch.done.done()
        rigs[2].send(b"x")
        assert fetch.done.done()

    play(scene)


def test_a_fetch_waits_no_longer_than_its_deadline(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        fetch = ParkedFetch(1, 0.5)
        rig.partition.park_fetch(fetch)
        await fetch.done
        assert asyncio.get_running_loop().time() == pytest.approx(0.5)
        fetch.wake()
        rig.send(b"late")

    play(scene)


def test_deleting_the_topic_wakes_who_waits(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        fetch = ParkedFetch(1, 30.0)
        rig.partition.park_fetch(fetch)
        rig.partition.stop(ErrorCode.unknown_topic_or_partition, "The topic was deleted.")
        await fetch.done
        assert asyncio.get_running_loop().time() == 0

    play(scene)


def test_a_fetch_that_gave_up_is_not_told_any_more(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        fetch = ParkedFetch(1, 30.0)
        rig.partition.park_fetch(fetch)
        rig.partition.unpark_fetch(fetch)
        rig.partition.unpark_fetch(fetch)
        rig.send(b"a")
        assert not fetch.done.done()

    play(scene)


def test_producers_are_released_in_the_order_of_their_offsets(play: Play) -> None:
    async def scene() -> None:
        parked, order = ParkedAppends(), list[int]()

        def park(offset: int) -> None:
            parked.park(offset).add_done_callback(lambda _: order.append(offset))

        for offset in (5, 3, 9, 3, 7):
            park(offset)
        parked.release(2)
        await asyncio.sleep(0)
        assert order == []
        parked.release(7)
        await asyncio.sleep(0)
        assert order == [3, 3, 5, 7]
        parked.release(100)
        await asyncio.sleep(0)
        assert order == [3, 3, 5, 7, 9]

    play(scene)


def test_a_producer_that_went_away_does_not_stand_in_the_way(play: Play) -> None:
    async def scene() -> None:
        parked = ParkedAppends()
        gone, here = parked.park(1), parked.park(1)
        gone.cancel()
        parked.release(1)
        assert here.done()
        assert gone.cancelled()
        also_gone = parked.park(2)
        also_gone.cancel()
        parked.fail(KafkaError(ErrorCode.kafka_storage_error))

    play(scene)


def test_nobody_is_told_that_a_producer_who_went_away_was_turned_away(play: Play) -> None:
    """Such as a task that is cancelled while it waits for another of its partitions."""

    async def scene() -> None:
        told: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: told.append(context))
        parked = ParkedAppends()
        parked.park(1)
        waited_for = parked.park(2)
        parked.fail(KafkaError(ErrorCode.not_leader_or_follower))
        with pytest.raises(KafkaError):
            await waited_for
        del waited_for
        gc.collect()
        assert told == []

    play(scene)


def test_damage_reaches_the_reader_as_corrupt_message(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        rig.send(b"a")
        file = rig.files.open("data/events-0/00000000000000000000.log")
        file.pwrite(b"!", file.size() - 2)
        with pytest.raises(KafkaError) as refused:
            read(rig, 0)
        assert refused.value.code is ErrorCode.corrupt_message

    play(scene)
