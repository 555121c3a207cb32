"""confluent-kafka's transactions behind the common port."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.compat.txn_port import (
    COMMITTED,
    TIMEOUT_MS,
    WAIT_S,
    Copy,
    Reading,
    TxnClient,
    TxnRefusedError,
)

_FENCED_CODES = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


class ConfluentTxn(TxnClient):
    """librdkafka: the old generation of transactions."""

    name = "confluent"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._producer: Producer | None = None
        self._refused: list[KafkaError] = []

    def open(self, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": timeout_ms,
                "log_level": 0,
                "linger.ms": 0,
            }
        )
        self._do(self._opened.init_transactions, WAIT_S)

    @property
    def _opened(self) -> Producer:
        assert self._producer is not None
        return self._producer

    def _do(self, call: Callable[..., Any], *arguments: Any) -> None:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                call(*arguments)
                return
            except KafkaException as error:
                cause = error.args[0]
                if not cause.retriable() or time.monotonic() > deadline:
                    raise _refusal(cause) from error

    def begin(self) -> None:
        self._do(self._opened.begin_transaction)

    def send(self, topic: str, partition: int, values: Sequence[str]) -> None:
        for value in values:
            self._opened.produce(
                topic, value.encode(), partition=partition, on_delivery=self._delivered
            )
        try:
            assert self._opened.flush(WAIT_S) == 0
        except SystemError:
            # It stumbles when a fatal error comes in the middle of a flush; a commit tells it.
            self.commit()
        if self._refused:
            raise _refusal(self._refused.pop())

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._refused.append(error)

    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        rows = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        try:
            metadata = consumer.consumer_group_metadata()
            self._do(self._opened.send_offsets_to_transaction, rows, metadata, WAIT_S)
        finally:
            consumer.close()

    def commit(self) -> None:
        self._do(self._opened.commit_transaction, WAIT_S)

    def abort(self) -> None:
        self._do(self._opened.abort_transaction, WAIT_S)

    def read(self, topic: str, partition: int, until: str, how: Reading = COMMITTED) -> list[str]:
        consumer = self._consumer("reader", committed=how.committed)
        consumer.assign([TopicPartition(topic, partition, 0)])
        values: list[str] = []
        deadline = time.monotonic() + WAIT_S
        try:
            while until not in values or time.monotonic() < deadline:
                assert time.monotonic() < deadline, f"{until} does not come, only {values}"
                message = consumer.poll(0.1)
                if message is None or message.error() is not None:
                    continue
                values.append((message.value() or b"").decode())
                if values[-1] == until:
                    deadline = time.monotonic() + how.linger_s
            return values
        finally:
            consumer.close()

    def _consumer(self, group: str, *, committed: bool = True) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "fetch.wait.max.ms": 100,
                "log_level": 0,
            }
        )

    def copy(self, job: Copy, transactional_id: str) -> None:
        self.open(transactional_id)
        consumer = self._consumer(job.group)
        consumer.subscribe([job.source])
        done = turn = 0
        deadline = time.monotonic() + WAIT_S
        try:
            while done < job.count:
                owned = consumer.assignment()
                assert time.monotonic() < deadline, f"{done} copied in {turn} turns, of {owned}"
                messages = consumer.consume(job.batch, 0.2)
                if not messages:
                    continue
                turn += 1
                self._copy_batch(job, consumer, messages)
                if turn % job.abort_every == 0:
                    self.abort()
                    _rewind(consumer)
                else:
                    self.commit()
                    done += len(messages)
        finally:
            consumer.close()

    def _copy_batch(self, job: Copy, consumer: Consumer, messages: Sequence[Any]) -> None:
        self.begin()
        for message in messages:
            assert message.error() is None
            self._opened.produce(
                job.target,
                message.value() + b"!",
                partition=message.partition(),
                on_delivery=self._delivered,
            )
        positions = [row for row in consumer.position(consumer.assignment()) if row.offset >= 0]
        metadata = consumer.consumer_group_metadata()
        self._do(self._opened.send_offsets_to_transaction, positions, metadata, WAIT_S)

    def close(self) -> None:
        self._producer = None


def _rewind(consumer: Consumer) -> None:
    for row in consumer.committed(consumer.assignment(), WAIT_S):
        consumer.seek(TopicPartition(row.topic, row.partition, max(row.offset, 0)))


def _refusal(error: KafkaError) -> TxnRefusedError:
    name = "PRODUCER_FENCED" if error.code() in _FENCED_CODES else error.name()
    return TxnRefusedError(name, error.str())
