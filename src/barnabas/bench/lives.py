"""A broker that is started and stopped on the same directory, with how long that took."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from barnabas.bench import host, startup, subject
from barnabas.model.errors import BarnabasError

STOP_S_MAX: Final = 900.0
"""A clean stop of many partitions waits for a disk; one that is cut short would not be clean."""


@dataclass
class Life:
    """A running broker."""

    server: subject.Subject
    child: "subprocess.Popen[bytes]"
    start_seconds: float

    def facts(self) -> dict[str, Any]:
        """What it holds now."""
        return {
            "peak_mib": host.peak_memory_kib(self.child.pid) / 1024,
            "descriptors": host.descriptors(self.child.pid),
        }

    def started(self, what: str) -> dict[str, Any]:
        """A row about the start."""
        return {"what": what, "seconds": self.start_seconds, **self.facts()}

    def stop(self, what: str) -> dict[str, Any]:
        """Stop it cleanly; a row about that."""
        facts = self.facts()
        began = time.perf_counter()
        self.child.terminate()
        code = self.child.wait(STOP_S_MAX)
        if code != 0:
            raise BarnabasError(f"The broker ended with code {code} instead of cleanly.")
        return {"what": what, "seconds": time.perf_counter() - began, **facts}


@contextmanager
def life(folder: Path, argv: Sequence[str] = subject.DEFAULT_ARGV) -> Iterator[Life]:
    """Start a broker on the data in `folder`; timed to its first acknowledgement."""
    port, log = subject.free_port(), folder / "output.txt"
    began = time.perf_counter()
    with subject.process(subject.fill(argv, port, folder / "data"), log) as child:
        startup.first_produce("127.0.0.1", port, child, log).close()
        seconds = time.perf_counter() - began
        yield Life(subject.Subject("127.0.0.1", port, child.pid), child, seconds)
