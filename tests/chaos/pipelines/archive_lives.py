"""A topic that is archived while its retention deletes behind, with kills, and replayed."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.chaos.broker_process import BrokerProcess
from tests.chaos.committed import committed
from tests.chaos.pipelines.commands import Command
from tests.chaos.pipelines.feeding import Feeder
from tests.chaos.pipelines.ledger import PARTITIONS, found, record_of, wanted
from tests.chaos.pipelines.striking import Strike, Targets, hit

from barnabas.spark.archives.contents import Contents
from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place

SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.retention.check.interval.ms": "2000",
}
RETAINED: Final = {
    "retention.bytes": "3000000",
    "retention.ms": "-1",  # The records have timestamps of their own, which may be long ago.
    "segment.bytes": "1048576",
}
SOURCE: Final = "ledger"
TARGET: Final = "ledger-again"
_WAIT_S_MAX: Final = 300.0
_SQL: Final = (
    "SELECT partition, count(*) AS records, count(DISTINCT offset) AS offsets, "
    "min(offset) AS first, max(offset) AS last FROM ledger GROUP BY partition"
)


@dataclass(frozen=True)
class Plan(Targets):
    """How often each is hit, and over how many records."""

    driver: int = 12
    broker: int = 3
    whole: int = 2
    replay: int = 3
    records: int = 2_000_000
    ask_every: int = 4


@dataclass
class ArchiveLives:
    """Everything that runs."""

    home: Path
    plan: Plan
    seed: int
    strikes: list[Strike] = field(default_factory=list)
    seconds: float = 0.0
    answers: list[int] = field(default_factory=list)
    """How many records `barnabas sql` counted, each time it was asked."""
    fed: int = 0
    deleted: int = 0
    replayed: int = 0
    replay_kills: int = 0
    files: int = 0
    problems: list[str] = field(default_factory=list)

    def open(self) -> None:
        """Broker, topics, feeder, archive."""
        self.broker = BrokerProcess(self.home / "broker", settings=SETTINGS).start()
        servers = self.broker.address
        self._random = random.Random(self.seed + len(self.strikes))
        self._connection = Connection.from_options({"kafka.bootstrap.servers": servers})
        self._make_topics(servers)
        words = ["archive", SOURCE, str(self.folder), "--servers", servers]
        self.command = Command(self.home, [*words, "--every", "2s"], {})
        self.command.start()
        self.feeder = Feeder(servers, SOURCE, PARTITIONS, record_of, self.behind)
        self._fill_up()
        self.feeder.start()

    @property
    def folder(self) -> Path:
        """Of the archive."""
        return self.home / "archive"

    @property
    def kafka(self) -> Cluster:
        """This thread's own."""
        return cluster_of(self._connection)

    def _make_topics(self, servers: str) -> None:
        known = set(self.kafka.topic_names())
        new = [
            NewTopic(name, PARTITIONS, config=config)
            for name, config in ((SOURCE, RETAINED), (TARGET, {"retention.ms": "-1"}))
            if name not in known
        ]
        if new:
            admin = AdminClient({"bootstrap.servers": servers})
            for made in admin.create_topics(new).values():
                made.result(30)

    def _fill_up(self) -> None:
        """What an interrupted run has left out of its last chunk."""
        ends = self.kafka.latest(_places(SOURCE), committed=True)
        most = max(ends.values())
        for place, end in ends.items():
            for position in range(end, most):
                number = position * PARTITIONS + place.partition
                self.feeder.send(record_of(number), place.partition)
        self.feeder.flush()
        self.feeder.next_number = most * PARTITIONS

    def behind(self) -> int:
        """Records that are not in the archive yet."""
        try:
            return (
                sum(self.kafka.latest(_places(SOURCE), committed=True).values()) - self.archived()
            )
        except SparkJobError:
            return 0

    def archived(self) -> int:
        """Records in the archive: every offset of this topic holds one."""
        if not (self.folder / "_delta_log").exists():
            return 0
        return sum(end for _, end in Contents(str(self.folder)).ranges.values())

    def strike(self, target: str) -> Strike:
        """Wait until the archive has grown, and hit at any moment."""
        began = time.monotonic()
        before = self.strikes[-1].done if self.strikes else 0
        self._until(lambda: self.archived() > before, "the archive does not grow")
        time.sleep(self._random.uniform(0, 4))
        archived = self.archived()
        hit(target, self.broker, self.command, self._random, self._until)
        strike = Strike(target, time.monotonic() - began, archived)
        self.strikes.append(strike)
        if len(self.strikes) % self.plan.ask_every == 0:
            self.ask()
        return strike

    def ask(self) -> None:
        """`barnabas sql` over topic and archive, while both change."""
        fed = self.feeder.next_number
        done = subprocess.run(
            [sys.executable, "-m", "barnabas.cli.main", "sql", _SQL, "--json", "--servers",
             self.broker.address, "--archive", str(self.folder)],
            capture_output=True, text=True, timeout=2 * _WAIT_S_MAX, check=False, env=os.environ,
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(f"barnabas sql ended with {done.returncode}: {done.stderr}")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        for row in rows:
            if not row["records"] == row["offsets"] == row["last"] + 1 or row["first"]:
                self.problems.append(f"barnabas sql counted {row}")
        counted = sum(row["records"] for row in rows)
        if counted < fed:
            self.problems.append(f"barnabas sql counted {counted:,} of {fed:,} records")
        self.answers.append(counted)

    def finish(self) -> None:
        """Feed the rest, archive all of it, replay it with kills, compare."""
        while self.feeder.next_number < self.plan.records:
            self.command.check()
            time.sleep(0.2)
        self.feeder.stop()
        self.fed = self.feeder.next_number
        self._until(lambda: self.behind() == 0, "the archive does not come to the end")
        self._until(lambda: self._deleted() > 0, "retention has deleted nothing")
        self.ask()
        code = self.command.stop()
        if code:
            raise AssertionError(f"barnabas archive stopped with exit code {code}")
        self.deleted = self._deleted()
        self.files = sum(1 for _ in self.folder.rglob("*.parquet"))
        self._replay()
        self.compare()

    def _deleted(self) -> int:
        return sum(self.kafka.earliest(_places(SOURCE)).values())

    def _replay(self) -> None:
        """Killed so many times, then to its end."""
        words = ["replay", str(self.folder), TARGET, "--servers", self.broker.address]
        replay = Command(self.home, [*words, "--delivery", "exactly-once"], {})
        for _ in range(self.plan.replay):
            before = self._written()
            replay.start()
            while self._written() == before and replay.ended is None:
                time.sleep(0.02)
            time.sleep(self._random.uniform(0, 2))
            if replay.ended is None:
                self.replay_kills += 1
            replay.kill_whole()
        replay.start()
        code = replay.wait(_WAIT_S_MAX * 4)
        if code and self.replay_kills == self.plan.replay:
            raise AssertionError(f"barnabas replay ended with exit code {code}")

    def _written(self) -> int:
        return sum(self.kafka.latest(_places(TARGET), committed=False).values())

    def compare(self) -> None:
        """Every record of the copy with the one that was written first."""
        right = {each: wanted(each) for each in range(PARTITIONS)}
        for message in committed(self.broker.address, TARGET, PARTITIONS):
            self.replayed += 1
            partition = message.partition() or 0
            if found(message) != next(right[partition]) and len(self.problems) < 10:
                self.problems.append(f"{TARGET}-{partition} differs at {message.offset()}")
        if self.replayed != self.fed:
            self.problems.append(f"{self.replayed:,} records were replayed of {self.fed:,}")

    def _until(self, held: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _WAIT_S_MAX
        while not held():
            self.command.check()
            if time.monotonic() > deadline:
                raise AssertionError(otherwise)
            time.sleep(0.1)

    def close(self) -> None:
        """Leave no process behind."""
        if hasattr(self, "feeder") and self.feeder.is_alive():
            if self.broker.child is None:
                self.broker.start()
            self.feeder.stop()
        if hasattr(self, "command"):
            self.command.stop()
        if hasattr(self, "broker"):
            self.broker.close()


def _places(topic: str) -> list[Place]:
    return [Place(topic, each) for each in range(PARTITIONS)]
