"""A broker in a process of its own, to be killed, starved and looked at from outside."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from barnabas.link.sync import Link

HOST: Final = "127.0.0.1"
START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 30.0
_LAUNCHER: Final = Path(__file__).with_name("observed_broker.py")


def free_port() -> int:
    """A port nobody listens on at the moment."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        port: int = sock.getsockname()[1]
        return port


class BrokerEndedError(Exception):
    """The process ended before it answered; what it said is the message."""


@dataclass(frozen=True)
class Measure:
    """What a process holds."""

    rss_kib: int
    descriptors: int
    threads: int
    tasks: int


@dataclass
class BrokerProcess:
    """One data directory and one port; the process behind them comes and goes."""

    home: Path
    """Data and logs of the process lie in here."""
    port: int = field(default_factory=free_port)
    settings: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    """`barnabas.model.limits` to tighten."""
    data: Path | None = None
    file_bytes_max: int | None = None
    """RLIMIT_FSIZE: no file grows beyond."""
    descriptors_max: int | None = None
    """RLIMIT_NOFILE: no more files and connections at once."""
    child: subprocess.Popen[bytes] | None = None
    starts: int = 0

    @property
    def address(self) -> str:
        """As clients write it."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """Of the running process."""
        return self._running().pid

    def argv(self) -> list[str]:
        """The command line."""
        self.home.mkdir(parents=True, exist_ok=True)
        wishes = {
            "limits": dict(self.limits),
            "file_bytes_max": self.file_bytes_max,
            "descriptors_max": self.descriptors_max,
        }
        command = [sys.executable, str(_LAUNCHER), str(self._report), json.dumps(wishes)]
        command += ["up", "--port", str(self.port), "--data", str(self.data or self.home / "data")]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    def spawn(self) -> float:
        """Start the process without waiting for it; the moment it was started."""
        if self.child is not None:
            raise RuntimeError("the broker runs already")
        self.starts += 1
        argv = self.argv()
        with self.log_path.open("wb") as log, self._stdout_path.open("wb") as out:
            began = time.perf_counter()
            self.child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=log)
        return began

    def start(self) -> Self:
        """Start, and return once a connection is accepted."""
        self.spawn()
        self.wait_for(self.connect_once)
        return self

    def connect_once(self) -> None:
        """Try a connection."""
        socket.create_connection((HOST, self.port), timeout=START_S_MAX).close()

    def wait_for(self, attempt: Callable[[], None]) -> None:
        """Repeat until `attempt` raises no OSError; give up when the process is gone."""
        deadline = time.monotonic() + START_S_MAX
        while True:
            try:
                attempt()
            except OSError:
                if self._running().poll() is not None:
                    code, text = self.reap(), self.log_text()
                    raise BrokerEndedError(f"exit code {code}: {text}") from None
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.002)
            else:
                return

    def link(self, timeout_s: float = 30.0) -> Link:
        """A raw connection to it."""
        return Link(HOST, self.port, timeout_s=timeout_s)

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self._running().kill()
        self.reap()

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        self._running().terminate()
        return self.reap()

    def reap(self) -> int:
        """Wait for the end of the process; its exit code."""
        child = self._running()
        try:
            code = child.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise
        self.child = None
        return code

    def close(self) -> None:
        """Leave no process behind, however the test went."""
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            self.child = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What it said and what it holds

    @property
    def log_path(self) -> Path:
        """Its stderr since its latest start."""
        return self.home / f"broker-{self.starts}.log"

    @property
    def _stdout_path(self) -> Path:
        return self.home / f"broker-{self.starts}.out"

    @property
    def _report(self) -> Path:
        return self.home / f"reports-{self.starts}"

    def _reports(self) -> list[str]:
        text = self._report.read_text() if self._report.exists() else ""
        return text.split("\n")[:-1]

    def log_text(self) -> str:
        """What it has written to stderr since its latest start."""
        return self.log_path.read_text(errors="replace")

    def measure(self) -> Measure:
        """Memory and descriptors by /proc, tasks by asking the process itself."""
        said = self._reports()
        os.kill(self.pid, signal.SIGUSR1)
        deadline = time.monotonic() + STOP_S_MAX
        while len(reports := self._reports()) == len(said):
            if time.monotonic() > deadline:
                raise TimeoutError("the broker does not answer SIGUSR1: its loop stands still")
            time.sleep(0.005)
        told = json.loads(reports[-1])
        return Measure(
            rss_kib=self.status_kib("VmRSS"),
            descriptors=len(self._descriptors()),
            threads=told["threads"],
            tasks=told["tasks"],
        )

    def _descriptors(self) -> list[str]:
        """What they stand for, without files of deleted topics that are still to be removed."""
        folder = Path(f"/proc/{self.pid}/fd")
        targets = []
        for entry in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # Closed since it was listed.
                targets.append(os.readlink(entry))
        return [each for each in targets if each.endswith("(deleted)") or "-delete/" not in each]

    def status_kib(self, name: str) -> int:
        """A size out of /proc/…/status."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1])
        raise LookupError(name)

    def reset_peak(self) -> None:
        """Let VmHWM begin anew at what is held now."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _running(self) -> subprocess.Popen[bytes]:
        if self.child is None:
            raise RuntimeError("the broker does not run")
        return self.child
