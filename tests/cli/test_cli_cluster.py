"""`barnabas up --brokers`: several brokers in the foreground, which come back when they die."""

import ctypes
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.failover.foreground import READY, WAIT_S, running

from barnabas.cli.quick import Choices, parse
from barnabas.cli.serving import configuration
from barnabas.node.local_cluster import at_home, brokers_in, free_ports

_PR_SET_CHILD_SUBREAPER = 36


def is_alive(pid: int) -> bool:
    try:
        return state_of(pid) != "Z"
    except FileNotFoundError:
        return False


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def zookeepers_of(directory: Path) -> list[int]:
    """Processes that have the directory in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(directory / "zookeeper") in words and b"QuorumPeerMain" in words:
                found.append(int(entry.name))
    return found


def test_a_cluster_from_one_command_heals_and_stops_with_0(run: Run, empty: Path) -> None:
    port = free_ports(3)[0]
    with running("--brokers", "3", "--data", str(empty), "--port", str(port)) as foreground:
        bootstrap, pids = foreground.ready()
        assert bootstrap == ",".join(f"127.0.0.1:{port + each}" for each in range(3))
        assert str(empty) in foreground.wait_for(READY)[3]
        created = run("topic", "create", "t", "--config", "retention.ms=1000000", "-b", bootstrap)
        assert created.stdout == "Created t.\n"
        # The broker that is asked may hear of it a moment later than the one that made it.
        wait_until(lambda: run("topic", "describe", "t", "-b", bootstrap).returncode == 0)
        described = run("topic", "describe", "t", "--json", "-b", bootstrap).stdout
        assert re.search(r'"replicas": \[\d, \d, \d\]', " ".join(described.split())), described
        assert re.search(r"min\.insync\.replicas", described)
        assert run("topic", "create", "two", "--replicas", "2", "-b", bootstrap).returncode == 0
        wait_until(lambda: run("topic", "describe", "two", "-b", bootstrap).returncode == 0)
        described = run("topic", "describe", "two", "--json", "-b", bootstrap).stdout
        assert re.search(r'"replicas": \[\d, \d\]', " ".join(described.split())), described

        os.kill(pids[2], signal.SIGKILL)
        foreground.wait_for(r"Broker 2 was killed by SIGKILL; it is started again in 1 s\.")
        back = foreground.wait_for(r"Broker 2 is back at \S+, as process (\d+)\.")
        (zookeeper,) = zookeepers_of(empty)
        os.kill(zookeeper, signal.SIGKILL)
        foreground.wait_for(r"The ZooKeeper server at \S+ has ended; it is started again\.")
        wait_until(lambda: len(zookeepers_of(empty)) == 1)

        foreground.process.send_signal(signal.SIGINT)
        said = foreground.end()
        assert foreground.process.returncode == 0, said
        assert "Traceback" not in said
        assert not any(map(is_alive, [*pids.values(), int(back[1]), *zookeepers_of(empty)]))
    assert (empty / "broker-2" / ".kafka_cleanshutdown").exists()


@pytest.fixture
def orphans_come_here() -> Iterator[None]:
    """As in a container, whose first process is of our session: a group of processes that has lost
    its parent is none that the system would wake and end."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    yield
    prctl(_PR_SET_CHILD_SUBREAPER, 0)


@pytest.mark.usefixtures("orphans_come_here")
def test_nothing_outlives_the_command_and_more_brokers_may_come(process: Run, empty: Path) -> None:
    with running("--brokers", "2", "--data", str(empty), "--port", "0") as foreground:
        _, pids = foreground.ready()
        os.kill(pids[1], signal.SIGSTOP)  # Not even one that stands still.
        # The system ends those that stand still when they are orphaned, not those that will.
        wait_until(lambda: state_of(pids[1]) == "T")
        foreground.process.kill()
        foreground.process.wait()
        wait_until(lambda: not any(map(is_alive, pids.values())) and not zookeepers_of(empty))
    refused = process("up", "--brokers", "1", "--data", str(empty), "--port", "0")
    assert refused.returncode == 1
    assert "holds the data of 2 brokers: start them with --brokers 2" in refused.stderr
    with running("--brokers", "3", "--data", str(empty), "--port", "0") as foreground:
        foreground.ready()
        assert brokers_in(empty) == 3
        foreground.process.send_signal(signal.SIGTERM)
        foreground.wait_for("Stopping the brokers")
        foreground.process.send_signal(signal.SIGTERM)
        foreground.end()
        assert foreground.process.returncode in (0, 1)  # It may have been done already.
    fewer = process("up", "--brokers", "2", "--data", str(empty), "--port", "0")
    assert "start it with --brokers 3 or more" in fewer.stderr
    assert fewer.stderr.count("\n") == 1


def refused(process: Run, *arguments: str, **more: str) -> str:
    done = process("up", "--brokers", "3", *arguments, **more)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert done.stderr.startswith("barnabas: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_port_that_is_taken_is_named_with_its_broker(process: Run, empty: Path) -> None:
    first = free_ports(3)[0]
    with socket.create_server(("127.0.0.1", first + 1)):
        told = refused(process, "--data", str(empty), "--port", str(first))
    assert f"Broker 2 can not listen at 127.0.0.1:{first + 1}" in told


def test_the_data_of_a_single_broker_is_left_alone(process: Run, empty: Path) -> None:
    empty.mkdir()
    (empty / "meta.properties").write_text("version=1\n")
    assert "broker that is alone" in refused(process, "--data", str(empty), "--port", "0")


def test_without_java_it_says_so(process: Run, empty: Path, tmp_path: Path) -> None:
    told = refused(process, "--data", str(empty), "--port", "0", PATH=str(tmp_path), JAVA_HOME="")
    assert "Java" in told


@pytest.mark.parametrize("key", ["node.id=4", "zookeeper.connect=a:1"])
def test_what_can_not_be_the_same_for_all_is_refused(process: Run, empty: Path, key: str) -> None:
    assert key.partition("=")[0] in refused(process, "--data", str(empty), "--set", key)


def test_an_address_that_nobody_could_be_told_is_refused(process: Run, empty: Path) -> None:
    told = refused(
        process, "--data", str(empty), "--host", "0.0.0.0", "--set", "allow.insecure=true"
    )
    assert "advertised" in told


def test_ensemble_needs_brokers(process: Run) -> None:
    assert "--brokers" in process("up", "--ensemble", "3").stderr


def test_the_short_road_knows_the_flags() -> None:
    assert parse(["up", "--brokers", "3", "--ensemble=3"]) == Choices(brokers=3, ensemble=3)
    assert parse(["up", "--brokers", "0"]) is None
    assert parse(["up", "--brokers", "101"]) is None
    assert parse(["broker", "--config", "f", "--brokers", "3"]) is None


def test_replicas_follow_the_number_of_brokers() -> None:
    assert at_home(2)["default.replication.factor"] == "2"
    assert at_home(2)["min.insync.replicas"] == "1"
    assert at_home(5)["default.replication.factor"] == "3"
    assert at_home(5)["min.insync.replicas"] == "2"
    assert configuration(Choices(brokers=3, port=1), {}).listeners[0].port == 1
