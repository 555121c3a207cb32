"""DeleteRecords on three brokers: answered when every replica that is there has deleted."""

import asyncio
from datetime import timedelta

from kio.schema.delete_records.v2.request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, i64
from tests.broker.trio import NUMBERS, SESSION_S, TOPIC, Trio, play

from barnabas.model.errors import ErrorCode

DELETE_RECORDS = 21


async def delete(trio: Trio, offset: int, timeout_s: float = 30.0) -> tuple[ErrorCode, int]:
    """Ask the leader; its answer, and where the log of the replicas begins that begins first."""
    partition = DeleteRecordsPartition(partition_index=i32(0), offset=i64(offset))
    request = DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=TopicName(TOPIC), partitions=(partition,)),),
        timeout=i32Timedelta.parse(timedelta(seconds=timeout_s)),
    )
    client = await trio.client(trio.state().leader)
    answer = await client.link.call(DELETE_RECORDS, 2, request)
    await client.link.close()
    ((result,),) = (each.partitions for each in answer.topics)
    return result.error_code, result.low_watermark


def starts(trio: Trio) -> list[int]:
    return [trio.partition(number).log.start_offset for number in trio.running]


def test_the_answer_comes_when_followers_have_deleted_too() -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(10)
        begun_s = trio.loop.time()
        assert await delete(trio, 4) == (ErrorCode.none, 4)
        assert starts(trio) == [4, 4, 4]
        # They are told at once, not when their fetch has waited in vain.
        assert trio.loop.time() - begun_s < 0.2
        assert await delete(trio, 2) == (ErrorCode.none, 4)
        assert await delete(trio, -1) == (ErrorCode.none, 10)
        assert starts(trio) == [10, 10, 10]
        assert (await delete(trio, 11))[0] is ErrorCode.offset_out_of_range
        await trio.stop(1)
        await trio.until(lambda: trio.state().leader == 2)
        await trio.write(1)
        assert await delete(trio, 11) == (ErrorCode.none, 11)

    play(scene)


def test_a_follower_that_says_nothing_is_waited_for_and_one_that_is_gone_is_not() -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(10)
        assert await delete(trio, 3) == (ErrorCode.none, 3)
        await trio.kill(3)
        assert await delete(trio, 5, timeout_s=1.0) == (ErrorCode.request_timed_out, 3)
        assert starts(trio) == [5, 5]
        assert await delete(trio, 5, timeout_s=0.0) == (ErrorCode.request_timed_out, 3)
        # It counts until its session is over, and no longer.
        assert await delete(trio, 6, timeout_s=60.0) == (ErrorCode.none, 6)
        assert 3 not in trio.state().isr
        await trio.start(3)
        await trio.until_in_sync(*NUMBERS)
        await trio.until(lambda: starts(trio) == [6, 6, 6])

    play(scene)


def test_a_leader_that_leads_no_more_says_so() -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(10)
        await trio.kill(3)
        asking = asyncio.ensure_future(delete(trio, 5, timeout_s=60.0))
        await asyncio.sleep(0.1)
        trio.ensemble.cut("machine-1")
        assert (await asking)[0] is ErrorCode.not_leader_or_follower
        assert trio.loop.time() < 60.0 + SESSION_S

    play(scene)
