"""Fills the input and stays a little ahead of the pipeline, whatever the broker does."""

import logging
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from confluent_kafka import KafkaException, Producer

logger = logging.getLogger(__name__)
CHUNK: Final = 2_000


class Fed(NamedTuple):
    """A record; a timestamp of 0 is the moment at which it is sent."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int = 0
    headers: list[tuple[str, str | bytes | None]] | None = None


class Feeder(threading.Thread):
    """Numbers records from `first` on; each is sent until it is acknowledged.

    A chunk is wholly there before the next begins, so that no record is much later than others.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        partitions: int,
        record_of: Callable[[int], Fed],
        behind: Callable[[], int],
        first: int = 0,
    ) -> None:
        super().__init__(daemon=True)
        self._topic = topic
        self._partitions = partitions
        self._record_of = record_of
        self._behind = behind
        self.next_number = first
        self.lag_max = 60_000
        self._stop_asked = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 0,
                "log_level": 0,
                "error_cb": lambda _error: None,
            }
        )

    def stop(self) -> None:
        """When the chunk of the moment is acknowledged."""
        self._stop_asked.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        """Feed until told to stop."""
        while not self._stop_asked.is_set():
            if self._behind() > self.lag_max:
                self._stop_asked.wait(0.1)
                continue
            self._feed()

    def _feed(self) -> None:
        for number in range(self.next_number, self.next_number + CHUNK):
            self.send(self._record_of(number), number % self._partitions)
        self.next_number += CHUNK
        self.flush()

    def send(self, record: Fed, partition: int) -> None:
        """One record; waits while the producer has enough to do."""
        while True:
            try:
                self._producer.produce(
                    self._topic, record.value, key=record.key, partition=partition,
                    timestamp=record.timestamp, headers=record.headers,
                )  # fmt: skip
            except (BufferError, KafkaException) as problem:
                logger.info("the feeder waits: %s", problem)
                self._producer.poll(0.1)
            else:
                break
        self._producer.poll(0)

    def flush(self) -> None:
        """Until everything is acknowledged."""
        while self._producer.flush(1.0):
            pass
