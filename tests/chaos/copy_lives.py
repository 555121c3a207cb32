"""Copiers and their broker, killed again and again: in the end there must be an exact copy."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Final

from tests.chaos import talk
from tests.chaos.broker_process import BrokerProcess
from tests.chaos.copier import FENCED, GROUP, INPUT, OUTPUT, original_of, transformed
from tests.chaos.copier_phase import Phase
from tests.chaos.copier_process import CopierProcess, wait_for_phase
from tests.chaos.copy_load import Feeder, Follower
from tests.chaos.copy_watch import Watch
from tests.chaos.history_readers import READ_UNCOMMITTED, GroupReader, RawReader
from tests.chaos.journal import Journal
from tests.chaos.recorder import Recorder
from tests.chaos.talk import Place

from barnabas.verify.checker import check
from barnabas.verify.findings import Verdict
from barnabas.verify.parsing import read_histories
from barnabas.wire.records.record import Record

SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}
_PROGRESS_S_MAX: Final = 120.0
_MOMENT_S_MAX: Final = 5.0
_LOOK_S: Final = 0.05
_DELAY_S_MAX: Final = 0.001
"""Between seeing what a copier does and killing it: what it does takes milliseconds."""
_AHEAD: Final = 2
"""How many strikes' worth of input is written ahead of the copiers."""
_ALARMS: Final = (" ERROR ", " CRITICAL ", "Traceback")
_AIMS: Final = (
    Phase.COMMITTING, Phase.SENDING, Phase.OFFSETS, Phase.ABORTING, Phase.COMMITTING, Phase.POLLING,
)  # fmt: skip
_NAMED_MAX: Final = 5


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    copier_kills: int = 100
    broker_kills: int = 30
    records: int = 500_000
    copiers: int = 3
    partitions: int = 6

    @property
    def strikes(self) -> int:
        """Kills of both kinds."""
        return self.copier_kills + self.broker_kills


@dataclass
class Strike:
    """One kill that hit something at work."""

    is_broker: bool
    phase: str
    """What the copier, or the busiest of the broker's copiers, was doing."""
    after_s: float
    """Since the strike before."""
    copied: int
    """Records copied between these two, as the copiers knew that lived."""


