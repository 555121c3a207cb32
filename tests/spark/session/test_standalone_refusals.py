"""What a standalone cluster says before it starts anything; tests/cli runs a real one."""

import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from barnabas.spark.errors import SparkJobError
from barnabas.spark.standalone import Daemon, StandaloneCluster, Worker


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"workers": 0}, "1 to 200 workers"),
        ({"cores": 0}, "at least one core"),
        ({"memory": "lots"}, "lots is no amount of memory: write it as 512m or 2g"),
        ({"host": "::1"}, "::1 is an IPv6 address: use an IPv4 one"),
        ({"host": "192.0.2.1"}, r"192\.0\.2\.1 is no address of this machine"),
    ],
)
def test_wrong_sizes_and_places(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(SparkJobError, match=said):
        StandaloneCluster(**wrong).start()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for flag, ports in (
            ("--port", {"port": port}),
            ("--ui-port", {"port": 0, "ui_port": port}),
        ):
            with pytest.raises(SparkJobError, match=f"Port {port} of 127.0.0.1 is in use.*{flag}"):
                StandaloneCluster(directory=tmp_path / "never", **ports).start()
    assert not (tmp_path / "never").exists()


def test_java_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkJobError, match="JAVA_HOME"):
        StandaloneCluster(port=0).start()


def test_a_master_that_ends_at_once_is_told_with_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "spark-class"
    program.write_text(
        "#!/bin/sh\n"
        "case $1 in *Worker) exec sleep 600 ;; esac\n"
        "echo started\necho 'ERROR Master: no room' >&2\necho bye\nexit 3\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(home))
    log = tmp_path / "run" / "master.log"
    with pytest.raises(SparkJobError, match=f"master has ended .*no room.*: its log is {log}"):
        StandaloneCluster(port=0, directory=tmp_path / "run").start()


def test_a_master_that_is_slow_to_answer_is_asked_again(tmp_path: Path) -> None:
    """As on a machine that has too much to do, when a worker has just died."""

    def waiting() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(["sleep", "600"], start_new_session=True)

    with socket.create_server(("127.0.0.1", 0)) as gone:
        nobody = gone.getsockname()[1]
    cluster = StandaloneCluster(1, ui_port=nobody, directory=tmp_path)
    log = tmp_path / "log"
    worker = Worker("worker-1", "127.0.0.1", 1, log, waiting(), number=1, is_missing=True)
    cluster.master = Daemon("master", "127.0.0.1", 1, log, waiting())
    cluster.workers = [worker]
    try:
        assert cluster.tend() == []
        assert worker.is_missing
    finally:
        cluster.stop()
