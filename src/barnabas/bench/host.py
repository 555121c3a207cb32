"""The machine under the benchmark: CPU time and memory of processes, and keeping it steady.

A shared virtual machine distorts small figures in two ways that have nothing to do with a
broker. An idle virtual core halts, and waking it costs more than a small request; `awake` keeps
every core busy at the lowest priority. Memory the guest frees goes back to the host, and touching
it again costs more than copying into it; `warm_memory` touches it before the clock runs.
"""

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

_PAGE: Final = 4096
_CPU_CLOCK: Final = 2
"""`CPUCLOCK_SCHED`: the whole process's run time in nanoseconds"""
_SPIN: Final = """
import os, sys, time
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
parent = os.getppid()
while os.getppid() == parent:
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        for _ in range(10_000):
            pass
"""


class Memory(NamedTuple):
    """Resident memory in KiB: all pages, and with shared pages split among their users."""

    rss_kib: int
    pss_kib: int


def tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    pids = [pid]
    for each in pids:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            pids.extend(int(child) for child in task.read_text().split())
    return pids


def cpu_seconds(pid: int) -> float:
    """CPU time spent so far by a process and its living descendants."""
    return sum(time.clock_gettime((~each << 3) | _CPU_CLOCK) for each in tree(pid))


def memory(pid: int) -> Memory:
    """Resident memory of a process and its living descendants."""
    rss = pss = 0
    for each in tree(pid):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # It has ended since it was listed, or ended before and nobody has asked how.
        for line in lines:
            name, _, rest = line.partition(":")
            if name == "Rss":
                rss += int(rest.split()[0])
            elif name == "Pss":
                pss += int(rest.split()[0])
    return Memory(rss, pss)


def peak_memory_kib(pid: int) -> int:
    """The most memory that a process and its living descendants have held, each at its time."""
    return sum(
        int(line.split()[1])
        for each in tree(pid)
        for line in Path(f"/proc/{each}/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )


def descriptors(pid: int) -> int:
    """Open files and sockets of a process and its living descendants."""
    return sum(len(os.listdir(f"/proc/{each}/fd")) for each in tree(pid))


def warm_memory(size: int) -> None:
    """Touch and free `size` bytes, so that the page cache grows into memory that is there."""
    with mmap.mmap(-1, size) as pages:
        for at in range(0, size, _PAGE):
            pages[at] = 1


@contextmanager
def awake(wanted: bool = True) -> Iterator[None]:
    """Keep every core from halting; the spinners give way to anything else that wants to run."""
    count = (os.cpu_count() or 1) if wanted and hasattr(os, "SCHED_IDLE") else 0
    spinners = [subprocess.Popen([sys.executable, "-S", "-c", _SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
        for spinner in spinners:
            spinner.wait()


def progress(text: str) -> None:
    """Say on stderr what a long run is doing."""
    print(text, file=sys.stderr, flush=True)
