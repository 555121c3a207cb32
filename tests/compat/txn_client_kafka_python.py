"""kafka-python's transactions behind the common port."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]
from kafka.errors import (  # type: ignore[import-untyped]
    InvalidProducerEpochError,
    KafkaError,
    ProducerFencedError,
)
from kafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]
from tests.compat.txn_port import (
    COMMITTED,
    TIMEOUT_MS,
    WAIT_S,
    Copy,
    Reading,
    TxnClient,
    TxnRefusedError,
)


class KafkaPythonTxn(TxnClient):
    """The pure Python library."""

    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._producer: KafkaProducer = None

    def _do(self, call: Callable[..., Any], *arguments: Any) -> None:
        try:
            call(*arguments)
        except (ProducerFencedError, InvalidProducerEpochError) as error:
            raise TxnRefusedError("PRODUCER_FENCED", str(error)) from error
        except KafkaError as error:
            cause = error.__cause__ or error.__context__ or error
            fenced = isinstance(cause, ProducerFencedError | InvalidProducerEpochError)
            name = "PRODUCER_FENCED" if fenced else type(error).__name__
            raise TxnRefusedError(name, str(error)) from error

    def open(self, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        self._do(self._producer.init_transactions)

    def begin(self) -> None:
        self._do(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, values: Sequence[str]) -> None:
        def send() -> None:
            sent = [
                self._producer.send(topic, value.encode(), partition=partition) for value in values
            ]
            for each in sent:
                each.get(WAIT_S)

        self._do(send)

    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        rows = {
            TopicPartition(topic, number): OffsetAndMetadata(offset, "", -1)
            for number, offset in offsets.items()
        }
        self._do(self._producer.send_offsets_to_transaction, rows, group)

    def commit(self) -> None:
        self._do(self._producer.commit_transaction)

    def abort(self) -> None:
        self._do(self._producer.abort_transaction)

    def read(self, topic: str, partition: int, until: str, how: Reading = COMMITTED) -> list[str]:
        consumer = self._consumer(None, committed=how.committed)
        where = TopicPartition(topic, partition)
        consumer.assign([where])
        consumer.seek(where, 0)
        values: list[str] = []
        deadline = time.monotonic() + WAIT_S
        try:
            while until not in values or time.monotonic() < deadline:
                assert time.monotonic() < deadline, f"{until} does not come, only {values}"
                found = consumer.poll(timeout_ms=100).get(where, ())
                values += [message.value.decode() for message in found]
                if found and until in values:
                    deadline = time.monotonic() + how.linger_s
            return values
        finally:
            consumer.close()

    def _consumer(self, group: str | None, *, committed: bool = True) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed" if committed else "read_uncommitted",
            fetch_max_wait_ms=100,
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
                # A poll that ends while it joins makes it forget that it joined, for ever.
                found = consumer.poll(timeout_ms=10_000, max_records=job.batch)
                if not found:
                    continue
                turn += 1
                self._copy_batch(job, consumer, found)
                if turn % job.abort_every == 0:
                    self.abort()
                    for where in consumer.assignment():
                        consumer.seek(where, consumer.committed(where) or 0)
                else:
                    self.commit()
                    done += sum(map(len, found.values()))
        finally:
            consumer.close()

    def _copy_batch(self, job: Copy, consumer: Any, found: Mapping[Any, Sequence[Any]]) -> None:
        self.begin()
        for where, messages in found.items():
            for message in messages:
                self._producer.send(job.target, message.value + b"!", partition=where.partition)
        offsets = {
            where: OffsetAndMetadata(messages[-1].offset + 1, "", -1)
            for where, messages in found.items()
        }
        self._do(self._producer.send_offsets_to_transaction, offsets, consumer.group_metadata())

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close(timeout=0)
