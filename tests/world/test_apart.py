"""Long jobs apart from everything else: in a process of its own, or on a thread."""

import asyncio
import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from barnabas.ports.work import JobCancelledError, JobDiedError
from barnabas.world.work import ThreadWork

DEADLINE_S = 60
JOBS = """
import os, threading, time

def pid(caller):
    return os.getpid()

def niceness(caller):
    return os.nice(0)

def descriptors(caller):
    return len(os.listdir("/proc/self/fd"))

def tells(caller):
    print("noise that must not come between the answers", flush=True)
    for number in range(3):
        caller.tell(number)
    return "done"

def full_disk(caller):
    raise OSError(28, "no space")

class Unwilling(Exception):
    def __init__(self, one, two):
        super().__init__("unwilling")

def unwilling(caller):
    raise Unwilling(1, 2)

def dies(caller):
    os._exit(7)

def goes_on(caller):
    caller.tell(os.getpid())
    while True:
        caller.check()
        time.sleep(0.01)
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Functions that the other process can import as well."""
    (tmp_path / "apart_jobs.py").write_text(JOBS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "apart_jobs", raising=False)
    import apart_jobs  # type: ignore[import-not-found]

    return apart_jobs  # type: ignore[no-any-return]


def ignore(part: object) -> None:
    """Nothing is expected to be told."""


def within(scene: Callable[[ThreadWork], Coroutine[Any, Any, None]], *, processes: bool) -> None:
    async def main() -> None:
        work = ThreadWork(processes=processes)
        try:
            await asyncio.wait_for(scene(work), DEADLINE_S)
        finally:
            work.close()

    asyncio.run(main())


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    # One that nobody has asked for its exit code yet is as good as gone.
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("processes", [True, False])
def test_a_job_tells_and_answers(jobs: ModuleType, processes: bool) -> None:
    async def scene(work: ThreadWork) -> None:
        told: list[object] = []
        assert await work.run_apart(jobs.tells, told.append) == "done"
        await asyncio.sleep(0)
        assert told == [0, 1, 2]
        pid = await work.run_apart(jobs.pid, ignore)
        assert (pid == os.getpid()) is not processes

    within(scene, processes=processes)


def test_the_process_is_kept_for_the_next_job_and_comes_after_everybody_else(
    jobs: ModuleType,
) -> None:
    async def scene(work: ThreadWork) -> None:
        first = await work.run_apart(jobs.pid, ignore)
        assert await work.run_apart(jobs.pid, ignore) == first
        assert await work.run_apart(jobs.niceness, ignore) >= min(os.nice(0) + 10, 19)
        work.close()
        assert not is_alive(first)

    within(scene, processes=True)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc here")
def test_the_process_inherits_no_descriptor(jobs: ModuleType) -> None:
    async def scene(work: ThreadWork) -> None:
        with socket.socket() as mine:
            mine.set_inheritable(True)
            others = [os.dup(mine.fileno()) for _ in range(20)]
            for descriptor in others:
                os.set_inheritable(descriptor, True)
            count = await work.run_apart(jobs.descriptors, ignore)
            for descriptor in others:
                os.close(descriptor)
        assert count < 10

    within(scene, processes=True)


def test_errors_travel(jobs: ModuleType) -> None:
    async def scene(work: ThreadWork) -> None:
        with pytest.raises(OSError, match="no space") as caught:
            await work.run_apart(jobs.full_disk, ignore)
        assert caught.value.errno == 28
        with pytest.raises(JobDiedError, match="Unwilling: unwilling"):
            await work.run_apart(jobs.unwilling, ignore)
        with pytest.raises(JobDiedError, match="ended with 7"):
            await work.run_apart(jobs.dies, ignore)
        assert await work.run_apart(jobs.tells, ignore) == "done"

    within(scene, processes=True)


@pytest.mark.parametrize("processes", [True, False])
def test_a_job_is_stopped(jobs: ModuleType, processes: bool) -> None:
    async def scene(work: ThreadWork) -> None:
        begun: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        job = work.run_apart(jobs.goes_on, begun.set_result)
        pid = await begun
        await work.stop_apart()
        with pytest.raises(JobCancelledError):
            await job
        assert processes is not is_alive(pid)
        assert await work.run_apart(jobs.tells, ignore) == "done"

    within(scene, processes=processes)


def test_the_process_does_not_outlive_a_killed_parent(jobs: ModuleType, tmp_path: Path) -> None:
    parent = textwrap.dedent(
        f"""
        import asyncio, os, sys
        sys.path.insert(0, {str(tmp_path)!r})
        import apart_jobs
        from barnabas.world.work import ThreadWork

        def told(pid):
            print(pid, flush=True)
            os.kill(os.getpid(), 9)

        async def main():
            await ThreadWork().run_apart(apart_jobs.goes_on, told)

        asyncio.run(main())
        """
    )
    ran = subprocess.run(
        [sys.executable, "-c", parent], capture_output=True, timeout=DEADLINE_S, check=False
    )
    assert ran.returncode == -9
    pid = int(ran.stdout)
    deadline = time.monotonic() + DEADLINE_S
    while is_alive(pid):
        assert time.monotonic() < deadline, "the process goes on"
        time.sleep(0.02)


def test_a_job_right_after_a_cancelled_one_gets_a_process_of_its_own(jobs: ModuleType) -> None:
    async def scene(work: ThreadWork) -> None:
        for _ in range(5):
            first = await work.run_apart(jobs.pid, ignore)
            await work.stop_apart()
            assert await work.run_apart(jobs.pid, ignore) != first

    within(scene, processes=True)
