"""A broker with many partitions, as its clients see it while those come, stay and go."""

import asyncio
from pathlib import Path

import pytest
from tests.broker.conftest import Client, Life, Machine
from tests.chaos import talk
from tests.chaos.broker_process import BrokerProcess

from barnabas.model.errors import ErrorCode
from barnabas.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from barnabas.wire.records.record import decode_batch, encode_batch

MANY = 600


def errors_of(answer: object) -> set[ErrorCode]:
    return {ErrorCode(each.error_code) for each in answer.topics[0].partitions}  # type: ignore[attr-defined]


async def produced(client: Client, index: int) -> ErrorCode:
    part = ProducePartition(index, memoryview(encode_batch([(1, b"k", b"early", [])])))
    request = ProduceRequest(None, -1, 30_000, [ProduceTopic("large", None, [part])])
    response = await client.link.produce(9, request)
    assert response is not None
    return ErrorCode(response.topics[0].partitions[0].error)


async def fetched(client: Client, index: int) -> ErrorCode:
    topics = [FetchTopic("large", None, [FetchPartition(index, -1, 0, -1, -1, 1 << 20)])]
    request = FetchRequest(-1, -1, 0, 1, 1 << 20, 0, 0, -1, topics, [])
    response = await client.link.fetch(12, request)
    return ErrorCode(response.topics[0].partitions[0].error)


def test_others_are_answered_before_a_large_topic_is_made_or_gone(machine: Machine) -> None:
    async def scene(life: Life) -> None:
        await life.client.create("small")
        other = await life.another_client()
        making = asyncio.ensure_future(life.client.create("large", MANY))
        seen: set[ErrorCode] = set()
        while not making.done():
            assert (await other.produce("small", b"meanwhile")).error == 0
            answer = await other.metadata("large")
            if answer.topics[0].partitions:
                seen |= errors_of(answer)
        await making
        assert ErrorCode.leader_not_available in seen
        assert errors_of(await other.metadata("large")) == {ErrorCode.none}
        deleting = asyncio.ensure_future(life.client.delete("large"))
        turns = 0
        while not deleting.done():
            assert (await other.produce("small", b"meanwhile")).error == 0
            turns += 1
        await deleting
        assert turns > 1
        await other.link.close()
        assert life.failures == []

    machine.live(scene)


def test_a_partition_that_is_not_open_yet_is_to_be_asked_again(machine: Machine) -> None:
    async def scene(life: Life) -> None:
        other = await life.another_client()
        making = asyncio.ensure_future(life.client.create("large", MANY))
        told: set[ErrorCode] = set()
        while not making.done():
            told |= {await produced(other, MANY - 1), await fetched(other, MANY - 1)}
        await making
        assert told <= {
            ErrorCode.unknown_topic_or_partition,  # before it exists
            ErrorCode.not_leader_or_follower,
            ErrorCode.none,
        }
        assert ErrorCode.not_leader_or_follower in told
        await other.link.close()

    machine.live(scene)


@pytest.mark.parametrize("ending", ["stop", "kill", "power"])
def test_a_large_topic_that_was_being_made_is_whole_after_a_restart(
    machine: Machine, ending: str
) -> None:
    async def begin(life: Life) -> None:
        making = asyncio.ensure_future(life.client.create("large", MANY))
        replicas = life.broker._replicas
        while "large" not in replicas.by_name or not replicas.by_name["large"].partitions:
            await asyncio.sleep(0.001)
        assert len(replicas.by_name["large"].partitions) < MANY
        making.cancel()

    async def after(life: Life) -> None:
        assert errors_of(await life.client.metadata("large")) == {ErrorCode.none}
        assert len(life.broker._replicas.by_name["large"].partitions) == MANY
        assert (await life.client.produce("large", b"here")).base_offset == 0

    machine.live(begin, ending=ending)
    machine.live(after)


def test_many_times_more_partitions_than_descriptors(tmp_path: Path) -> None:
    """Each of them is written to and read from; and a restart finds all of it."""
    count = 600
    with BrokerProcess(tmp_path, descriptors_max=80) as broker:
        broker.start()
        with broker.link() as link:
            talk.create_topic(link, "many", count)
            for number in range(count):
                assert talk.produce(link, ("many", number), talk.batch_of(b"%d" % number)) == 0
            assert broker.measure().descriptors < 80
        assert broker.terminate() == 0
        broker.start()
        with broker.link() as link:
            for number in range(0, count, 7):
                data = memoryview(talk.fetch(link, ("many", number), 0))
                assert [record.value for record in decode_batch(data)] == [b"%d" % number]
        assert broker.terminate() == 0
        assert [line for line in broker.log_text().splitlines() if " INFO " not in line] == []
