"""Consumers that read at followers (KIP-392): three whole brokers, each in a rack of its own."""

import asyncio

from kio.schema.types import ProducerId, TopicName
from kio.schema.write_txn_markers.v1.request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kio.static.primitive import i16, i32
from tests.broker.trio import SESSION_S, TOPIC, Trio, machine, play

from barnabas.model.errors import ErrorCode
from barnabas.sim.clock import SimClock
from barnabas.wire.fetch import FetchPartition, FetchPartitionResult, FetchRequest, FetchTopic
from barnabas.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from barnabas.wire.records.batch import walk
from barnabas.wire.records.record import decode_batch, encode_batch

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
READ_COMMITTED = 1


async def fetch(
    trio: Trio,
    number: int,
    offset: int,
    *,
    rack: str = "",
    epoch: int = -1,
    wait_ms: int = 0,
    isolation: int = 0,
    version: int = 12,
) -> FetchPartitionResult:
    """What a broker answers a consumer."""
    part = FetchPartition(0, epoch, offset, -1, -1, 1 << 20)
    request = FetchRequest(
        -1, -1, wait_ms, 1, 1 << 20, isolation, 0, -1, [FetchTopic(TOPIC, None, [part])], [], rack
    )
    client = await trio.client(number)
    response = await client.link.fetch(version, request)
    (result,) = response.topics[0].partitions
    await client.link.close()
    return result._replace(records=bytes(result.records or b""))


def values(result: FetchPartitionResult) -> list[bytes | None]:
    data = memoryview(bytes(result.records or b""))
    return [each.value for position, _ in walk(data) for each in decode_batch(data, position)]


def code(result: FetchPartitionResult) -> ErrorCode:
    return ErrorCode(result.error)


async def all_know(trio: Trio, count: int) -> None:
    """Until every replica knows that so much is committed."""
    await trio.until(
        lambda: all(trio.partition(each).high_watermark == count for each in trio.running)
    )


def test_a_leader_sends_consumers_to_their_own_rack() -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(5)
        await all_know(trio, 5)
        sent = await fetch(trio, 1, 0, rack="rack-3", wait_ms=30_000)
        assert (code(sent), sent.preferred_read_replica, values(sent)) == (ErrorCode.none, 3, [])
        assert (sent.high_watermark, sent.last_stable_offset) == (5, 5)
        there = await fetch(trio, 3, 0, rack="rack-3")
        assert (there.preferred_read_replica, values(there)) == (-1, trio.written)
        for rack in ("", "rack-1", "rack-9"):
            stays = await fetch(trio, 1, 0, rack=rack)
            assert (stays.preferred_read_replica, values(stays)) == (-1, trio.written), rack
        # Versions that can not say it are answered by the leader itself, and by nobody else.
        assert values(await fetch(trio, 1, 0, rack="rack-3", version=10)) == trio.written
        assert code(await fetch(trio, 3, 0, version=10)) is ErrorCode.not_leader_or_follower

    play(scene, replica_selector_class=RACK_AWARE)


def test_without_a_selector_nobody_is_sent_and_followers_serve_all_the_same() -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(3)
        await all_know(trio, 3)
        stays = await fetch(trio, 1, 0, rack="rack-3")
        assert (stays.preferred_read_replica, values(stays)) == (-1, trio.written)
        assert values(await fetch(trio, 2, 0)) == trio.written

    play(scene)


def test_a_consumer_that_waits_at_a_follower_is_woken_by_what_is_committed() -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(1)
        await all_know(trio, 1)
        begun_s = trio.loop.time()
        waiting = asyncio.ensure_future(fetch(trio, 3, 1, rack="rack-3", wait_ms=30_000))
        await asyncio.sleep(1)
        assert not waiting.done()
        await trio.write(1)
        assert values(await waiting) == trio.written[1:]
        assert trio.loop.time() - begun_s < 5

    play(scene, replica_selector_class=RACK_AWARE)


def test_nothing_is_read_at_a_follower_before_it_is_committed() -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(2)
        await all_know(trio, 2)
        # Broker 2 hears of nobody any more, but stays in the ISR for a while: what comes now is
        # copied by broker 3, and not committed.
        trio.loop.network.cut(machine(2), machine(1))
        client = await trio.client(1)
        hanging = asyncio.ensure_future(client.produce(TOPIC, b"not yet"))
        await trio.until(lambda: trio.partition(3).log.end_offset == 3)
        assert code(await fetch(trio, 3, 2)) is ErrorCode.none
        assert values(await fetch(trio, 3, 2)) == []
        assert values(await fetch(trio, 3, 0)) == trio.written
        assert (await fetch(trio, 3, 0)).high_watermark == 2
        trio.loop.network.heal(machine(2), machine(1))
        assert (await hanging).error == 0
        await client.link.close()
        await all_know(trio, 3)
        assert values(await fetch(trio, 3, 2)) == [b"not yet"]

    play(scene)


