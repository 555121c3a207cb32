"""The short road to a running broker, and the configuration that both roads make."""

import subprocess
import sys

import pytest
from tests.cli.conftest import environment

from barnabas.cli.quick import Choices, parse
from barnabas.cli.serving import configuration, ready_line
from barnabas.model.errors import BarnabasError


def test_plain_arguments_need_no_typer() -> None:
    assert parse(["up"]) == Choices()
    assert parse(
        ["up", "--data", "d", "--port=0", "--host", "::1", "--memory", "--set", "a=b", "--set=c=d",
         "--log-level", "debug"]
    ) == Choices(
        data="d", port=0, host="::1", memory=True, settings=["a=b", "c=d"], log_level="debug"
    )  # fmt: skip
    assert parse(["broker", "--config", "f"]) == Choices(config="f")


@pytest.mark.parametrize(
    "arguments",
    [
        ["up", "--help"], ["up", "-h"], ["up", "data"], ["up", "--port"], ["up", "--port", "x"],
        ["up", "--port", "65536"], ["up", "--port", "-1"], ["up", "--memory=yes"],
        ["up", "--config", "f"], ["up", "--log-level", "loud"], ["broker"],
        ["broker", "--data", "d"], ["up", "--dat", "d"],
    ],
)  # fmt: skip
def test_anything_doubtful_is_left_to_typer(arguments: list[str]) -> None:
    assert parse(arguments) is None


def test_starting_a_broker_imports_nothing_heavy() -> None:
    heavy = "{'typer', 'click', 'rich', 'confluent_kafka', 'hypothesis', 'pytest', 'kafka'}"
    program = (
        "import sys; from barnabas.cli.main import main; from barnabas.cli.quick import parse; "
        "parse(['up']); import barnabas.cli.serving; "
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n"


def test_flags_override_the_environment_which_overrides_nothing_said() -> None:
    said = {"BARNABAS_LISTENERS": "PLAINTEXT://127.0.0.1:5", "BARNABAS_NUM_PARTITIONS": "3"}
    assert configuration(Choices(), said).listeners[0].port == 5
    assert configuration(Choices(port=6), said).listeners[0].port == 6
    assert configuration(Choices(host="localhost"), said).listeners[0].port == 9092
    assert configuration(Choices(settings=["num.partitions=4"]), said).num_partitions == 4
    assert configuration(Choices(data="d"), said).log_dir == "d"


def test_variables_that_are_no_keys_are_passed_over() -> None:
    said = {"BARNABAS_PURE": "1", "BARNABAS_BOOTSTRAP": "x:1", "BARNABAS_TEST_CACHE": "y"}
    assert configuration(Choices(), said).num_partitions == 1


@pytest.mark.parametrize("setting", ["nonsense", "=1", "no.such.key=1", "num.partitions=many"])
def test_settings_that_make_no_sense_are_refused(setting: str) -> None:
    with pytest.raises(BarnabasError):
        configuration(Choices(settings=[setting]), {})


def test_the_ready_line_is_one_line_with_the_promise() -> None:
    config = configuration(Choices(data="d"), {})
    line = ready_line(config, ("127.0.0.1", 9092), memory=False)
    assert "\n" not in line
    assert "127.0.0.1:9092" in line
    assert "power cut" in line
    synced = configuration(Choices(settings=["log.flush.interval.messages=1"]), {})
    assert "synced" in ready_line(synced, ("::1", 1), memory=False)
    assert "[::1]:1" in ready_line(synced, ("::1", 1), memory=True)
    assert "memory" in ready_line(synced, ("::1", 1), memory=True)
