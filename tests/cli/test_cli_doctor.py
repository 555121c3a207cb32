"""`barnabas doctor`, `bench` and the demonstration."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import WAIT_S, Run, environment

from barnabas.testing import Broker

Ok = Callable[..., str]


def verdicts(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, str]]:
    return {each["check"]: (each["verdict"], each["found"]) for each in json.loads(done.stdout)}


def test_a_healthy_broker(run: Run, broker: Broker) -> None:
    done = run("doctor", "--probe", "--data", broker.data, "--json")
    assert done.returncode == 0, done
    found = verdicts(done)
    assert found["broker"][0] == found["advertised address"][0] == found["probe"][0] == "ok"
    assert "running" in found["lock"][1]
    assert "barnabas-doctor" not in run("topic", "list").stdout


def test_nobody_there_and_a_place_that_can_not_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("doctor", "--bootstrap", "127.0.0.1:1", "--data", str(tmp_path / "file"), "--json")
    assert done.returncode == 1
    found = verdicts(done)
    assert found["broker"][0] == found["data directory"][0] == "problem"


def test_an_advertised_address_that_leads_nowhere(run: Run) -> None:
    with Broker(config={"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}) as lost:
        done = run("doctor", "--bootstrap", lost.bootstrap_servers)
    assert done.returncode == 1
    assert "FAIL  advertised address" in done.stdout
    assert "advertised.listeners" in done.stdout


def test_a_port_where_something_else_listens(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            peer, _ = other.accept()
            with peer:
                peer.recv(1024)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        done = run("doctor", "--bootstrap", f"127.0.0.1:{other.getsockname()[1]}", "--json")
        answering.join()
    assert done.returncode == 1
    assert verdicts(done)["broker"][0] == "problem"


def test_a_benchmark_writes_what_it_prints(ok: Ok, run: Run, tmp_path: Path) -> None:
    done = run("bench", "startup", "--runs", "1", "--results", str(tmp_path / "results"))
    assert done.returncode == 0, done
    assert "ratio" in done.stdout
    assert (tmp_path / "results/startup.txt").read_text().strip() == done.stdout.strip()
    assert json.loads((tmp_path / "results/startup.json").read_text())["benchmark"] == "startup"


def test_the_demonstration_holds() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas.cli.demo"],
        env=environment(), capture_output=True, text=True, timeout=5 * WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done
    assert "no problems" in done.stdout
