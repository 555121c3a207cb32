"""The brokers that coordinate transactions and lead partitions, asked about both."""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from barnabas.cli.brokers import Broker, Brokers, check
from barnabas.cli.client import REQUEST_S
from barnabas.model.errors import ErrorCode

INIT_PRODUCER_ID: Final = 22
WRITE_TXN_MARKERS: Final = 27
DESCRIBE_PRODUCERS: Final = 61
DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66
_FENCING_TIMEOUT_MS: Final = 60_000
_ELSEWHERE: Final = (ErrorCode.not_coordinator, ErrorCode.transactional_id_not_found)

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Filters:
    """Which transactions a list shows."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    longer_than_ms: int = -1
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A transactional id as a list shows it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id, and what it is doing."""

    transactional_id: str
    coordinator: int
    producer_id: int
    epoch: int
    state: str
    timeout_ms: int
    start_ms: int
    """-1 where nothing has begun."""
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class OpenProducer:
    """A producer whose transaction is open in a partition."""

    partition: Partition
    producer_id: int
    epoch: int
    coordinator_epoch: int
    start_offset: int
    last_ms: int


class TxnBroker(Broker):
    """One broker."""

    def transactions(self, filters: Filters) -> list[Any]:
        """Rows of those it coordinates."""
        from kio.schema.list_transactions.v2.request import ListTransactionsRequest
        from kio.schema.types import ProducerId
        from kio.static.primitive import i64

        answer = self.ask(
            LIST_TRANSACTIONS,
            ListTransactionsRequest(
                state_filters=filters.states,
                producer_id_filters=tuple(map(ProducerId, filters.producer_ids)),
                duration_filter=i64(filters.longer_than_ms),
                transactional_id_pattern=filters.pattern,
            ),
        )
        check("List transactions", answer.error_code)
        return list(answer.transaction_states)

    def describe(self, transactional_ids: Iterable[str]) -> list[Any]:
        """One answer for each id, whoever coordinates it."""
        from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
        from kio.schema.types import TransactionalId

        ids = tuple(map(TransactionalId, transactional_ids))
        answer = self.ask(DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(transactional_ids=ids))
        return list(answer.transaction_states)

    def open_producers(self, topics: dict[str, list[int]]) -> list[OpenProducer]:
        """Every transaction that is open in these partitions, of which this broker is leader."""
        from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
        from kio.schema.types import TopicName
        from kio.static.primitive import i32

        wanted = tuple(
            TopicRequest(name=TopicName(name), partition_indexes=tuple(map(i32, numbers)))
            for name, numbers in topics.items()
        )
        answer = self.ask(DESCRIBE_PRODUCERS, DescribeProducersRequest(topics=wanted))
        found = []
        for topic in answer.topics:
            for each in topic.partitions:
                check(f"Describe producers of {topic.name}-{each.partition_index}", each.error_code)
                found += [
                    OpenProducer(
                        partition=(topic.name, each.partition_index),
                        producer_id=producer.producer_id,
                        epoch=producer.producer_epoch,
                        coordinator_epoch=producer.coordinator_epoch,
                        start_offset=producer.current_txn_start_offset,
                        last_ms=producer.last_timestamp,
                    )
                    for producer in each.active_producers
                    if producer.current_txn_start_offset >= 0
                ]
        return found

    def abort_in(self, producer: OpenProducer) -> ErrorCode:
        """Write the end of a producer's transaction into one partition."""
        from kio.schema.types import ProducerId, TopicName
        from kio.schema.write_txn_markers.v2.request import (
            WritableTxnMarker,
            WritableTxnMarkerTopic,
            WriteTxnMarkersRequest,
        )
        from kio.static.primitive import i16, i32

        name, number = producer.partition
        marker = WritableTxnMarker(
            producer_id=ProducerId(producer.producer_id),
            producer_epoch=i16(producer.epoch),
            transaction_result=False,
            topics=(
                WritableTxnMarkerTopic(name=TopicName(name), partition_indexes=(i32(number),)),
            ),
            # A coordinator never had a lower one, so that whoever comes after may still speak.
            coordinator_epoch=i32(max(producer.coordinator_epoch, 0)),
        )
        answer = self.ask(WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers=(marker,)))
        result: ErrorCode = answer.markers[0].topics[0].partitions[0].error_code
        return result

    def fence(self, transactional_id: str) -> ErrorCode:
        """Take the id away from whoever has it; its open transaction is aborted."""
        from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
        from kio.schema.types import TransactionalId
        from kio.static.primitive import i32Timedelta

        answer = self.ask(
            INIT_PRODUCER_ID,
            InitProducerIdRequest(
                transactional_id=TransactionalId(transactional_id),
                transaction_timeout=i32Timedelta.parse(
                    datetime.timedelta(milliseconds=_FENCING_TIMEOUT_MS)
                ),
            ),
        )
        code: ErrorCode = answer.error_code
        return code


class TxnBrokers(Brokers[TxnBroker]):
    """All of a cluster's brokers."""

    def __init__(self, client: Any) -> None:
        super().__init__(client, TxnBroker)
        self._client = client

    def transactions(self, filters: Filters) -> list[Listed]:
        """Every transactional id that passes, by name."""
        found = [
            Listed(each.transactional_id, number, each.producer_id, each.transaction_state)
            for number, broker in self.by_id.items()
            for each in broker.transactions(filters)
        ]
        return sorted(found, key=lambda each: each.transactional_id)

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, Transaction]:
        """Those of the ids that some coordinator knows."""
        ids = list(transactional_ids)
        found = {}
        for number, broker in self.by_id.items() if ids else ():
            for each in broker.describe(ids):
                if each.error_code in _ELSEWHERE:
                    continue
                check(f"Describe the transaction {each.transactional_id}", each.error_code)
                found[each.transactional_id] = _transaction(each, number)
        return found

    def open_producers(self, only: Partition | None = None) -> list[OpenProducer]:
        """Every transaction that is open in any partition, or in one."""
        by_leader: dict[int, dict[str, list[int]]] = {}
        for name, topic in self._client.list_topics(timeout=REQUEST_S).topics.items():
            for number, partition in topic.partitions.items():
                if only in (None, (name, number)) and partition.leader in self.by_id:
                    by_leader.setdefault(partition.leader, {}).setdefault(name, []).append(number)
        return [
            producer
            for leader, topics in by_leader.items()
            for producer in self.by_id[leader].open_producers(topics)
        ]

    def leader_of(self, partition: Partition) -> TxnBroker:
        """Whom to tell about the partition."""
        topic = self._client.list_topics(timeout=REQUEST_S).topics[partition[0]]
        return self.by_id[topic.partitions[partition[1]].leader]


def _transaction(each: Any, coordinator: int) -> Transaction:
    return Transaction(
        transactional_id=each.transactional_id,
        coordinator=coordinator,
        producer_id=each.producer_id,
        epoch=each.producer_epoch,
        state=each.transaction_state,
        timeout_ms=round(each.transaction_timeout.total_seconds() * 1000),
        start_ms=round(each.transaction_start_time.timestamp() * 1000),
        partitions=tuple(
            (topic.topic, number) for topic in each.topics for number in topic.partitions
        ),
    )
