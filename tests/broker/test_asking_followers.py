"""What brokers answer for partitions that they follow."""

import asyncio
from typing import Any

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_topic_partitions.v0.request import (
    DescribeTopicPartitionsRequest,
)
from kio.schema.describe_topic_partitions.v0.request import (
    TopicRequest as DescribedTopic,
)
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kio.schema.types import GroupId, ProducerId, TopicName, TransactionalId
from kio.static.primitive import i8, i16, i32, i64
from tests.broker.trio import NUMBERS, TOPIC, Trio, play

from barnabas.model.errors import ErrorCode


async def call(trio: Trio, number: int, key: int, version: int, request: object) -> Any:
    client = await trio.client(number)
    answer = await client.link.call(key, version, request)
    await client.link.close()
    return answer


async def coordinator(trio: Trio, kind: int, name: str) -> int:
    """Whoever coordinates it, once somebody does."""
    ask = FindCoordinatorRequest(key_type=i8(kind), coordinator_keys=(name,))
    while True:
        (found,) = (await call(trio, 1, 10, 6, ask)).coordinators
        if found.error_code is ErrorCode.none:
            return int(found.node_id)
        await asyncio.sleep(0.1)


def test_followers_tell_of_producers_too() -> None:
    """KIP-664: whether a transaction hangs is asked of each replica."""

    async def scene(trio: Trio) -> None:
        leader = trio.state().leader
        client = await trio.client(leader)
        for sequence in range(3):
            result = await client.produce(TOPIC, b"x", producer=(7, 0, sequence))
            assert result.error == 0
        await client.link.close()
        name = TopicRequest(name=TopicName(TOPIC), partition_indexes=(i32(0),))
        found = []
        for number in NUMBERS:
            asked = DescribeProducersRequest(topics=(name,))
            answer = await call(trio, number, 61, 0, asked)
            (partition,) = answer.topics[0].partitions
            assert partition.error_code is ErrorCode.none
            found.append(partition.active_producers)
        assert found[0] == found[1] == found[2]
        assert [(each.producer_id, each.last_sequence) for each in found[0]] == [(7, 2)]

    play(scene)


def test_offsets_are_committed_in_a_transaction_at_the_coordinator_only() -> None:
    """A broker that only follows the group's partition must not make that part of anything, and
    knows nothing of which it could refuse for good."""

    async def scene(trio: Trio) -> None:
        await coordinator(trio, 1, "t")
        here = await coordinator(trio, 0, "g")
        await asyncio.sleep(5)
        offset = TxnOffsetCommitRequestPartition(
            partition_index=i32(0), committed_offset=i64(1), committed_metadata=None
        )
        request = TxnOffsetCommitRequest(
            transactional_id=TransactionalId("t"),
            group_id=GroupId("g"),
            producer_id=ProducerId(7),
            producer_epoch=i16(0),
            topics=(TxnOffsetCommitRequestTopic(name=TopicName(TOPIC), partitions=(offset,)),),
        )
        for number in NUMBERS:
            answer = await call(trio, number, 28, 5, request)
            (told,) = answer.topics[0].partitions
            is_coordinator = number == here
            assert (told.error_code is ErrorCode.not_coordinator) is not is_coordinator, told

    play(scene)


def test_who_may_lead_besides_the_isr_is_told() -> None:
    """KIP-966: with too few in sync nothing is committed, so those who left have everything."""

    async def scene(trio: Trio) -> None:
        await trio.kill(2)
        await trio.kill(3)
        await trio.until(lambda: trio.partition(1).state.isr == (1,))
        name = DescribedTopic(name=TopicName(TOPIC))
        asked = DescribeTopicPartitionsRequest(topics=(name,), cursor=None)
        answer = await call(trio, 1, 75, 0, asked)
        (partition,) = answer.topics[0].partitions
        assert partition.isr_nodes == (1,)
        assert partition.eligible_leader_replicas == trio.state().eligible != ()
        await trio.start(2, 3)

    play(scene)
