"""How long a broker needs from its start to the first acknowledged record.

The yardstick is a Python process that only imports asyncio, started in turns with the broker on
the same machine: no Python server can be up before that.
"""

import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from barnabas.bench import admin, frames, host, subject
from barnabas.bench.load import RefusedError, connect
from barnabas.bench.payload import build_batch
from barnabas.bench.report import Column, Report, median, spread
from barnabas.model.errors import BarnabasError

BASELINE_ARGV: Final = (sys.executable, "-c", "import asyncio")
START_S_MAX: Final = 60.0
_RETRY_S: Final = 0.001


@dataclass(frozen=True)
class Options:
    """How a broker is started, and how often."""

    data: Path
    argv: Sequence[str] = subject.DEFAULT_ARGV
    runs: int = 7


def run(options: Options) -> Report:
    """Time several starts, each with a data directory of its own."""
    if options.runs < 1:
        raise BarnabasError("Timing a start needs at least one run.")
    starts, baselines = [], []
    for number in range(options.runs):
        baselines.append(time_baseline())
        starts.append(time_start(options.data, options.argv))
        host.progress(
            f"start {number + 1}/{options.runs}: {starts[-1] * 1000:.0f} ms, "
            f"a bare interpreter {baselines[-1] * 1000:.0f} ms"
        )
    return Report("startup", {"runs": options.runs}, COLUMNS, [summarize(starts, baselines)], NOTES)


COLUMNS: Final = (
    Column("what", "what"),
    Column("start_ms", "start ms", "{:,.0f}"),
    Column("start_low_ms", "low", "{:,.0f}"),
    Column("start_high_ms", "high", "{:,.0f}"),
    Column("baseline_ms", "import asyncio ms", "{:,.0f}"),
    Column("ratio", "ratio", "{:.2f}"),
    Column("spread", "spread", "{:.0%}"),
)
NOTES: Final = (
    "start: from the start of the process to the first acknowledged Produce request, median.",
    "ratio: to a Python process that only imports asyncio, median of the pairs.",
)


def summarize(starts: Sequence[float], baselines: Sequence[float]) -> dict[str, Any]:
    """One row from seconds per run."""
    ratios = [start / baseline for start, baseline in zip(starts, baselines, strict=True)]
    return {
        "what": "start to first acknowledged produce",
        "start_ms": median(starts) * 1000,
        "start_low_ms": min(starts) * 1000,
        "start_high_ms": max(starts) * 1000,
        "baseline_ms": median(baselines) * 1000,
        "ratio": median(ratios),
        "spread": spread(starts),
        "runs_ms": [start * 1000 for start in starts],
    }


def time_baseline() -> float:
    """Seconds of a process that only imports asyncio."""
    began = time.perf_counter()
    subprocess.run(BASELINE_ARGV, check=True, timeout=START_S_MAX)
    return time.perf_counter() - began


def time_start(data: Path, argv: Sequence[str]) -> float:
    """Seconds from starting a broker to its first acknowledgement."""
    with tempfile.TemporaryDirectory(prefix="startup-", dir=data) as folder:
        port, log = subject.free_port(), Path(folder) / "output.txt"
        command = subject.fill(argv, port, Path(folder) / "data")
        began = time.perf_counter()
        with subject.process(command, log) as child:
            first_produce("127.0.0.1", port, child, log).close()
            return time.perf_counter() - began


def first_produce(name: str, port: int, child: subprocess.Popen[bytes], log: Path) -> socket.socket:
    """Try until a Produce to a new topic is acknowledged; the connection that saw it."""
    topic = admin.new_topic_name()
    frame = frames.produce(topic, build_batch(0).data, acks=-1)
    deadline = time.monotonic() + START_S_MAX
    problem: Exception | None = None
    while time.monotonic() < deadline:
        if child.poll() is not None:
            said = log.read_text(errors="replace")[-2000:]
            raise BarnabasError(f"The broker ended with code {child.returncode}. It said:\n{said}")
        try:
            return _produce_once(name, port, topic, frame)
        except (OSError, RefusedError) as not_yet:
            problem = not_yet
            time.sleep(_RETRY_S)
    raise BarnabasError(f"No acknowledgement in {START_S_MAX:.0f} s ({problem}).")


def _produce_once(name: str, port: int, topic: str, frame: bytes) -> socket.socket:
    sock = connect(name, port)
    try:
        admin.wait_for_topic_on(sock, topic, create=True)
        check_produced(admin.converse(sock, frame))
    except BaseException:
        sock.close()
        raise
    return sock


def check_produced(answer: bytes) -> None:
    """Raise unless the body of a Produce answer says: no error."""
    at = frames.PRODUCE_ANSWER.size - 2 - 8
    error = struct.unpack_from(">h", answer, at)[0] if len(answer) >= at + 2 else None
    if error != 0:
        raise RefusedError(f"error code {error} to a Produce request")
