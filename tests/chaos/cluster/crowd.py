"""Everybody who uses the cluster while it is broken: writers, copiers, groups, readers."""

import random
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.chaos.cluster.aio import AioFollower, AioSending
from tests.chaos.cluster.hosting import Rig
from tests.chaos.copier import FENCED, INPUT, OUTPUT
from tests.chaos.copier_process import CopierProcess
from tests.chaos.copy_load import Feeder, Follower
from tests.chaos.group_confluent import ConfluentMember
from tests.chaos.group_journal import GroupJournal
from tests.chaos.group_moments import Moments
from tests.chaos.group_raw import Stage
from tests.chaos.history_readers import READ_UNCOMMITTED
from tests.chaos.history_workers import Desk, Sending, Transacting, WritingWorker
from tests.chaos.history_writers import TransactionalWriter
from tests.chaos.load import Worker
from tests.chaos.recorder import Recorder
from tests.chaos.talk import Place
from tests.chaos.transacting import FencedError
from tests.failover.libraries import QUIET

PLAIN: Final = "plain"
ONCE: Final = "once"
ORDERS: Final = "orders"
KEPT: Final = "kept"
_SMALL_SEGMENTS: Final = {"internal.segment.bytes": "1048576"}
TOPICS: Final[Mapping[str, tuple[int, Mapping[str, str]]]] = {
    PLAIN: (2, {"flush.messages": "1"}),
    ONCE: (3, _SMALL_SEGMENTS),
    ORDERS: (2, {"flush.messages": "1"}),
    INPUT: (2, _SMALL_SEGMENTS),
    OUTPUT: (2, _SMALL_SEGMENTS),
    KEPT: (1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1",
               "internal.segment.bytes": "131072"}),
}  # fmt: skip
"""Partitions and settings: twelve partitions, some synced before each acknowledgement."""
PLACES: Final[list[Place]] = [
    (name, n) for name, (count, _) in TOPICS.items() for n in range(count)
]
GROUPS: Final = {"classic": "cooperative", "consumer": "consumer"}
"""Groups of both protocols, and the kind of their members."""
_MEMBERS: Final = 2
_COPIERS: Final = 2
_THIEVES_MAX: Final = 3
_IN_VAIN_MAX: Final = 10
_KEYS: Final = [f"key-{number}" for number in range(60)]
_START_S_MAX: Final = 60.0
_END_S_MAX: Final = 60.0


@dataclass(frozen=True)
class Pace:
    """How fast everybody is; the clients share two cores with the brokers."""

    records: tuple[int, int] = (10, 60)
    """At once."""
    pause_s: float = 0.12
    transacted: tuple[int, int] = (3, 25)
    """In a transaction: small ones, so that there are many."""
    transacted_pause_s: float = 0.03
    fed_per_s: float = 150.0
    """Records for the copiers, which write as many again."""


class ClusterMember(ConfluentMember):
    """Stays longer than one whose broker is killed every second."""

    stays_s = (15.0, 60.0)


@dataclass(frozen=True)
class ClusterStage(Stage):
    """Members find a cluster by several addresses."""

    servers: str = ""

    @property
    def bootstrap_servers(self) -> str:
        """All brokers."""
        return self.servers


