"""One broker's many lives under groups: end it in the middle of something, start it, check."""

import os
import random
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from tests.chaos import group_asks, talk
from tests.chaos.broker_process import HOST, BrokerProcess
from tests.chaos.group_asks import Committed, Description
from tests.chaos.group_confluent import ConfluentMember
from tests.chaos.group_journal import GroupJournal
from tests.chaos.group_moments import Moments, Phase
from tests.chaos.group_raw import RawMember, Stage
from tests.chaos.group_raw_classic import RawClassicMember
from tests.chaos.group_raw_consumer import RawConsumerMember
from tests.chaos.group_watcher import Watcher
from tests.chaos.load import ProducerWorker, Stream, Worker
from tests.chaos.talk import Place

from barnabas.link.sync import Link
from barnabas.model.errors import ErrorCode
from barnabas.model.topics import CONSUMER_OFFSETS

TOPICS: Final = {"orders": 6, "clicks": 3}
SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "100",
}
"""Nothing to wait for, except for members that are gone."""

_STABLE_S_MAX: Final = 60.0
_MOMENT_S_MAX: Final = 15.0
_LOOK_S: Final = 0.05
_ALARMS: Final = (" ERROR ", " CRITICAL ", "Traceback")
_UNSYNCED: Final = str((1 << 63) - 1)


@dataclass(frozen=True)
class Cast:
    """How many members of each kind; every kind that has some is a group of its own."""

    raw_classic: int = 4
    raw_consumer: int = 4
    eager: int = 2
    cooperative: int = 2
    consumer: int = 2

    @property
    def classic_groups(self) -> dict[str, int]:
        """Names and sizes."""
        sizes = {
            "raw-classic": self.raw_classic, "eager": self.eager, "cooperative": self.cooperative,
        }  # fmt: skip
        return {name: size for name, size in sizes.items() if size}

    @property
    def consumer_groups(self) -> dict[str, int]:
        """Names and sizes."""
        sizes = {"raw-consumer": self.raw_consumer, "consumer": self.consumer}
        return {name: size for name, size in sizes.items() if size}

    @property
    def groups(self) -> dict[str, int]:
        """All of them."""
        return self.classic_groups | self.consumer_groups


@dataclass
class Life:
    """What is worth telling of one life."""

    phase: str
    """What groups were in the middle of at its end."""
    is_kill: bool
    lasted_s: float
    start_ms: float
    """From exec to the first answer, at the start after this life's end."""
    stable_s: float
    """From the start to the moment in which every group had settled."""
    unanswered: int
    """Offsets that were written, but not acknowledged when the broker died."""