def test_offsets_that_a_follower_does_not_have() -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(4)
        await all_know(trio, 4)
        # It may come, or may never: only the leader can say.
        assert code(await fetch(trio, 3, 5)) is ErrorCode.offset_not_available
        assert code(await fetch(trio, 1, 5)) is ErrorCode.offset_out_of_range
        assert code(await fetch(trio, 3, -1)) is ErrorCode.offset_out_of_range
        # A consumer says whose follower it takes this for (KIP-320).
        await trio.stop(1)
        await trio.until(lambda: trio.partition(3).leader_epoch == trio.state().leader_epoch > 0)
        epoch = trio.state().leader_epoch
        assert code(await fetch(trio, 3, 0, epoch=epoch)) is ErrorCode.none
        assert code(await fetch(trio, 3, 0, epoch=epoch - 1)) is ErrorCode.fenced_leader_epoch
        assert code(await fetch(trio, 3, 0, epoch=epoch + 1)) is ErrorCode.unknown_leader_epoch

    play(scene)


async def write_in_transaction(trio: Trio, producer_id: int, value: bytes) -> None:
    batch = encode_batch(
        [(SimClock(trio.loop).wall_ms(), b"k", value, [])],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    topic = ProduceTopic(TOPIC, None, [ProducePartition(0, memoryview(batch))])
    client = await trio.client(1)
    response = await client.link.produce(9, ProduceRequest("t", -1, 30_000, [topic]))
    await client.link.close()
    assert response is not None
    assert response.topics[0].partitions[0].error == 0


async def end_transaction(trio: Trio, producer_id: int, *, commit: bool) -> None:
    topic = WritableTxnMarkerTopic(name=TopicName(TOPIC), partition_indexes=(i32(0),))
    marker = WritableTxnMarker(
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(0),
        transaction_result=commit,
        topics=(topic,),
        coordinator_epoch=i32(0),
    )
    client = await trio.client(1)
    answer = await client.link.call(27, 1, WriteTxnMarkersRequest(markers=(marker,)))
    await client.link.close()
    (result,) = answer.markers[0].topics[0].partitions
    assert result.error_code is ErrorCode.none


def test_a_follower_knows_what_is_stable_and_what_was_aborted() -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(1)
        await write_in_transaction(trio, 7, b"never")
        await write_in_transaction(trio, 8, b"later")
        await all_know(trio, 3)
        open_ = await fetch(trio, 3, 0, isolation=READ_COMMITTED)
        assert (open_.high_watermark, open_.last_stable_offset) == (3, 1)
        assert values(open_) == trio.written
        assert len(values(await fetch(trio, 3, 0))) == 3, "who reads all, reads all"
        waiting = asyncio.ensure_future(fetch(trio, 3, 1, isolation=READ_COMMITTED, wait_ms=30_000))
        await asyncio.sleep(1)
        await end_transaction(trio, 7, commit=False)
        await end_transaction(trio, 8, commit=True)
        woken = await waiting
        assert woken.last_stable_offset >= 2
        assert woken.aborted == [(7, 1)]
        await all_know(trio, 5)
        all_of_it = await fetch(trio, 3, 0, isolation=READ_COMMITTED)
        assert (all_of_it.last_stable_offset, all_of_it.aborted) == (5, [(7, 1)])
        leader = await fetch(trio, 1, 0, isolation=READ_COMMITTED)
        assert (leader.records, leader.aborted) == (all_of_it.records, all_of_it.aborted)

    play(scene, transaction_partition_verification_enable="false")


def test_a_follower_that_is_out_of_touch_turns_consumers_away() -> None:
    async def scene(trio: Trio) -> None:
        await trio.write(1)
        await all_know(trio, 1)
        trio.ensemble.cut(machine(3))
        waiting = asyncio.ensure_future(fetch(trio, 3, 1, wait_ms=30_000))
        await asyncio.sleep(SESSION_S)
        assert code(await waiting) is ErrorCode.not_leader_or_follower
        assert code(await fetch(trio, 3, 0)) is ErrorCode.not_leader_or_follower
        # The leader hears of it, and sends nobody there any more.
        await trio.until_in_sync(1, 2)
        stays = await fetch(trio, 1, 0, rack="rack-3")
        assert (stays.preferred_read_replica, values(stays)) == (-1, trio.written)
        trio.ensemble.heal(machine(3))
        await trio.until_in_sync(1, 2, 3)
        while (await fetch(trio, 1, 0, rack="rack-3")).preferred_read_replica != 3:
            assert trio.loop.time() < 120, "it is sent nobody any more"
            await asyncio.sleep(0.1)

    play(scene, replica_selector_class=RACK_AWARE)
