"""A copier that reads, writes and commits its position in one transaction, again and again."""

import threading
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tests.failover.libraries import QUIET

_AT_ONCE: Final = 20


class Copier(threading.Thread):
    """Copies a topic to its end, each partition to the same one, each record once."""

    def __init__(self, bootstrap: str, source: str, target: str, name: str) -> None:
        super().__init__(daemon=True)
        self.copied = 0
        self.aborted = 0
        self.problems: list[str] = []
        self._target = target
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                # librdkafka may wait for a coordinator that it has forgotten until some connection
                # comes or goes (its issue 5511): so some do.
                "connections.max.idle.ms": 5_000,
            }
            | QUIET
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
            | QUIET
        )
        self._consumer.subscribe([source])

    def run(self) -> None:
        """To the end of every partition."""
        try:
            self._producer.init_transactions(60)
            ended: set[int] = set()
            while len(ended) < 4:
                records = self._take(ended)
                if records and not self._copy(records):
                    self._go_back()
                    ended.clear()
        except Exception as error:  # noqa: BLE001 - the test fails with it
            self.problems.append(f"{type(error).__name__}: {error}")
        finally:
            self._consumer.close()

    def _take(self, ended: set[int]) -> list[Message]:
        records = []
        for message in self._consumer.consume(_AT_ONCE, timeout=0.5):
            error = message.error()
            if error is None:
                records.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
        return records

    def _copy(self, records: list[Message]) -> bool:
        """Whether it is done; not done is not done at all."""
        try:
            self._producer.begin_transaction()
            for message in records:
                self._producer.produce(
                    self._target, message.value(), partition=message.partition() or 0
                )
            self._producer.send_offsets_to_transaction(
                self._consumer.position(self._consumer.assignment()),
                self._consumer.consumer_group_metadata(),
                60,
            )
            self._producer.commit_transaction(60)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(60)
            self.aborted += 1
            return False
        self.copied += len(records)
        return True

    def _go_back(self) -> None:
        """To what is committed."""
        places = self._consumer.committed(self._consumer.assignment(), timeout=60)
        for place in places:
            self._consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
