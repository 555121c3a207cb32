"""Copiers as seen from outside: started, watched, killed, started again."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tests.chaos.copier_phase import Phase, PhaseFile, Progress

_COPIER: Final = Path(__file__).with_name("copier.py")
_STOP_S_MAX: Final = 60.0


class CopierProcess:
    """One slot: a transactional id, and the processes that have it one after the other."""

    def __init__(self, address: str, slot: int, run: int, home: Path, seed: int) -> None:
        self._address = address
        self._slot = slot
        self._run = run
        self._home = home
        self._seed = seed
        self._lives = 0
        self._page: PhaseFile | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self.done = Progress(Phase.STARTING, 0, 0, 0)
        """Of the lives that are over."""

    def start(self) -> None:
        """The next life."""
        self._lives += 1
        name = f"copier-{self._slot}.{self._run}.{self._lives}"
        self._page = PhaseFile(self._home / f"{name}.phase")
        argv = [sys.executable, str(_COPIER), self._address, str(self._slot), name,
                str(self._home), str(self._seed)]  # fmt: skip
        with (self._home / f"{name}.log").open("wb") as log:
            self._child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stderr=log,
                # A group of its own: Ctrl-C is for the run, which comes to its end with it.
                process_group=0,
            )

    @property
    def progress(self) -> Progress:
        """What it does now; the counts are those of all lives."""
        if self._page is None:
            return self.done
        now = self._page.read()
        over = self.done
        return Progress(now.phase, now.records + over.records, now.commits + over.commits,
                        now.aborts + over.aborts)  # fmt: skip

    @property
    def phase(self) -> Phase:
        """What it does now."""
        return Phase.STARTING if self._page is None else self._page.read().phase

    def ended(self) -> int | None:
        """The exit code, if it has ended by itself."""
        return None if self._child is None else self._child.poll()

    def log_text(self) -> str:
        """What its present life has said."""
        name = f"copier-{self._slot}.{self._run}.{self._lives}"
        return (self._home / f"{name}.log").read_text(errors="replace")

    def kill(self) -> Phase:
        """SIGKILL; what it was doing."""
        child = self._running()
        child.kill()
        code = child.wait(_STOP_S_MAX)
        phase = self.phase
        self._finish()
        # Whoever was not alive any more has not been killed.
        return phase if code == -9 else Phase.STARTING

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        child = self._running()
        child.terminate()
        code = child.wait(_STOP_S_MAX)
        self._finish()
        return code

    def bury(self) -> None:
        """It has ended by itself."""
        self._running().wait()
        self._finish()

    def close(self) -> None:
        """Leave nothing behind."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._finish()

    def _finish(self) -> None:
        self.done = self.progress
        self._child = None
        if self._page is not None:
            self._page.close()
            self._page = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            raise RuntimeError("the copier does not run")
        return self._child


def wait_for_phase(copiers: list[CopierProcess], wanted: Phase, within_s: float) -> bool:
    """Wait until one of them is there; it becomes the first of the list."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        for number, copier in enumerate(copiers):
            if copier.phase is wanted:
                copiers[0], copiers[number] = copiers[number], copiers[0]
                return True
        time.sleep(0.0003)
    return False
