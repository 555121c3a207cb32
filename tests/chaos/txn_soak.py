"""Clients of every kind on one broker for as long as one likes: `python tests/chaos/txn_soak.py`.

Transactional, idempotent and plain producers write, consumers of both isolation levels read along,
offsets move with transactions, and the broker may be killed now and then. Everything is recorded,
and `barnabas verify` has the last word. Run it without kills first.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.chaos import talk
from tests.chaos.broker_process import BrokerProcess
from tests.chaos.copy_load import Follower
from tests.chaos.history_readers import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    GroupReader,
    RawReader,
)
from tests.chaos.history_workers import Desk, Sending, Transacting
from tests.chaos.journal import Journal
from tests.chaos.load import Worker
from tests.chaos.recorder import Recorder
from tests.chaos.talk import Place

from barnabas.verify.checker import check
from barnabas.verify.findings import Verdict
from barnabas.verify.parsing import read_histories

_HOME: Final = Path(tempfile.gettempdir()) / "barnabas-txn-soak"
_TOPICS: Final = {"orders": 3, "clicks": 2}
_GROUP: Final = "readers"
_PAUSE_S: Final = 0.01
_END_S_MAX: Final = 120.0
_TURNS_MIN: Final = 5


@dataclass(frozen=True)
class Cast:
    """How many of each kind."""

    transactional: int = 2
    idempotent: int = 4
    plain: int = 2
    readers: int = 2
    """Of each isolation level."""


class Soak:
    """A broker and everybody on it."""

    def __init__(self, home: Path, seed: int, cast: Cast) -> None:
        self.home = home
        self.seed = seed
        self.journal = Journal()
        self.broker = BrokerProcess(home)
        self.recorder = Recorder(home / "histories" / "soak.jsonl")
        self.places: list[Place] = [
            (name, number) for name, count in _TOPICS.items() for number in range(count)
        ]
        self._cast = cast
        self._random = random.Random(seed)
        self._group = GroupReader(self.recorder, "group", _GROUP, self.places[:1])
        self._writers: list[Transacting | Sending] = []
        self._readers: list[Worker] = []
        self.kills = 0

    def open(self) -> None:
        """Everybody begins."""
        self.broker.start()
        with self.broker.link() as link:
            for name, count in _TOPICS.items():
                talk.create_topic(link, name, count)
        cast = self._cast
        desk = Desk(self.journal, self.recorder, self.broker.address, self.seed)
        for number in range(cast.transactional):
            group = _GROUP if number == 0 else None
            self._writers.append(Transacting(f"transacting-{number}", desk, self.places, group))
        for number in range(cast.idempotent):
            self._writers.append(Sending(f"idempotent-{number}", desk, self.places))
        for number in range(cast.plain):
            writer = Sending(f"plain-{number}", desk, self.places, idempotent=False)
            self._writers.append(writer)
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
            for number in range(cast.readers):
                name = f"{isolation}-{number}"
                follower = Follower(
                    name, self.journal, self.recorder, self.broker.address, self.places, isolation
                )
                self._readers.append(follower)
        for worker in (*self._writers, *self._readers):
            worker.start()

    def work(self, seconds: float, kill_every_s: float | None) -> None:
        """For so long, with kills at random moments."""
        until = time.monotonic() + seconds
        while time.monotonic() < until or not self._have_all_worked():
            if self.journal.problems:
                return
            if kill_every_s is None:
                time.sleep(0.5)
            else:
                time.sleep(self._random.uniform(0.5, 1.5) * kill_every_s)
                self.broker.kill()
                self.broker.start()
                self.kills += 1
            self._look_at_group()

    def _have_all_worked(self) -> bool:
        """However slow the machine is, nobody leaves before having done something."""
        return all(writer.done >= _TURNS_MIN for writer in self._writers)

    def _look_at_group(self) -> bool:
        try:
            with self.broker.link() as link:
                self._group.read(link)
        except ConnectionError:
            return False
        return True

    def end(self) -> Verdict:
        """Writers come to their end, everything is read once more, and judged."""
        for writer in self._writers:
            writer.stopping.set()
        for worker in (*self._writers, *self._readers):
            worker.end()
        deadline = time.monotonic() + _END_S_MAX
        final = RawReader(self.recorder, "final", self.places, READ_COMMITTED)
        with self.broker.link() as link:
            everything = RawReader(self.recorder, "all", self.places, READ_UNCOMMITTED)
            everything.read_to_end(link)
            while final.position != everything.position and time.monotonic() < deadline:
                final.read_to_end(link)
        while not self._look_at_group() and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        return check(read_histories(sorted((self.home / "histories").iterdir())))

    def close(self) -> None:
        """Leave nothing behind."""
        for worker in (*self._writers, *self._readers):
            worker.stopping.set()
        self.broker.close()


def soak(
    home: Path, seed: int, seconds: float, kill_every_s: float | None, cast: Cast | None = None
) -> tuple[Soak, Verdict]:
    """One run."""
    run = Soak(home, seed, cast or Cast())
    try:
        run.open()
        run.work(seconds, kill_every_s)
        return run, run.end()
    finally:
        run.close()


def summary(run: Soak, verdict: Verdict) -> str:
    """What is to be told, as text."""
    lines = [f"{what:32} {count:12,}" for what, count in verdict.tally.items()]
    lines.append(f"{'kills of the broker':32} {run.kills:12,}")
    lines.append(f"worst real-time lag {verdict.worst_lag.nanoseconds / 1e9:.2f} s")
    found = ", ".join(f"{many} {what}" for what, many in verdict.counts.items())
    lines.append(f"seed {run.seed}, found: {found or 'nothing'}")
    lines += [f"{each.anomaly}: {each.sentence}" for each in verdict.findings]
    lines += [f"PROBLEM {problem}" for problem in run.journal.problems]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run as told on the command line; 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kill-every", type=float, metavar="SECONDS", dest="kill_every_s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--home", type=Path, default=_HOME, help="data and histories")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    shutil.rmtree(options.home, ignore_errors=True)
    run, verdict = soak(options.home, options.seed, options.seconds, options.kill_every_s)
    print(summary(run, verdict), end="")
    return 0 if verdict.is_clean and not run.journal.problems else 1


if __name__ == "__main__":
    sys.exit(main())
