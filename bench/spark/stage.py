"""What both connectors are measured on: a broker of its own process, topics, and a session."""

import itertools
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from tests.chaos.broker_process import BrokerProcess
from tests.compat.clients.spark.sessions import both_connectors
from tests.compat.clients.spark.topics import DEADLINE_S, Topics

PARTITIONS: Final = 4
KEY_BYTES: Final = 10
VALUE_BYTES: Final = 100
_POOL: Final = 5_000
_PACE_S: Final = 0.02
_EACH_PACE: Final = 10


def say(text: str) -> None:
    """Progress, for whoever waits."""
    print(text, file=sys.stderr, flush=True)


@dataclass
class Stage:
    """One broker on disk and one Spark session at a time."""

    broker: BrokerProcess
    topics: Topics
    home: Path
    spark: SparkSession | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    """Records of the topics that were filled."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def session(self) -> SparkSession:
        """The one that runs."""
        if self.spark is None:
            raise RuntimeError("no session runs")
        return self.spark

    def start_session(self, settings: Mapping[str, str]) -> None:
        """Start Spark, after the end of what ran before."""
        self.stop_session()
        self.spark = both_connectors(self.home, {"spark.driver.memory": "3g", **settings})

    def stop_session(self) -> None:
        """End Spark."""
        if self.spark is not None:
            self.spark.stop()
            self.spark = None

    def fresh(self, word: str) -> str:
        """A name nobody has used."""
        return f"{word}-{next(self._numbers)}"

    def checkpoint(self) -> str:
        """A new place for one."""
        return str(self.home / self.fresh("checkpoint"))

    def servers(self) -> dict[str, str]:
        """The option both connectors need."""
        return {"kafka.bootstrap.servers": self.broker.address}

    def fill(self, topic: str, records: int, codec: str) -> None:
        """Records like a line of JSON each, 10 bytes of key, evenly over the partitions."""
        self.topics.create(topic, PARTITIONS)
        self.sizes[topic] = records
        pool = [_line(number) for number in range(_POOL)]
        producer = self.topics.producer(compression_type=codec, linger_ms=20)
        for number in range(records):
            while True:
                try:
                    producer.produce(
                        topic,
                        key=b"%010d" % number,
                        value=pool[number % _POOL],
                        partition=number % PARTITIONS,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        left = producer.flush(DEADLINE_S)
        if left:
            raise TimeoutError(f"{left} records were not taken")

    @contextmanager
    def trickle(self, topic: str) -> Iterator[None]:
        """A few records every 20 ms, as long as the block lasts."""
        ended = threading.Event()
        producer = self.topics.producer(linger_ms=0)

        def send() -> None:
            while not ended.wait(_PACE_S):
                for _ in range(_EACH_PACE):
                    producer.produce(topic, key=b"k" * KEY_BYTES, value=b"v" * VALUE_BYTES)
                producer.poll(0)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield
        finally:
            ended.set()
            sender.join()
            producer.flush(DEADLINE_S)


def _line(number: int) -> bytes:
    text = f'{{"id": {number * 7919}, "user": "user-{number % 997}", "page": "/{number % 61}'
    return text.ljust(VALUE_BYTES - 2, "x").encode() + b'"}'


@contextmanager
def prepared(home: Path) -> Iterator[Stage]:
    """A broker that runs while the block lasts."""
    with BrokerProcess(home / "broker") as broker:
        broker.start()
        stage = Stage(broker, Topics(broker.address), home)
        try:
            yield stage
        finally:
            stage.stop_session()
