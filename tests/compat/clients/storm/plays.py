"""What is played with the topology: records in, capitals out, everything counted."""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.chaos.broker_process import BrokerProcess
from tests.compat.clients.storm.topology import Topology

RECORDS: Final = 5000
PARTITIONS: Final = 3
GROUP: Final = "capitals"
WAIT_S: Final = 300.0

Pair = tuple[bytes | None, bytes | None]


@dataclass(frozen=True)
class Counted:
    """One topology from its start to its last commit."""

    sent: int
    found: Counter[Pair]
    """Each pair of key and value in the output topic, and how often it is there."""
    committed: int
    """By the spout, over all partitions of the input."""
    read_before_the_kill: int | None
    """Different pairs in the output when the broker died; None where it did not."""
    seconds: float

    @property
    def missing(self) -> set[Pair]:
        """What was sent and is not in the output."""
        return expected(self.sent) - self.found.keys()

    @property
    def foreign(self) -> set[Pair]:
        """What is in the output and was not sent."""
        return self.found.keys() - expected(self.sent)

    @property
    def doubled(self) -> int:
        """Copies beyond the first: at least once is what Storm promises."""
        return self.found.total() - len(self.found)


def expected(count: int) -> set[Pair]:
    """What the topology makes of so many records."""
    return {(b"key-%d" % number, b"WORD-%d" % number) for number in range(count)}


def undisturbed() -> Counted:
    """Everything is written before the topology starts, and nothing happens to it."""
    with stage() as (broker, home):
        began = time.monotonic()
        write(broker.address, 0, RECORDS).flush()
        with Topology(home, broker.address, "words", "capitals", GROUP) as topology:
            read_until(broker.address, RECORDS, topology)
            committed = wait_until_committed(broker.address, RECORDS, topology)
            took = time.monotonic() - began
        return Counted(RECORDS, read_all(broker.address), committed, None, took)


def with_a_kill() -> Counted:
    """As many records again are on their way when the broker is killed."""
    with stage() as (broker, home):
        began = time.monotonic()
        write(broker.address, 0, RECORDS).flush()
        with Topology(home, broker.address, "words", "capitals", GROUP) as topology:
            before = read_until(broker.address, 1, topology)
            producer = write(broker.address, RECORDS, 2 * RECORDS)
            broker.kill()
            broker.start()
            if producer.flush(WAIT_S) != 0:
                raise AssertionError("the producer could not write after the broker was back")
            read_until(broker.address, 2 * RECORDS, topology)
            committed = wait_until_committed(broker.address, 2 * RECORDS, topology)
            took = time.monotonic() - began
        found = read_all(broker.address)
        return Counted(2 * RECORDS, found, committed, len(before), took)


@contextmanager
def stage() -> Iterator[tuple[BrokerProcess, Path]]:
    """A broker with both topics, and a folder for the topology."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "storm"
        home.mkdir()
        with BrokerProcess(Path(folder) / "broker") as broker:
            broker.start()
            make_topics(broker.address)
            yield broker, home


def make_topics(bootstrap: str) -> None:
    """The input and the output."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(name, PARTITIONS, 1) for name in ("words", "capitals")]
    for made in admin.create_topics(wanted).values():
        made.result(30)


def write(bootstrap: str, first: int, end: int) -> Producer:
    """Hands the records over; `flush` of what it returns waits until they are written."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 2}
    )
    for number in range(first, end):
        producer.produce("words", key=f"key-{number}", value=f"word-{number}")
    producer.poll(0)
    return producer


def read_until(bootstrap: str, count: int, topology: Topology) -> Counter[Pair]:
    """How often each pair is there, once there are so many different ones."""
    found: Counter[Pair] = Counter()
    deadline = time.monotonic() + WAIT_S
    with reader(bootstrap) as consumer:
        while len(found) < count:
            topology.check()
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(found)} of {count}: {topology.log()[-4000:]}")
            take(consumer, found)
    return found


def read_all(bootstrap: str) -> Counter[Pair]:
    """Whatever is in the output, up to its end."""
    found: Counter[Pair] = Counter()
    with reader(bootstrap) as consumer:
        deadline = time.monotonic() + WAIT_S
        ends: set[int] = set()
        while len(ends) < PARTITIONS:
            if time.monotonic() > deadline:
                raise AssertionError(f"{found.total()} read, and no end of the output is seen")
            ends |= take(consumer, found)
    return found


def take(consumer: Consumer, found: Counter[Pair]) -> set[int]:
    """Some more; returns the partitions at whose ends it has come."""
    ends: set[int] = set()
    for message in consumer.consume(500, timeout=0.5):
        error = message.error()
        if error is None:
            found[message.key(), message.value()] += 1
        elif error.code() == KafkaError._PARTITION_EOF:
            ends.add(message.partition() or 0)
    return ends


@contextmanager
def reader(bootstrap: str) -> Iterator[Consumer]:
    """A consumer of the whole output that leaves no trace."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "judge", "auto.offset.reset": "earliest",
         "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 2}
    )  # fmt: skip
    consumer.subscribe(["capitals"])
    try:
        yield consumer
    finally:
        consumer.close()


def wait_until_committed(bootstrap: str, count: int, topology: Topology) -> int:
    """Until the spout's group has committed all that was read; returns how much that is."""
    deadline = time.monotonic() + WAIT_S
    while True:
        group = describe(bootstrap)
        rows = group.get("partitions", ())
        committed: int = sum(row["committed"] or 0 for row in rows)
        if group.get("lag") == 0 and committed == count and len(rows) == PARTITIONS:
            return committed
        topology.check()
        if time.monotonic() > deadline:
            raise AssertionError(f"{committed} of {count} are committed: {group}")
        time.sleep(0.5)


def describe(bootstrap: str) -> dict[str, Any]:
    """What `barnabas group describe` tells of the spout's group; empty before its first commit."""
    command = [sys.executable, "-m", "barnabas", "group", "describe", GROUP, "--json"]
    done = subprocess.run(
        [*command, "-b", bootstrap], capture_output=True, text=True, timeout=60, check=False
    )
    if "There is no group" in done.stderr:
        return {}
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    (group,) = json.loads(done.stdout)
    return dict(group)
