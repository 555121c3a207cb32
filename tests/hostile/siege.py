"""Attacks on a live broker over several sockets, beside traffic that must not notice."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from tests.chaos import talk
from tests.chaos.broker_process import BrokerProcess, Measure
from tests.chaos.journal import Journal
from tests.chaos.ledger import Ledger
from tests.chaos.load import ConsumerWorker, ProducerWorker, Stream, Worker
from tests.compat.raw import from_plain
from tests.hostile.forms import Form, Stage, other_forms, served_forms
from tests.hostile.fuzz import Attack, attack
from tests.hostile.stranger import GOODBYE, GOODBYE_ID, HungUpError, Stranger, framed

from barnabas.wire.headers import request_header
from barnabas.wire.messages import encode_request, newest_type

SOCKETS: Final = 8
_ANSWER_S_MAX: Final = 2.0
"""A request that waits longer is left alone; it may ask for a wait."""
_SETTLE_S_MAX: Final = 60.0
_RSS_KIB_MAX: Final = 64 * 1024
_TRAFFIC: Final = "traffic-7f3a9c51d2e84b60"
_KNOWN: Final = "known-19b7e4c0a6d25f38"
_TARGETS: Final[dict[str, dict[str, str]]] = {
    "target": {},
    "compacted": {"cleanup.policy": "compact"},
    "converting": {"compression.type": "zstd"},
}
_PLACES: Final = [(_TRAFFIC, n) for n in range(3)]
_SETTINGS: Final = {
    "log.segment.delete.delay.ms": "0",
    "log.flush.offset.checkpoint.interval.ms": "1000",
}
"""Files of deleted topics go soon, so that descriptors can be counted."""
_FAULTS: Final = ("Traceback", "ERROR", "CRITICAL")


class KnownAnswers(Worker):
    """Asks the same few things again and again; the answers must not change by a bit."""

    def __init__(self, name: str, journal: Journal, port: int, questions: list[bytes]) -> None:
        super().__init__(name, journal)
        self._port = port
        self._questions = questions
        self.asked = 0

    def work(self) -> None:
        with Stranger(self._port) as link:
            known = [self._ask(link, question) for question in self._questions]
            while not self.stopping.is_set():
                for question, answer in zip(self._questions, known, strict=True):
                    if self._ask(link, question) != answer:
                        self.journal.complain(f"another answer to {question.hex()}")
                    self.asked += 1
                time.sleep(0.01)

    @staticmethod
    def _ask(link: Stranger, question: bytes) -> bytes:
        link.send(framed(question))
        return link.frame()


def known_questions() -> list[bytes]:
    """Requests whose answers stay the same."""
    plain: list[tuple[int, int, dict[str, Any]]] = [
        (3, 12, {"topics": [{"name": _KNOWN, "topic_id": None}]}),
        (18, 3, {"client_software_name": "known", "client_software_version": "1"}),
        (60, 1, {"endpoint_type": 1}),
        (32, 4, {"resources": [{"resource_type": 2, "resource_name": _KNOWN,
                                "configuration_keys": None}]}),
        (2, 7, {"replica_id": -1, "topics": [
            {"name": _KNOWN, "partitions": [{"partition_index": 0, "timestamp": -1}]}]}),
    ]  # fmt: skip
    questions = []
    for key, version, body in plain:
        request = from_plain(newest_type(key, "request"), body)
        questions.append(request_header(key, version, 77) + encode_request(key, version, request))
    return [*questions, talk.fetch_frame((_KNOWN, 0), 0)]


@dataclass
class Siege:
    """One broker, its real clients, and the strangers."""

    home: Path
    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.broker = BrokerProcess(self.home, settings=_SETTINGS)
        self.journal = Journal()
        self._strangers: list[Stranger | None] = [None] * SOCKETS
        self._log_read = 0
        self.sent = self.traffic = self.seen = self.asked = 0
        self.before = self.after = Measure(0, 0, 0, 0)

    # The stage

    def open(self) -> None:
        """Start the broker, let it load all it ever needs, then let the real clients in."""
        self.broker.start()
        with self.broker.link() as link:
            talk.create_topic(link, _TRAFFIC, len(_PLACES))
            talk.create_topic(link, _KNOWN)
            for topic, config in _TARGETS.items():
                talk.create_topic(link, topic, 1, config)
            talk.produce(link, (_KNOWN, 0), talk.batch_of(b"known", b"and unchanging"))
        self._make_forms()
        with Stranger(self.broker.port) as stranger:
            for form in self.served:
                stranger.outcome(framed(form.frame))
        self._clean_up()
        self.before = self.broker.measure()
        self._workers = self._make_workers()
        for worker in self._workers:
            worker.start()
        self._reader.wait_until_begun()

    def _make_forms(self) -> None:
        """Requests about the targets, by name and by the ids these have now."""
        with self.broker.link() as link:
            there = talk.topics(link)
        self.served: list[Form] = []
        for topic in _TARGETS:
            stage = Stage(topic=topic, topic_id=UUID(there[topic]["topic_id"]))
            self.served += served_forms(stage)
        self.others = other_forms(Stage())

    def _make_workers(self) -> list[Worker]:
        address = self.broker.address
        stream = Stream(_TRAFFIC, len(_PLACES), True, {}, burst=5)
        self._known = KnownAnswers("known", self.journal, self.broker.port, known_questions())
        self._reader = ConsumerWorker("reader", self.journal, address, _PLACES)
        producer = ProducerWorker("honest", self.journal, address, stream)
        return [producer, self._reader, self._known]

    # Attacks

    def attack(self, numbers: Iterable[int]) -> None:
        """The attacks of these numbers."""
        self.throw([attack(self.seed, number, self.served, self.others) for number in numbers])

    def throw(self, attacks: Sequence[Attack]) -> None:
        """One attack on each socket; then what became of them, and of the broker."""
        for slot, each in enumerate(attacks):
            self._send(slot, each)
        for slot, each in enumerate(attacks):
            self.outcomes[self._outcome(slot, each)] += 1
        self.sent += len(attacks)
        self._look_at_broker(attacks)

    def _send(self, slot: int, each: Attack) -> None:
        stranger = self._strangers[slot]
        if stranger is None:
            stranger = self._strangers[slot] = Stranger(self.broker.port, _ANSWER_S_MAX)
        if each.ends:
            stranger.send(each.data)
            stranger.finish()
        else:
            stranger.send(each.data + GOODBYE)

    def _outcome(self, slot: int, each: Attack) -> str:
        stranger = self._strangers[slot]
        if stranger is None:
            raise RuntimeError("nothing was sent there")
        answers = 0
        try:
            while (answer := stranger.frame())[:4] != GOODBYE_ID.to_bytes(4, "big"):
                answers += 1
                if answer[:4] != each.correlation_id or answers > 1:
                    self.problems.append(f"a wrong answer, {answer[:64].hex()}, to {each}")
        except (HungUpError, TimeoutError) as end:
            stranger.close()
            self._strangers[slot] = None
            return "left waiting" if isinstance(end, TimeoutError) else "connection closed"
        return "answered" if answers else "not to be answered"

    def _look_at_broker(self, attacks: Iterable[Attack]) -> None:
        fault = self._fault()
        if fault is not None:
            suspects = "\n  ".join(map(str, attacks))
            self.problems.append(f"{fault}\none of seed {self.seed}:\n  {suspects}")

    def _fault(self) -> str | None:
        child = self.broker.child
        if child is None or child.poll() is not None:
            return f"the broker has ended: {self.broker.log_text()[-4000:]}"
        with self.broker.log_path.open(errors="replace") as log:
            log.seek(self._log_read)
            fresh = log.read()
            self._log_read = log.tell()
        return fresh if any(word in fresh for word in _FAULTS) else None

    def tidy(self) -> None:
        """Delete the topics that attacks have made; make those anew that they have deleted."""
        self._clean_up()
        self.problems += self.journal.problems

    def _clean_up(self) -> None:
        with self.broker.link() as link:
            there = talk.topics(link)
            for name in there.keys() - {_TRAFFIC, _KNOWN, *_TARGETS}:
                talk.delete_topic(link, name)
            talk.create_topic(link, "victim")
            gone = _TARGETS.keys() - there.keys()
            for name in gone:
                talk.create_topic(link, name, 1, _TARGETS[name])
        if gone:
            self._make_forms()

    # The end

    def close(self) -> None:
        """Hang up everywhere and see what is left in the broker; then stop it."""
        for stranger in self._strangers:
            if stranger is not None:
                stranger.close()
        for worker in self._workers:
            worker.stopping.set()
        for worker in self._workers:
            worker.end()
        self.asked = self._known.asked
        self._clean_up()
        self._check_traffic()
        self._check_leaks()
        code = self.broker.terminate()
        if code != 0:
            self.problems.append(f"a clean stop ended with exit code {code}")
        self.problems += self.journal.problems

    def _check_traffic(self) -> None:
        """Every record the honest producer was told of is there, once, in order."""
        ledger = Ledger(lambda _: True)
        with self.broker.link() as link:
            for place in _PLACES:
                ledger.read(link, place)
        notes = self.journal.take()
        ledger.compare(notes)
        self.problems += ledger.problems
        self.traffic = sum(map(len, notes.acknowledged.values()))
        self.seen = sum(map(len, notes.seen.values()))
        if not 0 < self.seen <= self.traffic <= ledger.records:
            counts = f"{self.traffic} acknowledged, {self.seen} seen, {ledger.records} there"
            self.problems.append(counts)

    def _check_leaks(self) -> None:
        """Descriptors and tasks go back to what they were; memory nearly."""
        deadline = time.monotonic() + _SETTLE_S_MAX
        while True:
            self.after = after = self.broker.measure()
            if after.descriptors <= self.before.descriptors and after.tasks <= self.before.tasks:
                break
            if time.monotonic() > deadline:
                self.problems.append(f"a leak: {self.before} became {after}")
                return
            time.sleep(0.1)
        if after.rss_kib - self.before.rss_kib > _RSS_KIB_MAX:
            self.problems.append(f"a leak of memory: {self.before} became {after}")
