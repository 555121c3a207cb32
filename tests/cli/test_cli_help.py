"""Help that teaches, completion, and what happens to mistyped commands."""

import re
import subprocess
import sys

import pytest
import typer.main
from tests.cli.conftest import COMMAND, Run, environment
from typer.testing import CliRunner

from barnabas import __version__
from barnabas.cli import quick
from barnabas.cli.app import app

RUNNER = CliRunner()


def commands() -> list[tuple[str, ...]]:
    """Every command, groups and their members."""
    found: list[tuple[str, ...]] = [()]
    root = typer.main.get_command(app)
    for name, command in getattr(root, "commands").items():  # noqa: B009 - typer's own click
        found.append((name,))
        found += [(name, below) for below in getattr(command, "commands", {})]
    return found


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_has_help(command: tuple[str, ...]) -> None:
    done = RUNNER.invoke(app, [*command, "--help"], prog_name="barnabas")
    assert done.exit_code == 0
    assert done.output.startswith(f"Usage: {' '.join(('barnabas', *command))}")
    assert "--help" in done.output


@pytest.mark.parametrize(
    "command",
    ["up", "broker", "produce", "consume", "doctor", "topic create", "topic list",
     "topic describe", "topic alter", "topic delete", "log dump", "log verify", "bench all",
     "verify", "zookeeper",
     "cluster status", "cluster balance", "cluster drain", "cluster roll", "events",
     "group list", "group describe", "group reset", "group delete",
     "txn list", "txn describe", "txn abort"],
)  # fmt: skip
def test_help_teaches_with_examples(command: str) -> None:
    output = RUNNER.invoke(app, [*command.split(), "--help"]).output
    assert "Examples:" in output
    assert f"  barnabas {command}" in output


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_no_example_has_backticks_that_the_shell_would_run(command: tuple[str, ...]) -> None:
    output = RUNNER.invoke(app, [*command, "--help"]).output
    quoted = re.findall(r'"[^"]*"', output.partition("Examples:")[2])
    assert not [text for text in quoted if "`" in text]


@pytest.mark.parametrize("group", [(), ("topic",), ("bench",)], ids=" ".join)
def test_a_list_of_commands_tells_whole_sentences(group: tuple[str, ...]) -> None:
    output = RUNNER.invoke(app, [*group, "--help"]).output
    assert "..." not in output.partition("Commands:")[2]


def test_the_first_help_says_how_to_begin() -> None:
    assert "Start with `barnabas up`" in RUNNER.invoke(app, ["--help"]).output


def test_the_version_is_told(run: Run) -> None:
    assert run("--version").stdout == f"barnabas {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["fly"], "fly"),
        (["up", "--wings"], "--wings"),
        (["up", "--port", "many"], "--port"),
        (["broker"], "--config"),
        (["topic", "create"], "TOPIC"),
        (["consume", "t", "--max", "0"], "--max"),
        (["produce", "t", "--acks", "2"], "--acks"),
        (["topic", "alter", "t"], "--partitions"),
        (["topic", "create", "t", "--config", "nonsense"], "key=value"),
        (["produce", "t", "--key", "k", "--key-separator", ":"], "--key-separator"),
        (["consume", "t", "--json", "--format", "{key}"], "--format"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_named(arguments: list[str], problem: str) -> None:
    done = RUNNER.invoke(app, arguments)
    assert done.exit_code == 2
    assert problem in done.output


def test_wrong_usage_of_a_real_process(process: Run) -> None:
    done = process("up", "--wings")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--wings" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_short_road_knows_the_same_flags_as_help() -> None:
    root = typer.main.get_command(app)
    for command, flags in quick.FLAGS.items():
        options = getattr(root, "commands")[command].params  # noqa: B009 - typer's own click
        known = {flag for option in options for flag in option.opts} - {"-h", "--help"}
        assert known == set(flags)


def test_words_are_completed() -> None:
    asked = environment(
        _BARNABAS_COMPLETE="complete_bash", COMP_WORDS="barnabas topic de", COMP_CWORD="2"
    )
    done = subprocess.run(
        [sys.executable, "-c", "from barnabas.cli.main import main; main()"],
        env=asked, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["describe", "delete"], done


def test_completion_can_be_installed() -> None:
    done = subprocess.run(
        [*COMMAND, "--help"], env=environment(), capture_output=True, text=True, check=True
    )
    assert "--install-completion" in done.stdout
    assert "--show-completion" in done.stdout
