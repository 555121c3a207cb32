"""Brokers in the foreground: ready, stopped by signals, refused with a sentence."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import COMMAND, WAIT_S, Run, environment

from barnabas.testing import Broker

READY = re.compile(r"Barnabas .* is ready at 127\.0\.0\.1:(\d+); ")


@contextmanager
def running(*arguments: str, **more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A broker process and its line, once it is ready."""
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**more),
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


def port_of(line: str) -> str:
    found = READY.match(line)
    assert found is not None, line
    return found[1]


def test_sigterm_stops_it_with_0_and_the_topics_stay(run: Run, empty: Path) -> None:
    with running("up", "--data", str(empty), "--port", "0") as (process, line):
        assert str(empty) in line
        bootstrap = f"127.0.0.1:{port_of(line)}"
        assert run("topic", "create", "t", "-b", bootstrap).stdout == "Created t.\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
    with running("up", "--data", str(empty), "--port", "0") as (_, line):
        found = run("topic", "list", "--json", "-b", f"127.0.0.1:{port_of(line)}").stdout
        assert '"name": "t"' in found


def test_ctrl_c_stops_it_with_0_and_without_a_word(empty: Path) -> None:
    with running("up", "--data", str(empty), "--port", "0") as (process, line):
        assert port_of(line)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0
        assert "Traceback" not in said


def test_a_broker_in_memory_leaves_nothing_on_disk(tmp_path: Path) -> None:
    with running("up", "--memory", "--port", "0", "--data", str(tmp_path / "d")) as (_, line):
        assert "memory" in line
        assert list(tmp_path.iterdir()) == []


def test_a_broker_from_a_file_with_environment_and_flags(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "barnabas.toml"
    file.write_text(
        f'listeners = "PLAINTEXT://127.0.0.1:0"\nlog.dirs = "{tmp_path / "data"}"\n'
        "num.partitions = 2\n[log.segment]\nbytes = 2000000\n"
    )
    with running(
        "broker", "--config", str(file), "--set", "log.segment.bytes=3000000",
        BARNABAS_NUM_PARTITIONS="5",
    ) as (_, line):  # fmt: skip
        bootstrap = f"127.0.0.1:{port_of(line)}"
        run("topic", "create", "t", "-b", bootstrap)
        described = run("topic", "describe", "t", "-b", bootstrap).stdout
    assert "5 partitions" in described
    assert re.search(r"segment\.bytes +3000000 +STATIC_BROKER_CONFIG", described)


def refused(process: Run, *arguments: str, **more: str) -> str:
    done = process(*arguments, **more)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert done.stderr.startswith("barnabas: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_port_that_is_taken(process: Run, broker: Broker) -> None:
    assert "in use" in refused(process, "up", "--memory", "--port", str(broker.port))


def test_a_directory_that_is_in_use(process: Run, broker: Broker) -> None:
    assert "another broker" in refused(process, "up", "--data", broker.data, "--port", "0")


def test_a_data_directory_that_is_a_file(process: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "file" in refused(process, "up", "--data", str(tmp_path / "file"), "--port", "0")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["up", "--set", "num.partition=1"], "did you mean num.partitions"),
        (["up", "--set", "log.retention.hours=soon"], "log.retention.hours"),
        (["up", "--host", "0.0.0.0"], "allow.insecure"),
        (["broker", "--config", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_a_configuration_that_makes_no_sense(
    process: Run, arguments: list[str], problem: str
) -> None:
    assert problem in refused(process, *arguments)


def test_a_wrong_variable_is_named(process: Run) -> None:
    assert "environment" in refused(process, "up", "--port", "0", BARNABAS_NUM_PARTITIONS="0")
