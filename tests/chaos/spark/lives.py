"""A Spark job, its cluster and its broker, broken again and again: the output must stay exact."""

import contextlib
import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.chaos.broker_process import BrokerProcess
from tests.chaos.spark.driver import Driver
from tests.chaos.spark.expected import Judgement, judge
from tests.chaos.spark.feeder import Feeder
from tests.chaos.spark.job import GROUP, INPUT, OUTPUT
from tests.chaos.spark.moments import Moment, Watch

from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place
from barnabas.spark.standalone import StandaloneCluster

SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "num.partitions": "4",
}
PARTITIONS: Final = 4
_MOMENT_S_MAX: Final = 180.0
_PROGRESS_S_MAX: Final = 240.0
_STRIKE_TRIES: Final = 20
_FED_SHARE: Final = 1.2
"""Offsets for each record that is to be committed: one chunk in eight is aborted."""
_AIMS: Final = (Moment.COMMITTED, Moment.WRITING, Moment.ANY)


@dataclass(frozen=True)
class Plan:
    """How often each is hit."""

    driver: int = 20
    executor: int = 20
    shuffle: int = 5
    broker: int = 10
    records: int = 1_000_000
    offsets_per_trigger: int = 25_000
    forgetful: bool = False

    @property
    def order(self) -> list[str]:
        """Whom each strike hits."""
        return (
            ["driver"] * self.driver
            + ["executor"] * self.executor
            + ["shuffle"] * self.shuffle
            + ["broker"] * self.broker
        )


@dataclass
class Strike:
    """One of them."""

    target: str
    moment: str
    after_s: float
    committed: int
    """Rows and markers that were stable in the output when it came."""


