"""One broker's many lives under load: start it, let it work, end it, and check what is left."""

import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.chaos import talk
from tests.chaos.broker_process import HOST, BrokerProcess
from tests.chaos.journal import Journal, Mark, value_of
from tests.chaos.ledger import Ledger
from tests.chaos.load import ConsumerWorker, ProducerWorker, Stream, Worker
from tests.chaos.repeater import Repeater
from tests.chaos.talk import Place
from tests.chaos.topic_maker import TopicMaker, check_topics

from barnabas.link.sync import Link

_SMALL: Final = {"internal.segment.bytes": "131072"}
_TOPICS: Final[dict[str, tuple[int, dict[str, str]]]] = {
    "default": (3, _SMALL),
    "synced": (3, {"flush.messages": "1", **_SMALL}),
    "recompressed": (2, {"compression.type": "zstd", **_SMALL}),
    "plain": (2, _SMALL),
    "repeats": (1, {"internal.segment.bytes": "65536"}),
    "starts": (1, {}),
}
"""Partitions and configs. Small segments, so that kills meet segments being rolled."""

_LZ4: Final = {"compression.type": "lz4"}
_STREAMS: Final = (
    Stream("default", 3, True, {}),
    Stream("default", 3, True, _LZ4),
    Stream("synced", 3, True, {}),
    Stream("recompressed", 2, True, _LZ4),
    Stream("plain", 2, False, {"max.in.flight": 1}),
)
_TORN: Final = "not completely written"


def _is_idempotent(writer: str) -> bool:
    return not writer.startswith("plain")


@dataclass
class Life:
    """What is worth telling of one life."""

    lasted_s: float
    start_ms: float
    """From exec to the first acknowledged record, at the start after this life's end."""
    records: int
    """In all logs, when checked after that start."""
    log_bytes: int
    torn: int
    """Partly written batches that recovery cut off."""


@dataclass
class Lives:
    """A broker, its clients, and all that is known of what they did."""

    home: Path
    seed: int
    run: int = 0
    """Which continuation this is: writers of each have names of their own."""
    lives: list[Life] = field(default_factory=list)
    acknowledged: int = 0
    seen: int = 0
    repeated: int = 0
    resumed: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.seed}/{self.run}")
        self.broker = BrokerProcess(self.home)
        self.journal = Journal()
        self.ledger = Ledger(_is_idempotent)
        self._workers: list[Worker] = []
        self._promised: dict[str, str | None] = {}
        self._gone: set[str] = set()
        self._starts = 0

    # The stage

    def open(self, saved: dict[str, Any]) -> None:
        """First start: make the topics, or read again what an earlier run had read."""
        self.start_timed()
        with self.broker.link() as link:
            there = talk.topics(link)
            for name, (partitions, configs) in _TOPICS.items():
                if name not in there:
                    talk.create_topic(link, name, partitions, configs)
            self.ledger.resume(link, saved)
        self._begin_load()

    def _begin_load(self) -> None:
        address, raw = self.broker.address, (HOST, self.broker.port)
        for number, stream in enumerate(_STREAMS):
            name = f"{stream.topic}.{self.run}.{number}"
            self._workers.append(ProducerWorker(name, self.journal, address, stream))
        along = self.places()
        for number in range(2):
            name = f"reader.{self.run}.{number}"
            self._workers.append(ConsumerWorker(name, self.journal, address, along))
        self.repeater = Repeater(f"repeats.{self.run}", self.journal, raw, ("repeats", 0))
        self.maker = TopicMaker(
            f"made.{self.run}", self.journal, raw, pause_s=0.1, keep_one_of=10
        )  # fmt: skip
        self._workers += [self.repeater, self.maker]
        for worker in self._workers:
            worker.start()
        for worker in self._workers:
            if isinstance(worker, ConsumerWorker):
                worker.wait_until_begun()

    @staticmethod
    def places() -> list[Place]:
        """The partitions that are written to all the time."""
        return [(name, n) for name, (count, _) in _TOPICS.items() for n in range(count)]

    # Lives

    def work_for(self, least_s: float, most_s: float) -> float:
        """Let it work for a random while; how long that was."""
        lasts_s = self.random.uniform(least_s, most_s)
        time.sleep(lasts_s)
        return lasts_s

    def kill(self, least_s: float, most_s: float) -> Life:
        """One life: work, SIGKILL, start again, check everything."""
        lasted_s = self.work_for(least_s, most_s)
        self.broker.kill()
        return self.revive(lasted_s)

    def revive(self, lasted_s: float) -> Life:
        """Start after any kind of end; check all that was known before the start."""
        notes = self.journal.take()
        promised, gone = self.maker.facts()
        self._promised |= promised
        for name in self._promised.keys() - promised.keys():
            if name.startswith(self.maker.name):
                del self._promised[name]
        self._gone |= gone
        start_ms = self.start_timed()
        with self.broker.link() as link:
            for place in self.places():
                self.ledger.read(link, place)
            self.ledger.compare(notes)
            self.ledger.problems += check_topics(link, self._promised, self._gone)
        self.acknowledged += sum(map(len, notes.acknowledged.values()))
        self.acknowledged += sum(map(len, notes.placeless.values()))
        self.seen += sum(map(len, notes.seen.values()))
        size = sum(page.size for page in self.ledger.pages.values())
        torn = self.broker.log_text().count(_TORN)
        life = Life(lasted_s, start_ms, self.ledger.records, size, torn)
        self.lives.append(life)
        return life

    def start_timed(self) -> float:
        """Start; milliseconds from exec to the first acknowledged record."""
        began = self.broker.spawn()
        mark = Mark(f"starts.{self.run}", self._starts)
        self._starts += 1
        batch = talk.batch_of(value_of(mark))
        offset = -1

        def first_record() -> None:
            nonlocal offset
            with self.broker.link() as link:
                offset = _produce_once_there(link, ("starts", 0), batch)

        self.broker.wait_for(first_record)
        took_ms = (time.perf_counter() - began) * 1000
        self.journal.acknowledge(("starts", 0), offset, mark)
        return took_ms

    # The end

    def end_load(self) -> None:
        """Let every client come to its end; nothing may be left unanswered."""
        for worker in self._workers:
            worker.stopping.set()
        for worker in self._workers:
            worker.end()
        self.repeated, self.resumed = self.repeats()
        self.repeater.repeated = self.repeater.resumed = 0
        self._workers.clear()

    def repeats(self) -> tuple[int, int]:
        """Batches sent again, acknowledged ones and others."""
        return self.repeated + self.repeater.repeated, self.resumed + self.repeater.resumed

    @property
    def problems(self) -> list[str]:
        """Everything that must not be."""
        return self.journal.problems + self.ledger.problems

    def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        for worker in self._workers:
            worker.stopping.set()
        self.broker.close()


def _produce_once_there(link: Link, place: Place, batch: bytes) -> int:
    try:
        return talk.produce(link, place, batch)
    except talk.RefusedError as refusal:
        if str(refusal) != "UNKNOWN_TOPIC_OR_PARTITION":
            raise
        talk.create_topic(link, place[0], 1)
        return talk.produce(link, place, batch)
