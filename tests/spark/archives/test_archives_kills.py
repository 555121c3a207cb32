"""Drivers that are killed: an archive and a replay end as if nothing had been."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.spark.archives.archives_world import PARTITIONS, in_files, in_topic, write
from tests.spark.source_read.reading_world import new_topic

from barnabas.spark.archives.archiving import Asked
from barnabas.spark.archives.contents import Contents
from barnabas.spark.archives.jobs import archive_job, replay_job, run
from barnabas.spark.archives.layout import ArchiveError
from barnabas.spark.archives.replay_plan import read_plan
from barnabas.spark.archives.replaying import Replaying, prepare
from barnabas.spark.driver import Job
from barnabas.spark.tables.snapshot import TableError

WAIT_S = 300.0
pytestmark = [pytest.mark.timeout(4 * WAIT_S), pytest.mark.slow]


class Supervised:
    """A job in a thread, whose driver can be killed."""

    def __init__(self, job: Job) -> None:
        self._words = (job.file, *job.arguments)
        self.told: list[str] = []
        self.codes: list[int] = []
        self._thread = threading.Thread(target=self._run, args=(job,))
        self._thread.start()

    def _run(self, job: Job) -> None:
        self.codes.append(run(job, restarts=-1, tell=self.told.append))

    def signal(self, number: int) -> None:
        """To the driver of the moment."""
        wait_for(lambda: self._pid() is not None)
        os.kill(self._pid() or 0, number)

    def _pid(self) -> int | None:
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = Path("/proc", name, "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if tuple(words[3 : 3 + len(self._words)]) == self._words:
                return int(name)
        return None

    def end(self) -> int:
        self._thread.join(WAIT_S)
        return self.codes[0]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def records_in(folder: str) -> int:
    try:
        return Contents(folder).records
    except (ArchiveError, TableError):
        return 0


def test_killed_drivers_lose_and_double_nothing(servers: str, tmp_path: Path) -> None:
    topic = new_topic(servers, PARTITIONS)
    write(servers, topic, range(3_000))
    folder = str(tmp_path / "a")
    # Small batches, so that there is always one at work.
    asked = Asked(topic, folder, servers, every_ms=0, target_size=2_000)
    job = archive_job(asked, as_json=False, master="local[2]", settings={})
    archiving = Supervised(job)
    for wanted in (400, 1_200):
        wait_for(lambda wanted=wanted: records_in(folder) >= wanted)  # type: ignore[misc]
        archiving.signal(signal.SIGKILL)
        write(servers, topic, range(3_000 + wanted, 3_400 + wanted))
    wait_for(lambda: records_in(folder) >= 3_800)
    archiving.signal(signal.SIGTERM)
    assert archiving.end() == 0
    assert [line.partition(";")[0] for line in archiving.told] == [
        "The driver ended with exit code 137"
    ] * 2
    rows = in_topic(servers, topic)
    assert in_files(Contents(folder)) == rows

    target = new_topic(servers, PARTITIONS)
    replay = Replaying(folder, target, servers, chunk_bytes=15_000)
    plan, _ = prepare(replay)
    assert len(plan.chunks) > 8
    job = replay_job(replay, plan.id, as_json=False, master="local[2]", settings={})
    replaying = Supervised(job)
    wait_for(lambda: _done(folder, plan.id) >= 2)
    replaying.signal(signal.SIGKILL)
    assert replaying.end() == 0
    assert [row[3:] for row in in_topic(servers, target)] == [row[3:] for row in rows]


def _done(folder: str, identity: str) -> int:
    plan = read_plan(folder, identity)
    assert plan is not None
    return plan.done
