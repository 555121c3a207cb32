"""Asks the coordinator of a transaction, be it here or at another broker."""

import asyncio
from collections.abc import Mapping
from typing import Final

from barnabas.cluster.image import NO_LEADER
from barnabas.cluster.service import Cluster
from barnabas.coordinator.runtime.turn import Answer
from barnabas.coordinator.txn.asks import AddPartitions
from barnabas.coordinator.txn.service import TransactionCoordinator
from barnabas.link.pool import LinkPool
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import TRANSACTION_STATE, TopicPartition

_ADD_PARTITIONS_TO_TXN: Final = 24
_VERSION: Final = 5


class ClusterEnrolment:
    """Knows by the id of a transaction who coordinates it."""

    def __init__(
        self, cluster: Cluster, coordinator: TransactionCoordinator, links: LinkPool
    ) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self._links = links

    def add_partitions(self, ask: AddPartitions) -> Answer[None]:
        """Make these partitions part of the transaction."""
        elsewhere = self._elsewhere(ask.transactional_id)
        if elsewhere is None:
            return self._coordinator.add_partitions(ask)
        return asyncio.ensure_future(self._add(elsewhere, ask))

    def verify_partitions(self, ask: AddPartitions) -> Answer[Mapping[TopicPartition, ErrorCode]]:
        """Whether they are: the result of each."""
        elsewhere = self._elsewhere(ask.transactional_id)
        if elsewhere is None:
            return self._coordinator.verify_partitions(ask)
        return asyncio.ensure_future(self._ask(elsewhere, ask, verify_only=True))

    def _elsewhere(self, transactional_id: str) -> int | None:
        """The broker that coordinates it; None: this one, or so it will say."""
        topic = self._cluster.image.topics.get(TRANSACTION_STATE)
        if topic is None or not transactional_id:
            return None
        leader = topic.partitions[self._coordinator.partition_of(transactional_id)].leader
        if leader == NO_LEADER:
            raise KafkaError(ErrorCode.coordinator_not_available)
        return None if leader == self._cluster.node_id else leader

    async def _add(self, broker: int, ask: AddPartitions) -> None:
        results = await self._ask(broker, ask, verify_only=False)
        for code in results.values():
            if code is not ErrorCode.none:
                raise KafkaError(code)

    async def _ask(
        self, broker: int, ask: AddPartitions, *, verify_only: bool
    ) -> Mapping[TopicPartition, ErrorCode]:
        request = _request(ask, verify_only=verify_only)
        try:
            answer = await self._links.call(broker, _ADD_PARTITIONS_TO_TXN, _VERSION, request)
        except OSError as error:
            # What was asked may have been done; asked again it changes nothing.
            raise KafkaError(ErrorCode.network_exception, str(error)) from error
        if answer.error_code is not ErrorCode.none:
            raise KafkaError(answer.error_code)
        return {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for result in answer.results_by_transaction
            for topic in result.topic_results
            for each in topic.results_by_partition
        }


def _request(ask: AddPartitions, *, verify_only: bool) -> object:
    from kio.schema.add_partitions_to_txn.v5.request import (
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTransaction,
    )

    from barnabas.api.typed import ProducerId, TopicName, TransactionalId, i16, i32

    topics: dict[str, list[int]] = {}
    for name, number in ask.partitions:
        topics.setdefault(name, []).append(number)
    return AddPartitionsToTxnRequest(
        transactions=(
            AddPartitionsToTxnTransaction(
                transactional_id=TransactionalId(ask.transactional_id),
                producer_id=ProducerId(ask.producer.producer_id),
                producer_epoch=i16(ask.producer.epoch),
                verify_only=verify_only,
                topics=tuple(
                    AddPartitionsToTxnTopic(
                        name=TopicName(name), partitions=tuple(i32(each) for each in numbers)
                    )
                    for name, numbers in topics.items()
                ),
            ),
        )
    )
