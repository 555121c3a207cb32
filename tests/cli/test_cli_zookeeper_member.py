"""`barnabas zookeeper --server`: one server of an ensemble, as on machines of their own."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from tests.cli.conftest import COMMAND, WAIT_S, environment
from tests.cli.test_cli_zookeeper import refused, server_pids

from barnabas.model.errors import BarnabasError
from barnabas.world.zookeeper_member import read_peers
from barnabas.world.zookeeper_server import free_ports

Process = subprocess.Popen[str]


def test_three_machines_are_one_ensemble_that_survives_the_death_of_one(tmp_path: Path) -> None:
    ports = free_ports(9)
    peers = ",".join(f"127.0.0.1:{ports[at]}:{ports[at + 1]}" for at in (0, 2, 4))
    with ExitStack() as machines:

        def start(number: int) -> Process:
            folder = str(tmp_path / f"machine-{number}")
            return machines.enter_context(member(number, peers, ports[5 + number], folder))

        first = start(1)
        assert first.stderr is not None
        assert "waits until a majority is there" in first.stderr.readline()
        others = [start(2), start(3)]
        for process in (first, *others):
            assert process.stdout is not None
            assert re.match(r"ZooKeeper 3\.\S+ is ready at .*, server \d of 3;", read(process))
        client = KazooClient(",".join(f"127.0.0.1:{port}" for port in ports[6:]))
        client.start(WAIT_S)
        client.create("/kept", b"data")
        (victim,) = server_pids(tmp_path / "machine-2")
        os.kill(victim, signal.SIGKILL)
        _, said = others[0].communicate(timeout=WAIT_S)
        assert others[0].returncode == 1
        assert "has ended" in said
        assert client.retry(client.get, "/kept")[0] == b"data"
        assert "ready" in read(start(2))
        client.stop()
        client.close()
    folder = str(tmp_path / "machine-2")
    wrong = ("--server", "3", "--peers", peers, "--allow-insecure", "--data", folder)
    assert "the data of server 2 of 3 machines" in refused(*wrong)
    assert "the data of server 2 of 3 machines" in refused("--port", "0", "--data", folder)


def read(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@contextmanager
def member(number: int, peers: str, port: int, folder: str) -> Iterator[Process]:
    options = ["--server", str(number), "--peers", peers, "--port", str(port), "--data", folder]
    with subprocess.Popen(
        [*COMMAND, "zookeeper", *options, "--allow-insecure"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()


def test_what_is_missing_is_told_in_one_sentence(tmp_path: Path) -> None:
    three = ("--peers", "a,b,c", "--data", str(tmp_path))
    assert "--server and --peers, both" in refused(*three)
    assert "without --ensemble" in refused(*three, "--server", "1", "--ensemble", "3")
    assert "--allow-insecure" in refused(*three, "--server", "1")
    assert "servers 1 to 3" in refused(*three, "--server", "4", "--allow-insecure")


def test_peers_are_hosts_with_or_without_ports() -> None:
    assert read_peers("zk1, zk2:2000 ,[fe80::1]:2000:3000") == [
        "zk1:2888:3888",
        "zk2:2000:3888",
        "[fe80::1]:2000:3000",
    ]


@pytest.mark.parametrize(
    "words", ["", "a,b", "a,b,", "a,a,b", "a,b,c:0", "a,b,c:70000", "a,b,c:1:2:3", "a b,c,d"]
)
def test_peers_that_can_not_be(words: str) -> None:
    with pytest.raises(BarnabasError, match="--peers"):
        read_peers(words)


@pytest.fixture(autouse=True)
def _no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOOKEEPER_HOME", raising=False)
