"""`barnabas zookeeper`: ready, stopped, killed, short of servers, and refused with a sentence."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from tests.cli.conftest import COMMAND, WAIT_S, Done, environment

READY = re.compile(
    r"ZooKeeper 3\.\S+ is ready at (\S+?)(?: with \d servers)?; Ctrl-C stops it\. Data is in .*\."
)


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, and where its one line says that clients connect."""
    with subprocess.Popen(
        [*COMMAND, "zookeeper", "--port", "0", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = READY.match(line)
            assert found is not None, line
            yield process, found[1]
        finally:
            process.terminate()


def refused(*arguments: str, **more: str) -> str:
    done: Done = subprocess.run(
        [*COMMAND, "zookeeper", *arguments],
        capture_output=True, text=True, timeout=WAIT_S, env=environment(**more), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, ""), done
    assert len(done.stderr.splitlines()) == 1, done
    return done.stderr


def server_pids(data: Path) -> list[int]:
    """The Java processes with this directory on their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if str(data).encode() in words and b"QuorumPeerMain" in words:
                found.append(int(folder.name))
    return sorted(found)


def until_no_server(data: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while server_pids(data):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_it_serves_is_stopped_by_ctrl_c_and_keeps_what_it_had(tmp_path: Path) -> None:
    with running("--data", str(tmp_path)) as (process, connect):
        client = KazooClient(connect)
        client.start(WAIT_S)
        client.create("/kept", b"data")
        client.stop()
        client.close()
        assert len(server_pids(tmp_path)) == 1
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=WAIT_S) == ("", "")
        assert process.returncode == 0
    assert server_pids(tmp_path) == []
    with running("--data", str(tmp_path)) as (_, connect):
        client = KazooClient(connect)
        client.start(WAIT_S)
        assert client.get("/kept")[0] == b"data"
        client.stop()
        client.close()


def test_an_ensemble_tells_of_a_death_and_ends_when_too_few_are_left(tmp_path: Path) -> None:
    with running("--data", str(tmp_path), "--ensemble", "3") as (process, connect):
        assert len(connect.split(",")) == 3
        pids = server_pids(tmp_path)
        assert len(pids) == 3
        os.kill(pids[0], signal.SIGKILL)
        assert process.stderr is not None
        said = process.stderr.readline()
        assert "has ended" in said
        assert "2 of 3 go on." in said
        assert process.poll() is None
        os.kill(pids[1], signal.SIGKILL)
        _, said = process.communicate(timeout=WAIT_S)
        assert process.returncode == 1
        assert len(said.splitlines()) == 1
        assert "has ended" in said
    assert server_pids(tmp_path) == []


def test_nothing_is_left_when_the_command_is_killed(tmp_path: Path) -> None:
    with running("--data", str(tmp_path)) as (process, _):
        assert len(server_pids(tmp_path)) == 1
        process.kill()
        process.wait(WAIT_S)
        until_no_server(tmp_path)


def test_what_is_in_the_way_is_told_in_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = refused("--port", port, "--data", str(tmp_path / "a"))
        assert "choose another port" in said
    assert "no java on PATH" in refused("--data", str(tmp_path / "b"), PATH=str(tmp_path))
    said = refused("--data", str(tmp_path / "c"), ZOOKEEPER_HOME=str(tmp_path))
    assert "no zookeeper-3.*.jar" in said
    (tmp_path / "file").write_text("")
    assert "can not use the directory" in refused("--data", str(tmp_path / "file"))
    assert "--allow-insecure" in refused("--host", "0.0.0.0", "--data", str(tmp_path / "d"))
    assert "do not fit" in refused("--port", "65535", "--ensemble", "3")


def test_a_directory_belongs_to_one_at_a_time_and_to_its_number(tmp_path: Path) -> None:
    with running("--data", str(tmp_path)):
        said = refused("--port", "0", "--data", str(tmp_path))
        assert "Another ZooKeeper uses" in said
    until_no_server(tmp_path)
    said = refused("--port", "0", "--data", str(tmp_path), "--ensemble", "3")
    assert "ensemble of 1, not of 3" in said


def test_wrong_usage() -> None:
    done = subprocess.run(
        [*COMMAND, "zookeeper", "--ensemble", "0"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--ensemble" in done.stderr


@pytest.fixture(autouse=True)
def _no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOOKEEPER_HOME", raising=False)
