"""A pipeline with three queries, killed again and again, and its broker."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.chaos.broker_process import BrokerProcess
from tests.chaos.committed import committed
from tests.chaos.pipelines.commands import Command
from tests.chaos.pipelines.feeding import Fed, Feeder
from tests.chaos.pipelines.judging import Judgement, judge
from tests.chaos.pipelines.readings import closing_value, next_number, value_of
from tests.chaos.pipelines.striking import Strike, Targets, hit

from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place

SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
PARTITIONS: Final = 3
INPUT: Final = "readings"
TOPICS: Final = (INPUT, "windows", "readings-dead")
GROUPS: Final = ("readings.windows", "readings.rows", "readings.dead-letter-readings")
FILE: Final = Path(__file__).with_name("pipeline.yaml")
_PROGRESS_S_MAX: Final = 300.0
T = TypeVar("T")


@dataclass(frozen=True)
class Plan(Targets):
    """How often each is hit, and over how many records."""

    driver: int = 20
    broker: int = 5
    whole: int = 3
    records: int = 530_000
    """In the input, at least: they are counted there, for a pause leaves some numbers out."""


@dataclass
class PipelineLives:
    """Everything that runs; `strike` breaks one part, and the rest has to cope."""

    home: Path
    plan: Plan
    seed: int
    strikes: list[Strike] = field(default_factory=list)
    seconds: float = 0.0
    judgement: Judgement | None = None

    def open(self) -> None:
        """Broker, topics, feeder, pipeline."""
        self.broker = BrokerProcess(self.home / "broker", settings=SETTINGS).start()
        servers = self.broker.address
        self._random = random.Random(self.seed + len(self.strikes))
        self.connect(servers)
        environment = {"KILLS_SERVERS": servers, "KILLS_HOME": str(self.home)}
        self.command = Command(self.home, ["pipeline", "run", str(FILE)], environment)
        self.command.start()
        self.begin_feeding(servers)

    def connect(self, servers: str) -> None:
        """To a broker that has the topics then."""
        self._connection = Connection.from_options({"kafka.bootstrap.servers": servers})
        self._make_topics(servers)

    def begin_feeding(self, servers: str) -> None:
        """From where an earlier run has stopped, if there was one."""
        first = next_number(committed(servers, INPUT, PARTITIONS))
        self.feeder = Feeder(servers, INPUT, PARTITIONS, _reading, self.behind, first)
        # Whatever were fed after the closing events would be too late for its windows.
        if len(self.strikes) < len(self.plan.order) or not self.is_fed():
            self.feeder.start()

    def is_fed(self) -> bool:
        """Whether the input has as many records as are planned."""
        return self._fed() >= self.plan.records

    def _make_topics(self, servers: str) -> None:
        known = set(self.kafka.topic_names())
        wanted = [NewTopic(each, PARTITIONS) for each in TOPICS if each not in known]
        if wanted:
            admin = AdminClient({"bootstrap.servers": servers})
            for made in admin.create_topics(wanted).values():
                made.result(30)

    @property
    def kafka(self) -> Cluster:
        """This thread's own."""
        return cluster_of(self._connection)

    def behind(self) -> int:
        """How far the slowest query is behind the end of the input."""
        try:
            return self._fed() - min(self._read_by(group) for group in GROUPS)
        except SparkJobError:
            return 0

    def _fed(self) -> int:
        return sum(self.kafka.latest(_input(), committed=True).values())

    def _read_by(self, group: str) -> int:
        done = self.kafka.committed_offsets(group, _input(), stable=False)
        return sum(max(0, offset) for offset, _ in done.values())

    def strike(self, target: str) -> Strike:
        """Wait until every query has got on, and hit at any moment."""
        began = time.monotonic()
        done = self._wait_for_progress()
        time.sleep(self._random.uniform(0, 3))
        hit(target, self.broker, self.command, self._random, self._until)
        strike = Strike(target, time.monotonic() - began, done)
        self.strikes.append(strike)
        return strike

    def _wait_for_progress(self) -> int:
        before = {group: self._patiently(lambda: self._read_by(group)) for group in GROUPS}  # noqa: B023
        for group, offset in before.items():
            self._until(lambda: self._read_by(group) > offset, f"{group} does not get on")  # noqa: B023
        return sum(self._patiently(lambda: self._read_by(group)) for group in GROUPS)  # noqa: B023

    def _until(self, held: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _PROGRESS_S_MAX
        while not self._patiently(held):
            self.command.check()
            if time.monotonic() > deadline:
                raise AssertionError(otherwise)
            time.sleep(0.05)

    def _patiently(self, ask: Callable[[], T]) -> T:
        deadline = time.monotonic() + _PROGRESS_S_MAX
        while True:
            try:
                return ask()
            except SparkJobError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def finish(self) -> None:
        """All kills are done: feed what is missing, close the windows, read to the end, judge."""
        while not self._patiently(self.is_fed):
            self.command.check()
            time.sleep(0.2)
        self.feeder.stop()
        for partition in range(PARTITIONS):
            self.feeder.send(Fed(closing_value()), partition)
        self.feeder.flush()
        self._until(lambda: self.behind() == 0, "the pipeline does not come to the end")
        self._wait_for_the_last_windows()
        code = self.command.stop()
        if code:
            raise AssertionError(f"the pipeline stopped with exit code {code}")
        self.judgement = judge(self.broker.address, PARTITIONS, self.home / "table")

    def _wait_for_the_last_windows(self) -> None:
        """They are written by a batch of their own, which no offset tells of."""
        places = [Place("windows", each) for each in range(PARTITIONS)]
        end, quiet_since = -1, time.monotonic()
        while time.monotonic() < quiet_since + 30:
            now = sum(self.kafka.latest(places, committed=True).values())
            if now != end:
                end, quiet_since = now, time.monotonic()
            self.command.check()
            time.sleep(0.5)

    def close(self) -> None:
        """Leave no process behind."""
        if hasattr(self, "feeder"):
            self.broker_is_up()
            self.feeder.stop()
        if hasattr(self, "command"):
            self.command.stop()
        if hasattr(self, "broker"):
            self.broker.close()

    def broker_is_up(self) -> None:
        """Or the feeder could not finish its chunk."""
        if self.broker.child is None:
            self.broker.start()

    @property
    def problems(self) -> list[str]:
        """What is wrong with the outputs."""
        return [] if self.judgement is None else self.judgement.problems


def _input() -> list[Place]:
    return [Place(INPUT, each) for each in range(PARTITIONS)]


def _reading(number: int) -> Fed:
    return Fed(value_of(number), f"k{number % 1009}".encode())
