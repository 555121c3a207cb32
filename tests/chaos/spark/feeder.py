"""Fills the input in transactions, some of them aborted, and stays a little ahead of the job."""

import logging
import os
import threading
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException, Producer
from tests.chaos.spark.job import INPUT

logger = logging.getLogger(__name__)
CHUNK: Final = 2_500
_ABORTED_EVERY: Final = 8


class Feeder(threading.Thread):
    """Numbers records from `first` on; a chunk whose fate is unknown is followed by new numbers.

    The judge takes the input as it is: what was committed there, however it came about.
    """

    def __init__(
        self, servers: str, first: int, partitions: int, behind: Callable[[], int]
    ) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self._partitions = partitions
        self._behind = behind
        self.next_number = first
        self.chunks = 0
        self._stop_asked = threading.Event()
        self.lag_max = 100_000

    def stop(self) -> None:
        """Leave no transaction open."""
        self._stop_asked.set()
        self.join()

    def run(self) -> None:
        """Feed until told to stop."""
        producer = None
        while not self._stop_asked.is_set():
            try:
                if self._behind() > self.lag_max:
                    self._stop_asked.wait(0.2)
                    continue
                if producer is None:
                    producer = self._producer()
                self._feed(producer)
            except (KafkaException, BufferError) as problem:
                logger.info("the feeder begins again: %s", problem)
                producer = None
                self._stop_asked.wait(0.5)

    def _producer(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": "feeder",
                "linger.ms": 20,
                "log_level": 0,
                "error_cb": lambda _error: None,
            }
        )
        producer.init_transactions(60)
        return producer

    def _feed(self, producer: Producer) -> None:
        self.chunks += 1
        producer.begin_transaction()
        for _ in range(CHUNK):
            number, self.next_number = self.next_number, self.next_number + 1
            value = f"{number}:{os.urandom(20).hex()}".encode()
            producer.produce(INPUT, value, key=f"k{number % 1009}".encode(),
                             partition=number % self._partitions)  # fmt: skip
            producer.poll(0)
        producer.flush(60)
        if self.chunks % _ABORTED_EVERY == 0:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