@dataclass
class GroupLives:
    """A broker, groups on it, and all that is known of what they were told."""

    home: Path
    seed: int
    run: int = 0
    cast: Cast = field(default_factory=Cast)
    lives: list[Life] = field(default_factory=list)
    kind: type[BrokerProcess] = BrokerProcess
    patience_s: float = _STABLE_S_MAX
    """How long groups may take to come to rest."""

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.seed}/{self.run}")
        self.broker = self.kind(self.home, settings=SETTINGS)
        self.journal = GroupJournal()
        self.moments = Moments()
        self.calm = threading.Event()
        self._producers: list[Worker] = []
        self._members: list[RawMember | ConfluentMember] = []
        self._watcher: Worker | None = None

    # --- the stage -----------------------------------------------------------------------------

    def open(self, saved: dict[str, Any] | None = None) -> None:
        """First start: make the topics, or look whether what an earlier run left is there."""
        self._start()
        with self.broker.link() as link:
            there = talk.topics(link)
            for name, partitions in TOPICS.items():
                if name not in there:
                    talk.create_topic(link, name, partitions)
            self.names = {UUID(talk.topics(link)[name]["topic_id"]): name for name in TOPICS}
            group_asks.ask(link, group_asks.FIND_COORDINATOR, {"coordinator_keys": ["any"]})
        if saved is not None:
            self.journal.resume(saved)
        for group in self.cast.groups:
            self.journal.begin_at(group, self._committed(group))
            self._check_offsets(group)
        self._begin()

    def _begin(self) -> None:
        places = tuple((name, n) for name, count in TOPICS.items() for n in range(count))
        raw = HOST, self.broker.port
        stage = Stage(raw, self.journal, self.moments, self.calm, places, self.names)
        self.stage = stage
        seed, cast = f"{self.seed}/{self.run}", self.cast
        for name, count in TOPICS.items():
            stream = Stream(name, count, True, {}, burst=3)
            writer = f"{name}.{self.run}"
            self._producers.append(
                ProducerWorker(writer, self.journal, self.broker.address, stream)
            )
        for number in range(cast.raw_classic):
            self._members.append(RawClassicMember("raw-classic", number, stage, seed))
        for number in range(cast.raw_consumer):
            self._members.append(RawConsumerMember("raw-consumer", number, stage, seed))
        for kind in ("eager", "cooperative", "consumer"):
            for number in range(getattr(cast, kind)):
                self._members.append(ConfluentMember(kind, kind, number, stage, seed))
        self._watcher = Watcher(stage, cast.classic_groups, cast.consumer_groups)
        for worker in (*self._producers, *self._members, self._watcher):
            worker.start()
        self._settle()

    # --- lives ---------------------------------------------------------------------------------

    def end_life(self, phase: Phase, least_s: float, most_s: float, *, is_kill: bool) -> Life:
        """One life: coming and going, an end in the middle of `phase`, a start, checks."""
        self._synced(self.random.random() < 0.5)
        lasted_s = self.random.uniform(least_s, most_s)
        time.sleep(lasted_s)
        self._strike(phase, is_kill=is_kill)
        code = self.broker.reap()
        if not is_kill and code != 0:
            self.journal.complain(f"a clean stop ended with exit code {code}")
        self._hear_alarms()
        start_ms, stable_s, unanswered = self.revive()
        life = Life(phase.value, is_kill, lasted_s, start_ms, stable_s, unanswered)
        self.lives.append(life)
        return life

    def _strike(self, phase: Phase, *, is_kill: bool) -> None:
        number = signal.SIGKILL if is_kill else signal.SIGTERM
        pid = self.broker.pid

        def strike() -> None:
            os.kill(pid, number)

        if phase is Phase.IDLE:
            self._come_to_rest()
            strike()
            return
        if not self.moments.strike_at(phase, strike, self.random.random(), _MOMENT_S_MAX):
            self.journal.complain(f"nobody was ever there: {phase.value}")
            strike()

    def revive(self) -> tuple[float, float, int]:
        """Start after any kind of end and check all that was known before; how long that took."""
        start_ms = self._start()
        began = time.monotonic()
        unanswered = sum(self._check_offsets(group) for group in self.cast.groups)
        self._settle()
        return start_ms, time.monotonic() - began, unanswered

    def _start(self) -> float:
        began = self.broker.spawn()
        self.broker.wait_for(self.broker.connect_once)
        return (time.perf_counter() - began) * 1000

    def _synced(self, is_synced: bool) -> None:
        """In some lives answers wait for a sync, which leaves more time before them."""
        with self.broker.link() as link:
            value = "1" if is_synced else _UNSYNCED
            talk.set_config(link, CONSUMER_OFFSETS, "flush.messages", value)

    def _hear_alarms(self) -> None:
        """What a life has said that it should not have had to say."""
        for line in self.broker.log_text().splitlines():
            if any(word in line for word in _ALARMS):
                self.journal.complain(f"{self.broker.log_path.name}: {line}")

    # --- checks --------------------------------------------------------------------------------

    def _check_offsets(self, group: str) -> int:
        """What was committed is there, and was read; how much of it nobody was told of."""
        floors = self.journal.floors(group)
        found = self._committed(group)
        self.journal.fetch(group, floors, found)
        self.journal.cover(group, found)
        return self.journal.unanswered(group, found)

    def _committed(self, group: str) -> dict[Place, Committed]:
        deadline = time.monotonic() + _STABLE_S_MAX
        while True:
            with self.broker.link() as link:
                found = group_asks.committed(link, group)
            if not isinstance(found, ErrorCode):
                return found
            if found not in group_asks.AWAY or time.monotonic() > deadline:
                self.journal.complain(f"the offsets of {group} are not told: {found.name}")
                return {}
            time.sleep(_LOOK_S)

    def _settle(self) -> None:
        """Nobody comes or goes until every group is stable; then they do again."""
        self._come_to_rest()
        self.calm.clear()

    def _come_to_rest(self) -> None:
        self.calm.set()
        deadline = time.monotonic() + self.patience_s
        with self.broker.link() as link:
            for group, size in self.cast.groups.items():
                while reason := self._unsettled(link, group, size):
                    if time.monotonic() > deadline:
                        self.journal.complain(f"{group} does not come to rest: {reason}")
                        break
                    time.sleep(_LOOK_S)

    def _unsettled(self, link: Link, group: str, size: int) -> str:
        """Why a group is not stable, with every partition owned by one of its live members."""
        told = self._described(link, group)
        if isinstance(told, ErrorCode):
            return told.name
        shared = [place for share in told.shares.values() for place in share]
        raw = [
            each for each in self._members if each.group == group and isinstance(each, RawMember)
        ]
        if told.state != "Stable" or len(told.shares) != size:
            return f"{told.state} with {len(told.shares)} members"
        if sorted(shared) != sorted(self.stage.places):
            return f"{sorted(shared)} is shared out"
        if raw and {each.member_id: frozenset(each.owned) for each in raw} != told.shares:
            return f"members have other shares than {told.shares}"
        return ""

    def _described(self, link: Link, group: str) -> Description | ErrorCode:
        if group in self.cast.consumer_groups:
            return group_asks.consumer_described(link, group, self.names)
        return group_asks.described(link, group)

    # --- the end -------------------------------------------------------------------------------

    def end(self) -> None:
        """Every record is produced and read; then everybody leaves."""
        _end_all(self._producers)
        with self.broker.link() as link:
            ends = {place: talk.offset_of(link, place, -1) for place in self.stage.places}
            self.journal.count("records produced", sum(ends.values()))
            for group in self.cast.groups:
                self._drain(link, group, ends)
        _end_all(self._members)
        for group in self.cast.groups:
            self._check_offsets(group)

    def _drain(self, link: Link, group: str, ends: dict[Place, int]) -> None:
        """Wait until the group has committed the end of every partition."""
        deadline = time.monotonic() + _STABLE_S_MAX
        while time.monotonic() < deadline:
            found = group_asks.committed(link, group)
            if not isinstance(found, ErrorCode) and all(
                end == 0 or (place in found and found[place].offset == end)
                for place, end in ends.items()
            ):
                return
            time.sleep(_LOOK_S)
        self.journal.complain(f"{group} does not read everything: {found} of {ends}")

    def check_once_more(self) -> None:
        """Everything is answered now; a clean stop and start must change nothing of it."""
        code = self.broker.terminate()
        if code != 0:
            self.journal.complain(f"a clean stop ended with exit code {code}")
        self._hear_alarms()
        self._start()
        for group in self.cast.groups:
            self._check_offsets(group)

    @property
    def problems(self) -> list[str]:
        """Everything that must not be."""
        return self.journal.problems

    def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        workers = [*self._producers, *self._members]
        if self._watcher is not None:
            workers.append(self._watcher)
        for worker in workers:
            worker.stopping.set()
        self.broker.close()


def _end_all(workers: list[Any]) -> None:
    for worker in workers:
        worker.stopping.set()
    for worker in workers:
        worker.end()
    workers.clear()
