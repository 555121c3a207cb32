"""The processes a run needs besides the broker: load workers and the limit server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from barnabas.bench.load import Load, Outcome
from barnabas.bench.subject import Subject, stop
from barnabas.model.check import require
from barnabas.model.errors import BarnabasError


class Crew:
    """Load workers that stay for the whole run, so that no round pays for their start."""

    def __init__(self, workers: list[subprocess.Popen[bytes]]) -> None:
        self._workers = workers

    def run(self, load: Load) -> Outcome:
        """Share the load's requests among the workers; start them together; add up."""
        share = replace(load, requests_max=max(1, load.requests_max // len(self._workers)))
        order = json.dumps(asdict(share)).encode()
        for worker in self._workers:
            _tell(worker, order)
        ready = [_answer(worker) for worker in self._workers]
        for worker, words in zip(self._workers, ready, strict=True):
            if "problem" not in words:
                _tell(worker, b"")
        results = [
            words if "problem" in words else _answer(worker)
            for worker, words in zip(self._workers, ready, strict=True)
        ]
        for words in results:
            if "problem" in words:
                raise BarnabasError(f"The load generator stopped: {words['problem']}.")
        return add_up([Outcome(**words) for words in results])


def add_up(outcomes: list[Outcome]) -> Outcome:
    """Several workers as one: sums, and the longest time."""
    return Outcome(
        requests=sum(each.requests for each in outcomes),
        records=sum(each.records for each in outcomes),
        payload_bytes=sum(each.payload_bytes for each in outcomes),
        seconds=max(each.seconds for each in outcomes),
        cpu_seconds=sum(each.cpu_seconds for each in outcomes),
    )


def _tell(worker: subprocess.Popen[bytes], line: bytes) -> None:
    require(worker.stdin is not None, "workers are started with pipes")
    worker.stdin.write(line + b"\n")  # type: ignore[union-attr]
    worker.stdin.flush()  # type: ignore[union-attr]


def _answer(worker: subprocess.Popen[bytes]) -> dict[str, Any]:
    require(worker.stdout is not None, "workers are started with pipes")
    line = worker.stdout.readline()  # type: ignore[union-attr]
    if not line:
        raise BarnabasError("A load generator process ended unexpectedly.")
    words: dict[str, Any] = json.loads(line)
    return words


@contextmanager
def workers(count: int) -> Iterator[Crew]:
    """Start load workers; they end when their stdin closes."""
    argv = [sys.executable, "-m", "barnabas.bench.load"]
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            for _ in range(count)
        ]
        yield Crew(started)


@contextmanager
def limit_server(directory: Path, module: str = "barnabas.bench.limit") -> Iterator[Subject]:
    """Start the limit server on a free port, with its file in `directory`."""
    argv = [sys.executable, "-m", module, "--dir", str(directory)]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE)
    try:
        require(server.stdout is not None, "started with a pipe")
        line = server.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise BarnabasError("The limit server did not start.")
        yield Subject("127.0.0.1", int(line), server.pid)
    finally:
        stop(server)