@dataclass
class CopyLives:
    """A broker, copiers on it, and all that is known of what they did."""

    home: Path
    seed: int
    plan: Plan
    run: int = 0
    strikes: list[Strike] = field(default_factory=list)
    fed: int = 0
    """In earlier runs."""
    misses: int = 0
    """Kills that hit nobody at work: they do not count."""
    fenced: int = 0
    """Copiers that ended by themselves because they were fenced."""
    commits: int = 0
    aborts: int = 0
    """Both in earlier runs."""
    verdict: Verdict | None = None
    seconds: float = 0.0
    """In all runs."""
    records: int = 0
    """In the input, and in the output."""

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.seed}/{self.run}")
        self.journal = Journal()
        self.broker = BrokerProcess(self.home, settings=SETTINGS)
        self.histories = self.home / "histories"
        self._recorder = Recorder(self.histories / f"run-{self.run}.jsonl")
        self._copiers = [
            CopierProcess(self.broker.address, slot, self.run, self.home, self.seed)
            for slot in range(self.plan.copiers)
        ]
        self._aims = cycle(_AIMS)
        parts = range(self.plan.partitions)
        self._input: list[Place] = [(INPUT, number) for number in parts]
        self._output: list[Place] = [(OUTPUT, number) for number in parts]
        name = f"group.{self.run}"
        self._group = GroupReader(self._recorder, name, GROUP, self._input)
        self._input_reader = RawReader(self._recorder, f"ends.{self.run}", self._input)
        self._last: dict[Place, int] = {}
        self._watch = Watch(self.broker, GROUP, self._input)
        self._copied_before = 0
        self._struck_s = time.monotonic()

    # --- the stage -----------------------------------------------------------------------------

    def open(self) -> None:
        """First start: make the topics; then everybody begins."""
        self.broker.start()
        with self.broker.link() as link:
            there = talk.topics(link)
            for topic in (INPUT, OUTPUT):
                if topic not in there:
                    small = {"internal.segment.bytes": "1048576"}
                    talk.create_topic(link, topic, self.plan.partitions, small)
        address = self.broker.address
        self.feeder = Feeder(
            self.run, self.journal, self._recorder, address, self._input, str(self.seed)
        )
        ahead = _AHEAD * self._quota
        self.feeder.room = lambda: ahead - self._watch.backlog
        name = f"follower.{self.run}"
        both = [*self._input, *self._output]
        self.follower = Follower(name, self.journal, self._recorder, address, both)
        for copier in self._copiers:
            copier.start()
        self.feeder.start()
        self.follower.start()

    @property
    def _quota(self) -> int:
        """Records for each strike."""
        return self.plan.records // self.plan.strikes + 1

    @property
    def copied(self) -> int:
        """Records in this run's transactions that copiers know to be committed."""
        return sum(copier.progress.records for copier in self._copiers)

    # --- strikes -------------------------------------------------------------------------------

    def strike(self, *, is_broker: bool) -> Strike:
        """Let them work, kill somebody who does, start it again."""
        self._let_work()
        aim = next(self._aims)
        while True:
            phase = self._kill_broker(aim) if is_broker else self._kill_copier(aim)
            if phase.is_work:
                break
            self.misses += 1
        now, copied = time.monotonic(), self.copied
        strike = Strike(is_broker, phase.value, now - self._struck_s, copied - self._copied_before)
        self._struck_s, self._copied_before = now, copied
        self.strikes.append(strike)
        return strike

    def _let_work(self) -> None:
        # Not all of it: the last strike must find somebody at work, too.
        watch = self._watch
        watch.look()
        goal = max(int(0.8 * self._quota * (len(self.strikes) + 1)), watch.done + 1)
        deadline = time.monotonic() + _PROGRESS_S_MAX
        while watch.done < goal and not self.problems:
            self._tend()
            if time.monotonic() > deadline:
                phases = [copier.phase.value for copier in self._copiers]
                self.journal.complain(f"nothing goes on: {watch.done} of {goal}, {phases}")
            time.sleep(_LOOK_S)
            watch.look()

    def _kill_copier(self, aim: Phase) -> Phase:
        self.random.shuffle(self._copiers)
        wait_for_phase(self._copiers, aim, _MOMENT_S_MAX)
        time.sleep(self.random.random() * _DELAY_S_MAX)
        copier = self._copiers[0]
        phase = copier.kill()
        copier.start()
        return phase

    def _kill_broker(self, aim: Phase) -> Phase:
        wait_for_phase(self._copiers, aim, _MOMENT_S_MAX)
        time.sleep(self.random.random() * _DELAY_S_MAX)
        os.kill(self.broker.pid, signal.SIGKILL)
        phases = [copier.phase for copier in self._copiers]
        self.broker.reap()
        self._hear_alarms()
        self.broker.start()
        self._look_at_group()
        return max(phases, key=lambda phase: (phase is aim, phase.is_transaction, phase.is_work))

    def _tend(self) -> None:
        """Copiers that have ended by themselves begin again."""
        for copier in self._copiers:
            code = copier.ended()
            if code is None:
                continue
            if code != FENCED:
                self.journal.complain(f"a copier ended with {code}: {copier.log_text()}")
            self.fenced += 1
            copier.bury()
            copier.start()

    def _look_at_group(self) -> bool:
        """Its offsets go into the history; False when they are not settled."""
        with contextlib.suppress(ConnectionError), self.broker.link() as link:
            self._group.read(link)
            return True
        return False

    def _hear_alarms(self) -> None:
        for line in self.broker.log_text().splitlines():
            if any(word in line for word in _ALARMS):
                self.journal.complain(f"{self.broker.log_path.name}: {line}")

    # --- the end -------------------------------------------------------------------------------

    def finish(self) -> None:
        """Everything is written and copied; everybody leaves; then it is compared."""
        self._drain()
        for copier in self._copiers:
            if not self.problems and copier.stop() != 0:
                self.journal.complain(f"a copier does not end well: {copier.log_text()}")
        for worker in (self.feeder, self.follower):
            worker.end()
        code = self.broker.terminate()
        if code != 0:
            self.journal.complain(f"a clean stop ended with exit code {code}")
        self._hear_alarms()
        self.broker.start()
        self._compare()

    def _drain(self) -> None:
        """Wait until the copiers have committed the end of their input."""
        self.feeder.room = lambda: self.plan.records - self.fed - self.feeder.fed
        deadline = time.monotonic() + _PROGRESS_S_MAX
        while not self.problems:
            self._tend()
            copied = self.copied
            if self.feeder.fed + self.fed >= self.plan.records and self._is_drained():
                return
            if time.monotonic() > deadline:
                self.journal.complain("the copiers do not come to the end of their input")
            time.sleep(_LOOK_S)
            if self.copied != copied:
                deadline = time.monotonic() + _PROGRESS_S_MAX

    def _is_drained(self) -> bool:
        with contextlib.suppress(ConnectionError), self.broker.link() as link:
            found = self._group.read(link)
            for place, records in self._input_reader.read_to_end(link).items():
                if records:
                    # Not the end of the partition: that is a marker, which nobody is given.
                    self._last[place] = records[-1].offset + 1
                if self._input_reader.position[place] < talk.offset_of(link, place, -1):
                    return False  # A transaction is about to end there.
            return all((found.get(place) or 0) >= end for place, end in self._last.items())
        return False

    def _compare(self) -> None:
        deadline = time.monotonic() + _PROGRESS_S_MAX
        while not self._look_at_group():
            if time.monotonic() > deadline:
                self.journal.complain("the offsets of the group are not told")
                break
            time.sleep(_LOOK_S)
        with self.broker.link() as link:
            both = [*self._input, *self._output]
            found = RawReader(self._recorder, f"final.{self.run}", both).read_to_end(link)
            everything = f"final-uncommitted.{self.run}"
            RawReader(self._recorder, everything, both, READ_UNCOMMITTED).read_to_end(link)
        for source, copy in zip(self._input, self._output, strict=True):
            self.records += len(found[source])
            problem = compare_copy(found[source], found[copy])
            if problem is not None:
                self.journal.complain(f"{copy} is no copy: {problem}")
        if self.records < self.plan.records:
            self.journal.complain(f"only {self.records} records are in the input")

    @property
    def ended(self) -> tuple[int, int]:
        """Transactions of copiers that were committed and aborted, in all runs."""
        now = [copier.progress for copier in self._copiers]
        return (
            self.commits + sum(each.commits for each in now),
            self.aborts + sum(each.aborts for each in now),
        )

    def judge(self) -> None:
        """What the checker of histories has to say."""
        self.verdict = check(read_histories(sorted(self.histories.iterdir())))
        for finding in self.verdict.findings[:_NAMED_MAX]:
            self.journal.complain(f"{finding.anomaly}: {finding.sentence}")

    @property
    def problems(self) -> list[str]:
        """Everything that must not be."""
        return self.journal.problems

    def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        for copier in self._copiers:
            copier.close()
        for worker in ("feeder", "follower"):
            if hasattr(self, worker):
                getattr(self, worker).stopping.set()
        self.broker.close()


def compare_copy(source: Sequence[Record], copy: Sequence[Record]) -> str | None:
    """Where a partition's copy is not exact, in words; None where it is."""
    wanted = [transformed((each.value or b"").decode()) for each in source]
    there = [original_of((each.value or b"").decode()) for each in copy]
    return None if wanted == there else _difference(wanted, there)


def _difference(wanted: list[str], there: list[str]) -> str:
    for number, (one, other) in enumerate(zip(wanted, there, strict=False)):
        if one != other:
            return f"record {number} is {other!r}, not {one!r} ({len(there)} of {len(wanted)})"
    return f"{len(there)} records instead of {len(wanted)}"
