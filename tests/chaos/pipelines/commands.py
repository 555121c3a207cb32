"""A `barnabas` command that supervises a driver, and those of its processes that are killed."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[3]
_STOP_S_MAX: Final = 120.0
_DRIVER: Final = re.compile(r"barnabas\.spark\.(\w+\.)*job")
"""The module that a driver runs."""


class Command:
    """`barnabas …`, started again by us only when it was killed itself."""

    def __init__(self, home: Path, words: list[str], environment: dict[str, str]) -> None:
        self._log = home / f"{words[0]}.log"
        self._words = words
        self._environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"} | environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """What it says is appended to a log."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "barnabas.cli.main", *self._words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment, cwd=_ROOT,
            )  # fmt: skip

    def check(self) -> None:
        """It is killed at times, and never ends by itself."""
        if self._process is not None and self._process.poll() is not None:
            code, said = self._process.returncode, self._log.read_text(errors="replace")[-2000:]
            raise AssertionError(f"barnabas {self._words[0]} ended with {code}: {said}")

    def kill_driver(self) -> bool:
        """SIGKILL to the driver's Python; whether there was one."""
        return any(_kill(pid) for pid in self._drivers())

    def kill_java(self) -> bool:
        """SIGKILL to the driver's Java; whether there was one."""
        javas = [
            pid for driver in self._drivers() for pid in _below(driver) if _name(pid) == "java"
        ]
        return any(map(_kill, javas))

    def kill_whole(self) -> None:
        """SIGKILL to the command itself: what it started has to end by itself."""
        left = self._drivers()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        deadline = time.monotonic() + _STOP_S_MAX
        while any(Path(f"/proc/{pid}").exists() for pid in left):
            if time.monotonic() > deadline:
                raise AssertionError(f"drivers {left} have outlived their command")
            time.sleep(0.05)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        if self._process is None:
            return 0
        self._process.terminate()
        process, self._process = self._process, None
        try:
            return process.wait(_STOP_S_MAX)
        finally:
            process.kill()

    def wait(self, wait_s: float) -> int:
        """Until it ends by itself; its exit code."""
        process = self._process
        if process is None:
            raise AssertionError("it was not started")
        return process.wait(wait_s)

    @property
    def ended(self) -> int | None:
        """Its exit code, if it has one."""
        return None if self._process is None else self._process.poll()

    def _drivers(self) -> list[int]:
        if self._process is None:
            return []
        below = _below(self._process.pid)
        return [pid for pid in below if any(map(_DRIVER.fullmatch, _words_of(pid)))]


def _below(parent: int) -> list[int]:
    """Children, and theirs."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError):
            if entry.name.isdigit() and _parent(entry) == parent:
                found += [int(entry.name), *_below(int(entry.name))]
    return found


def _parent(process: Path) -> int:
    return int((process / "stat").read_text().rpartition(")")[2].split()[1])


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _words_of(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    return []


def _kill(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False