@dataclass
class SparkLives:
    """Everything that runs; `strike` breaks one part, and the rest has to cope."""

    home: Path
    plan: Plan
    seed: int
    strikes: list[Strike] = field(default_factory=list)
    next_number: int = 0
    seconds: float = 0.0
    judgement: Judgement | None = None

    def open(self) -> None:
        """Broker, topics, Spark's cluster, driver, feeder."""
        self.broker = BrokerProcess(self.home / "broker", settings=SETTINGS).start()
        servers = self.broker.address
        self._random = random.Random(self.seed + len(self.strikes))
        self.kafka: Cluster = cluster_of(
            Connection.from_options({"kafka.bootstrap.servers": servers})
        )
        self._make_topics(servers)
        self.watch = Watch(self.kafka, [Place(OUTPUT, each) for each in range(PARTITIONS)])
        self.spark = StandaloneCluster(2, memory="1g", port=0, directory=self.home / "spark")
        self.spark.start()
        self.driver = Driver(self.home, self._orders(servers))
        self.driver.start()
        self.feeder = Feeder(servers, self.next_number, PARTITIONS, self.behind)
        self.feeder.start()

    def _orders(self, servers: str) -> list[str]:
        orders = ["--servers", servers, "--master", self.spark.master_url]
        orders += ["--checkpoint", str(self.home / "checkpoint")]
        orders += ["--offsets-per-trigger", str(self.plan.offsets_per_trigger)]
        return orders + (["--forgetful"] if self.plan.forgetful else [])

    def _make_topics(self, servers: str) -> None:
        known = set(self.kafka.topic_names())
        wanted = [NewTopic(each, PARTITIONS) for each in (INPUT, OUTPUT) if each not in known]
        if wanted:
            admin = AdminClient({"bootstrap.servers": servers})
            for made in admin.create_topics(wanted).values():
                made.result(30)

    def behind(self) -> int:
        """Offsets of the input that the query's group has not committed yet."""
        places = [Place(INPUT, each) for each in range(PARTITIONS)]
        try:
            ends = self.kafka_of_feeder().latest(places, committed=True)
            done = self.kafka_of_feeder().committed_offsets(GROUP, places, stable=False)
        except SparkJobError:
            return 0
        return sum(ends[each] - max(0, done.get(each, (0, ""))[0]) for each in places)

    def kafka_of_feeder(self) -> Cluster:
        """One of its own: a connection is for one thread."""
        if not hasattr(self, "_feeders_kafka"):
            servers = self.broker.address
            options = {"kafka.bootstrap.servers": servers, "kafka.client.id": "feeder"}
            self._feeders_kafka: Cluster = cluster_of(Connection.from_options(options))
        return self._feeders_kafka

    def strike(self, target: str) -> Strike:
        """Wait for the job to have got on, for the right moment, and hit."""
        began = time.monotonic()
        before = self.strikes[-1].committed if self.strikes else 0
        committed = self.watch.progressed(before, _PROGRESS_S_MAX, self._check_driver)
        aims = (Moment.COMMITTED,) if self.plan.forgetful else _AIMS
        moment = aims[len(self.strikes) % len(aims)]
        if target == "shuffle":
            self._lose_shuffle_files()
            moment = Moment.WRITING
        else:
            self._hit(target, moment)
        strike = Strike(target, moment.value, time.monotonic() - began, committed)
        self.strikes.append(strike)
        return strike

    def _fed(self) -> int:
        """Offsets of the input, aborted records and markers among them."""
        places = [Place(INPUT, each) for each in range(PARTITIONS)]
        return sum(self.kafka.latest(places, committed=True).values())

    def _wait_until_settled(self) -> None:
        """A commit is answered before its markers are written: until then less can be read."""
        places = [Place(INPUT, each) for each in range(PARTITIONS)]
        while self._fed() < sum(self.kafka.latest(places, committed=False).values()):
            time.sleep(0.1)

    def _check_driver(self) -> None:
        """It is killed at times, and never ends by itself."""
        if self.driver.ended is not None:
            raise AssertionError(f"the driver ended with {self.driver.ended}: see driver.log")

    def _hit(self, target: str, moment: Moment) -> None:
        for _ in range(_STRIKE_TRIES):
            if moment is Moment.ANY:
                time.sleep(self._random.uniform(0, 1.5))
            self.watch.wait_for(moment, _MOMENT_S_MAX)
            if target == "driver":
                self.driver.kill()
                self.driver.start()
                return
            if target == "broker":
                self.broker.kill()
                time.sleep(self._random.uniform(0, 1.0))
                self.broker.start()
                return
            pids = self._executors()
            if pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._random.choice(pids), signal.SIGKILL)
                    return
        raise AssertionError(f"no {target} could be found")

    def _executors(self) -> list[int]:
        """The executors of this cluster: their command lines name the workers' directory."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
                if b"CoarseGrainedExecutorBackend" in command and self.is_ours(entry):
                    found.append(int(entry.name))
        return found

    def is_ours(self, process: Path) -> bool:
        """Executors work below their worker's directory."""
        return os.readlink(process / "cwd").startswith(str(self.home))

    def _lose_shuffle_files(self) -> None:
        """Delete shuffle files as they come, until the query dies of it."""
        deaths = len(self.driver.deaths())
        deadline = time.monotonic() + _PROGRESS_S_MAX
        while len(self.driver.deaths()) == deaths:
            if time.monotonic() > deadline:
                raise AssertionError("the query did not notice that its shuffle files were gone")
            for file in self.home.glob("spark/**/shuffle_*"):
                with contextlib.suppress(FileNotFoundError):
                    file.unlink()
            time.sleep(0.01)

    def finish(self) -> None:
        """All kills are done: feed what is missing, and let the job read to the end."""
        while self._fed() < self.plan.records * _FED_SHARE:
            time.sleep(0.5)
        self.feeder.stop()
        self._wait_until_settled()
        deadline = time.monotonic() + _PROGRESS_S_MAX
        left = self.behind()
        while left > 0:
            self._check_driver()
            now = self.behind()
            if now < left:
                left, deadline = now, time.monotonic() + _PROGRESS_S_MAX
            if time.monotonic() > deadline:
                raise AssertionError(f"{left} offsets of the input are not read")
            time.sleep(0.5)
        self.judgement = judge(self.broker.address, INPUT, OUTPUT, PARTITIONS)

    def close(self) -> None:
        """Leave no process behind."""
        for each in ("driver", "feeder", "spark", "broker"):
            part = getattr(self, each, None)
            if isinstance(part, Driver):
                part.kill()
            elif isinstance(part, Feeder):
                self.next_number = part.next_number
                part.stop()
            elif isinstance(part, StandaloneCluster):
                part.stop()
            elif isinstance(part, BrokerProcess):
                part.close()

    @property
    def problems(self) -> list[str]:
        """What is wrong with the output."""
        return [] if self.judgement is None else self.judgement.problems