class Crowd:
    """Made anew for each part of a run."""

    def __init__(self, rig: Rig, home: Path, seed: int, pace: Pace) -> None:
        self.home = home
        self.histories = home / "histories"
        self.seed = seed
        self.journal = GroupJournal()
        self.recorder = Recorder(self.histories / "clients.jsonl")
        self.calm = threading.Event()
        self.fenced = 0
        """Copiers that ended because nobody could tell what became of their transaction."""
        self.hijacks = 0
        """Transactions that were committed with somebody else's id."""
        self._thieves = 0
        self._in_vain = [0] * _COPIERS
        """How often each copier began again since it last got something done."""
        self._commits = [0] * _COPIERS
        self._rig = rig
        self._pace = pace
        self._began_s = 0.0
        self.writers: list[WritingWorker] = []
        sources = [place for place in PLACES if place[0] == INPUT]
        self.feeder = Feeder(
            0, self.journal, self.recorder, rig.bootstrap_servers, sources, str(seed)
        )
        self.feeder.room = self._room
        self.copiers: list[CopierProcess] = []
        self.members: list[Worker] = []
        self.readers: list[Worker] = []

    def begin(self) -> None:
        """Make the topics; everybody begins, and has done something when this returns."""
        self._make_topics()
        address = self._rig.bootstrap_servers
        desk = Desk(self.journal, self.recorder, address, self.seed,
                    self._pace.records, self._pace.pause_s)  # fmt: skip
        small = replace(desk, records=self._pace.transacted, pause_s=self._pace.transacted_pause_s)
        places = {name: [place for place in PLACES if place[0] == name] for name in TOPICS}
        self.writers = [
            Sending("plain-0", desk, places[PLAIN], idempotent=False),
            Sending("once-0", desk, places[ONCE]),
            Sending("once-1", desk, places[ONCE]),
            AioSending("aiokafka-0", desk, places[ONCE]),
            Sending("kept-0", desk, places[KEPT], keys=_KEYS),
            Transacting("transacting-0", small, places[ORDERS]),
            Transacting("transacting-1", small, places[ORDERS]),
        ]
        self.copiers = [
            CopierProcess(address, slot, 0, self.home, self.seed) for slot in range(_COPIERS)
        ]
        self._add_members(places[ONCE])
        follower = partial(Follower, journal=self.journal, recorder=self.recorder, address=address)
        self.readers = [
            follower("committed", places=PLACES),
            follower("uncommitted", places=PLACES, isolation=READ_UNCOMMITTED),
            AioFollower("aiokafka-committed", desk, places[ORDERS]),
        ]
        self._began_s = time.monotonic()
        for copier in self.copiers:
            copier.start()
        for worker in (*self.writers, self.feeder, *self.members, *self.readers):
            worker.start()
        self._wait_for_all()

    def _make_topics(self) -> None:
        admin = AdminClient(QUIET | {"bootstrap.servers": self._rig.bootstrap_servers})
        made = admin.create_topics(
            [NewTopic(name, count, 3, config=dict(keys)) for name, (count, keys) in TOPICS.items()]
        )
        for each in made.values():
            try:
                each.result(30)
            except KafkaException as error:
                if not is_there_already(error):
                    raise
        self._rig.wait_until_in_sync()

    def _add_members(self, places: Sequence[Place]) -> None:
        servers = self._rig.bootstrap_servers
        stage = ClusterStage(
            ("", 0), self.journal, Moments(), self.calm, tuple(places), {}, servers
        )
        self.members = [
            ClusterMember(group, kind, number, stage, str(self.seed))
            for group, kind in GROUPS.items()
            for number in range(_MEMBERS)
        ]

    def _room(self) -> int:
        """For the feeder: what it missed while nobody answered it may write later."""
        due = self._pace.fed_per_s * (time.monotonic() - self._began_s)
        return min(int(due) - self.feeder.fed, 400)

    def _wait_for_all(self) -> None:
        deadline = time.monotonic() + _START_S_MAX
        while idle := [each.name for each in self.writers if each.last_told == (0.0, 0.0)]:
            if self.problems or time.monotonic() > deadline:
                raise RuntimeError(f"{', '.join(idle)} did not begin: {self.problems}")
            time.sleep(0.05)

    # While it goes on

    @property
    def problems(self) -> list[str]:
        """What clients must never have seen."""
        return self.journal.problems

    def tend(self) -> None:
        """Copiers that have ended by themselves begin again."""
        for slot, copier in enumerate(self.copiers):
            code = copier.ended()
            if code is None:
                continue
            if code != FENCED:
                self.journal.complain(f"a copier ended with {code}: {copier.log_text()[-2000:]}")
            elif self._is_in_vain(slot):
                times = f"{_IN_VAIN_MAX} times in a row without having committed anything"
                self.journal.complain(f"a copier began again {times}: {copier.log_text()[-2000:]}")
            self.fenced += 1
            copier.bury()
            copier.start()

    def _is_in_vain(self, slot: int) -> bool:
        """Whether a copier has been fenced so often that it is no accident any more."""
        commits = self.copiers[slot].progress.commits
        self._in_vain[slot] = 1 if commits > self._commits[slot] else self._in_vain[slot] + 1
        self._commits[slot] = commits
        return self._in_vain[slot] == _IN_VAIN_MAX

    def stop_copiers(self) -> None:
        """They have nothing to do any more."""
        for copier in self.copiers:
            try:
                code = copier.ended()
                if code is None:
                    code = copier.stop()
                if code not in (0, FENCED):
                    words = copier.log_text()[-2000:]
                    self.journal.complain(f"a copier ended with {code} at last: {words}")
                self.fenced += code == FENCED
            except subprocess.TimeoutExpired:
                self.journal.complain(f"a copier does not stop: {copier.log_text()[-2000:]}")

    def hijack(self, chance: random.Random) -> str | None:
        """Somebody else takes a transactional id, commits something with it, and is gone; whose.
        None: its owner was quicker to take it back, every time."""
        victim = chance.choice([each for each in self.writers if isinstance(each, Transacting)])
        for _ in range(_THIEVES_MAX):
            self._thieves += 1
            thief = Hijacking(f"hijacker-{self._thieves}", victim.desk, victim.places, victim.name)
            thief.start()
            thief.join(_START_S_MAX)
            if thief.is_alive():
                self.journal.complain(f"{thief.name} can not take over {victim.name}")
                return None
            if thief.has_stolen:
                self.hijacks += 1
                return victim.name
        return None

    def close(self) -> None:
        """Leave nothing behind."""
        for copier in self.copiers:
            copier.close()
        workers = (*self.writers, self.feeder, *self.members, *self.readers)
        for worker in workers:
            worker.stopping.set()
        # The next part's cluster has the same addresses: nobody of this one may meet it.
        deadline = time.monotonic() + _END_S_MAX
        for worker in workers:
            if worker.is_alive():
                worker.join(max(0.0, deadline - time.monotonic()))


def is_there_already(error: KafkaException) -> bool:
    """In a fresh cluster only our own first request can have made it: librdkafka repeats itself."""
    code: int = error.args[0].code()
    return code == KafkaError.TOPIC_ALREADY_EXISTS


class Hijacking(Transacting):
    """Has somebody else's transactional id, for two transactions."""

    def __init__(self, name: str, desk: Desk, places: Sequence[Place], victim: str) -> None:
        super().__init__(name, desk, places, transactional_id=victim)
        self.has_stolen = False
        """Whether it has committed something before it was fenced in its turn."""

    def work(self) -> None:
        try:
            writer = TransactionalWriter(
                self.desk.recorder, self.name, self.places, self.desk.address, self.transactional_id
            )
        except FencedError:
            return  # Its victim was quicker.
        try:
            self.has_stolen = writer.transact(3) == "ok"
            writer.transact(3, commits=False)
        except FencedError:
            return
        finally:
            writer.close()
