"""One part of a run: a fresh cluster, a crowd on it, faults, and the verdict."""

import contextlib
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos.cluster.crowd import Crowd, Pace
from tests.chaos.cluster.ending import REPLICAS_DIFFER, Ending
from tests.chaos.cluster.faults import Fault
from tests.chaos.cluster.hosting import Rig, unmount_below
from tests.chaos.cluster.network import Network
from tests.chaos.cluster.results import Part, Struck
from tests.chaos.cluster.striking import Striking

from barnabas.verify.checker import check
from barnabas.verify.parsing import read_histories

_RESUME_S_MAX: Final = 60.0
_LOOK_S: Final = 0.02
_TEND_S: Final = 0.2
_FINDINGS_MAX: Final = 20


@dataclass(frozen=True)
class Terms:
    """How long a part takes, and what happens in it."""

    seconds: float
    faults: Iterator[Fault] | None
    """None: nothing is broken."""
    records: int = 0
    """Without faults: so many acknowledged records are enough."""
    pace: Pace = field(default_factory=Pace)
    program: Sequence[str] | None = None
    """What is run instead of the installed broker."""
    until_caught: bool = False
    """End as soon as a client has seen what must not be."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when somebody wants it to come to its end now."""


class PartRun:
    """Everything that runs during one part."""

    def __init__(
        self, part: Part, home: Path, network: Network, terms: Terms, tell: Callable[[str], None]
    ) -> None:
        self.part = part
        self._home = home / f"part-{part.number}"
        self._network = network
        self._terms = terms
        self._tell = tell
        self._began_s = 0.0
        self._tended_s = 0.0

    def run(self) -> Part:
        """To the verdict; the files are kept only when something is wrong."""
        unmount_below(self._home)
        shutil.rmtree(self._home, ignore_errors=True)
        part = self.part
        rig = Rig(self._home, self._network, self._terms.program)
        crowd: Crowd | None = None
        with self._nothing_left_of(rig), self._kept():
            rig.make_small_disk()
            seed = part.seed * 1000 + part.number
            crowd = Crowd(rig, self._home / "clients", seed, self._terms.pace)
            # What has happened until it breaks off is judged all the same.
            with self._kept():
                self._live(rig, crowd)
            crowd.close()
        if self._began_s:
            part.seconds = part.seconds or time.monotonic() - self._began_s
        if crowd is not None:
            part.problems += _first(crowd.problems)
            with self._kept():
                self._judge(crowd)
        if part.is_clean:
            shutil.rmtree(self._home)
        else:
            part.evidence = str(self._home)
        return part

    @contextlib.contextmanager
    def _nothing_left_of(self, rig: Rig) -> Iterator[None]:
        """Links, processes and the small disk end with the part, also when somebody does not wait
        for its verdict."""
        with contextlib.ExitStack() as last:
            for each in (rig.unmount, rig.end, rig.network.heal):  # Who comes last begins.
                last.callback(self._keep, each)
            yield

    def _keep(self, step: Callable[[], None]) -> None:
        with self._kept():
            step()

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        """Whatever goes wrong is a problem of this part, and ends it, not the run."""
        try:
            yield
        except Exception:  # noqa: BLE001 - it is told, with all that is known of it
            self.part.broke_off = True
            self.part.problems.append(f"the part broke off: {traceback.format_exc()}")

    def _live(self, rig: Rig, crowd: Crowd) -> None:
        part = self.part
        rig.start()
        crowd.begin()
        self._began_s = time.monotonic()
        ending = Ending(rig, crowd)
        striking = Striking(rig, crowd, lambda seconds: self._rest(crowd, seconds))
        try:
            self._go_on(striking, crowd, ending)
            part.seconds = time.monotonic() - self._began_s
            self._tell(f"part {part.number}: everything is healed, everybody comes to the end")
            ending.come()
            part.in_sync_s = ending.in_sync_s
        finally:
            striking.hear_alarms()
            part.remarks += striking.restarted

    def _go_on(self, striking: Striking, crowd: Crowd, ending: Ending) -> None:
        terms = self._terms
        if terms.faults is None:
            while self._is_time_left() and not self._is_enough(crowd):
                self._rest(crowd, 2.0)
                ending.look_at_groups()
            return
        while self._is_time_left():
            fault = next(terms.faults)
            if not striking.is_possible(fault):
                left_out = self.part.left_out
                left_out[fault.kind.value] = left_out.get(fault.kind.value, 0) + 1
                continue
            self._strike(striking, crowd, fault)
            ending.look_at_groups()
            if terms.until_caught and crowd.problems:
                break
            self._rest(crowd, fault.quiet_s)

    def _strike(self, striking: Striking, crowd: Crowd, fault: Fault) -> None:
        began = time.monotonic()
        whom = striking.carry_out(fault)
        if whom is None:
            return
        healed = time.monotonic()
        struck = Struck(fault.number, began - self._began_s, fault.kind.value, fault.target, whom,
                        healed - began)  # fmt: skip
        self.part.struck.append(struck)
        while len(struck.resumed_s) < len(crowd.writers):
            for writer in crowd.writers:
                took_s = resumed_after(healed, writer.last_told)
                if took_s is not None:
                    struck.resumed_s.setdefault(writer.name, took_s)
            if time.monotonic() > healed + _RESUME_S_MAX:
                late = [each.name for each in crowd.writers if each.name not in struck.resumed_s]
                text = f"{_RESUME_S_MAX:g} s after fault {fault.number} had healed"
                crowd.journal.complain(f"{', '.join(late)}: nothing acknowledged {text}")
                struck.resumed_s |= dict.fromkeys(late, _RESUME_S_MAX)
            self._rest(crowd, _LOOK_S)
        self._tell(_line(struck))

    def _is_time_left(self) -> bool:
        is_over = time.monotonic() >= self._began_s + self._terms.seconds
        return not is_over and not self._terms.stopping.is_set()

    def _is_enough(self, crowd: Crowd) -> bool:
        done = sum(writer.stored for writer in crowd.writers) + 2 * crowd.feeder.fed
        return 0 < self._terms.records <= done

    def _rest(self, crowd: Crowd, seconds: float) -> None:
        """Nothing is broken or mended meanwhile, but whoever has ended begins again."""
        until = time.monotonic() + seconds
        while True:
            if time.monotonic() > self._tended_s + _TEND_S:
                self._tended_s = time.monotonic()
                crowd.tend()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _TEND_S))

    def _judge(self, crowd: Crowd) -> None:
        part = self.part
        verdict = check(read_histories(sorted(crowd.histories.iterdir())))
        part.tally = dict(verdict.tally)
        part.tally["transactions hijacked"] = crowd.hijacks
        part.tally["deliveries not acknowledged"] = sum(each.lacking for each in crowd.writers)
        part.tally["copiers that began again"] = crowd.fenced
        for what in ("assignments", "commits acknowledged", "offsets checked", "records covered"):
            part.tally[f"groups: {what}"] = crowd.journal.counts[what]
        part.anomalies = {each.value: count for each, count in verdict.counts.items()}
        part.worst_lag_s = verdict.worst_lag.nanoseconds / 1e9
        part.problems += _first([f"{each.anomaly}: {each.sentence}" for each in verdict.findings])


def resumed_after(healed: float, told: tuple[float, float]) -> float | None:
    """How long it took, if what was told had begun after the heal: an answer that was only late
    says nothing of it."""
    began_at, told_at = told
    return told_at - healed if began_at > healed else None


def _first(sentences: Sequence[str]) -> list[str]:
    """Not all, when there are too many; differences of replicas before everything else."""
    ordered = sorted(sentences, key=lambda each: not each.startswith(REPLICAS_DIFFER))
    more = len(ordered) - _FINDINGS_MAX
    return ordered[:_FINDINGS_MAX] + ([f"and {more} more like these"] if more > 0 else [])


def _line(struck: Struck) -> str:
    worst = max(struck.resumed_s, key=lambda name: struck.resumed_s[name])
    return (
        f"{struck.number:4}  {struck.at_s:6.1f} s  {struck.kind:15}  {struck.target:29}  "
        f"{struck.whom:26} {struck.broken_s:5.1f} s broken, "
        f"all go on after {struck.resumed_s[worst]:5.2f} s ({worst})"
    )
