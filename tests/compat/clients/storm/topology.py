"""The topology of `Topology.java` as a child process, in a folder of its own."""

import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.compat.clients.storm.jars import class_path

_START_S: Final = 600.0
"""A whole Storm in one process: ten seconds, but minutes on a machine that is busy."""
_STOP_S: Final = 120.0
_OPTIONS: Final = ("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Topology:
    """Runs for as long as a `with` block: `source` to `target`, in capitals."""

    def __init__(self, home: Path, bootstrap: str, source: str, target: str, group: str) -> None:
        self._log = home / "storm.log"
        self._home = home
        self._arguments = (bootstrap, source, target, group)
        self._process: subprocess.Popen[bytes] | None = None

    def check(self) -> None:
        """Raises AssertionError with Storm's last words when it has ended."""
        if self._process is None or self._process.poll() is not None:
            raise AssertionError(f"Storm ended by itself:\n{self.log()[-4000:]}")

    def log(self) -> str:
        """What Storm has said."""
        return self._log.read_text(errors="replace")

    def __enter__(self) -> Self:
        # Storm's own ZooKeeper and its workers keep their files where Java keeps what is temporary.
        options = (*_OPTIONS, f"-Djava.io.tmpdir={self._home}", "-cp", class_path())
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["java", *options, "Topology", *self._arguments],
                cwd=self._home,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_until_it_runs()
        except BaseException:
            self._kill()
            raise
        return self

    def _wait_until_it_runs(self) -> None:
        deadline = time.monotonic() + _START_S
        while "running" not in self.log().splitlines():
            self.check()
            if time.monotonic() > deadline:
                raise AssertionError(f"Storm does not start:\n{self.log()[-4000:]}")
            time.sleep(0.5)

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._process is not None and error is None:
                # Closing its standard input ends it.
                self._process.communicate(timeout=_STOP_S)
        finally:
            self._kill()
