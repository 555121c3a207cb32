"""The broker under test: started as a process of its own, or one that runs elsewhere."""

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.bench import admin, host
from barnabas.model.errors import BarnabasError

DEFAULT_ARGV: Final = (
    sys.executable, "-m", "barnabas.cli.main", "up", "--port", "{port}", "--data", "{data}",
)  # fmt: skip
"""How a broker is started; `{port}` and `{data}` are filled in."""
STOP_S_MAX: Final = 15.0


@dataclass(frozen=True)
class Subject:
    """A broker that answers."""

    host: str
    port: int
    pid: int | None
    """None when it runs elsewhere: its CPU time can not be seen then"""

    @property
    def address(self) -> str:
        """As clients write it."""
        return f"{self.host}:{self.port}"

    def cpu_seconds(self) -> float | None:
        """CPU time of the broker's processes so far."""
        return None if self.pid is None else host.cpu_seconds(self.pid)


def free_port() -> int:
    """A port nobody listens on at the moment."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def fill(argv: Sequence[str], port: int, data: Path) -> list[str]:
    """The command line with port and data directory in their places."""
    return [part.replace("{port}", str(port)).replace("{data}", str(data)) for part in argv]


def parse_bootstrap(bootstrap: str) -> tuple[str, int]:
    """`host:port` as two."""
    name, _, port = bootstrap.rpartition(":")
    if not name or not port.isdigit():
        raise BarnabasError(f"{bootstrap!r} is not an address: write host:port.")
    return name.strip("[]"), int(port)


@contextmanager
def process(argv: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command with its output in a file; end it, politely first."""
    with log.open("wb") as output:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield child
    finally:
        stop(child)


def stop(child: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
    """Terminate and wait; kill what does not listen."""
    child.terminate()
    try:
        child.wait(STOP_S_MAX)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(STOP_S_MAX)


@contextmanager
def running(
    data: Path, argv: Sequence[str] = DEFAULT_ARGV, bootstrap: str | None = None
) -> Iterator[Subject]:
    """A broker that is ready: the one at `bootstrap`, or a new one with its data below `data`."""
    if bootstrap is not None:
        name, port = parse_bootstrap(bootstrap)
        admin.wait_until_ready(name, port)
        yield Subject(name, port, None)
        return
    with tempfile.TemporaryDirectory(prefix="subject-", dir=data) as folder:
        port, log = free_port(), Path(folder) / "output.txt"
        with process(fill(argv, port, Path(folder) / "data"), log) as child:
            try:
                admin.wait_until_ready("127.0.0.1", port)
            except BarnabasError as problem:
                said = log.read_text(errors="replace")[-2000:]
                raise BarnabasError(f"{problem} It said:\n{said}") from problem
            yield Subject("127.0.0.1", port, child.pid)
