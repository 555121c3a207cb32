"""What judges the runs that operate a cluster, and how its processes end with a run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confluent_kafka import TopicPartition
from tests.chaos.operated_load import Verdict
from tests.failover.groups import OffsetsWatch

from barnabas.node.local_cluster import free_ports

ROOT = Path(__file__).resolve().parents[2]


def a_watch(committed: dict[int, int], acknowledged: dict[int, int]) -> OffsetsWatch:
    """Asked, with these answers."""
    member: Any = SimpleNamespace(acknowledged=acknowledged)
    watch = OffsetsWatch("127.0.0.1:1", "group", "topic", [member])

    def answer(places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        for place in places:
            place.offset = committed.get(place.partition, -1001)
        return places

    consumer: Any = SimpleNamespace(committed=answer)
    watch._consumer = consumer
    return watch


def test_an_offset_that_was_acknowledged_and_never_found_is_lost() -> None:
    watch = a_watch({0: 5}, {0: 6})
    assert watch.ask()
    assert watch.problems == ["partition 0: 5 after 6"]


def test_offsets_that_go_on_are_not_lost() -> None:
    committed, acknowledged = {0: 5}, {0: 5, 1: 0}
    watch = a_watch(committed, acknowledged)
    committed[1] = 1
    watch.ask()
    committed[0] = 7
    watch.ask()
    assert watch.problems == []
    committed[0] = 6
    watch.ask()
    assert watch.problems == ["partition 0: 6 after 7"]


def test_writers_that_had_to_wait_for_too_long_are_told() -> None:
    verdict = Verdict(1, [], 0, 0, 1, [], 1, 0)
    assert verdict.is_good
    verdict.late.append("roll 1: 3.50 s without an acknowledged write")
    assert not verdict.is_good
    assert any("3.50 s" in line for line in verdict.lines())


_STARTER = """
import sys, time
from tests.failover.foreground import started
with started("up", "--memory", "--port", sys.argv[1]) as foreground:
    foreground.wait_for("ready")
    print(foreground.process.pid, flush=True)
    time.sleep(60)
"""


def test_a_command_does_not_outlive_the_run_that_started_it() -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", _STARTER, str(free_ports(1)[0])],
        stdout=subprocess.PIPE, cwd=ROOT, text=True,
    )  # fmt: skip
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    deadline = time.monotonic() + 20
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """A zombie, for whom nobody waits here, runs no more."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
