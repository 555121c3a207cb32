"""`barnabas config`, against a real broker."""

import json
from collections.abc import Callable

import pytest
from tests.cli.conftest import Run
from tests.cli.test_cli_topic import refused

from barnabas.cli.config_asks import Resource
from barnabas.model.errors import BarnabasError

Ok = Callable[..., str]


def settings(ok: Ok, *arguments: str) -> dict[str, tuple[str, str]]:
    rows = json.loads(ok("config", "describe", *arguments, "--json"))
    return {row["name"]: (row["value"], row["set_by"]) for row in rows}


def test_settings_of_a_topic(ok: Ok, topic: str) -> None:
    whose = f"topic:{topic}"
    assert settings(ok, whose) == {}
    changed = ok("config", "set", whose, "retention.ms=1000", "cleanup.policy=compact,delete")
    assert changed == f"Changed topic {topic}.\n"
    assert settings(ok, whose) == {
        "cleanup.policy": ("compact,delete", "topic"),
        "retention.ms": ("1000", "topic"),
    }
    assert settings(ok, whose, "flush.messages") == {
        "flush.messages": ("9223372036854775807", "default")
    }
    assert len(settings(ok, whose, "--all")) > 20
    assert "retention.ms    1000            topic   now" in ok("config", "describe", whose)
    ok("config", "unset", whose, "retention.ms")
    assert list(settings(ok, whose)) == ["cleanup.policy"]


def test_settings_of_brokers(ok: Ok, topic: str) -> None:
    try:
        ok("config", "set", "brokers", "log.segment.bytes=2000000", "compression.type=zstd")
        ok("config", "set", "broker:0", "compression.type=lz4")
        assert settings(ok, "brokers") == {
            "compression.type": ("zstd", "all brokers"),
            "log.segment.bytes": ("2000000", "all brokers"),
        }
        own = settings(ok, "broker:0")
        assert own["compression.type"] == ("lz4", "broker")
        assert own["log.segment.bytes"] == ("2000000", "all brokers")
        assert own["listeners"][1] == "start of the broker"
        assert settings(ok, f"topic:{topic}")["compression.type"] == ("lz4", "broker")
        assert "at a restart" in ok("config", "describe", "broker:0", "listeners")
    finally:
        ok("config", "unset", "brokers", "log.segment.bytes", "compression.type")
        ok("config", "unset", "broker:0", "compression.type")
    assert settings(ok, "brokers") == {}


def test_what_was_not_set_is_not_changed(ok: Ok, run: Run, topic: str) -> None:
    whose = f"topic:{topic}"
    assert ok("config", "unset", whose, "retention.ms") == (
        f"retention.ms of topic {topic} was not set.\n"
    )
    ok("config", "set", whose, "retention.ms=1000")
    assert ok("config", "unset", whose, "retention.ms", "flush.ms") == (
        f"Changed topic {topic}.\nflush.ms of topic {topic} was not set.\n"
    )
    # It is set, but not for every broker.
    ok("config", "set", "broker:0", "compression.type=lz4")
    try:
        assert ok("config", "unset", "brokers", "compression.type") == (
            "compression.type of all brokers was not set.\n"
        )
        assert settings(ok, "broker:0", "compression.type")["compression.type"][0] == "lz4"
    finally:
        assert ok("config", "unset", "broker:0", "compression.type") == "Changed broker 0.\n"
    for arguments, words in [
        ((whose, "retnetion.ms"), f"There is no setting retnetion.ms of topic {topic}"),
        (("broker:0", "no.such"), "There is no setting no.such of broker 0"),
        (("brokers", "no.such"), "`barnabas config describe broker:0 --all` shows"),
        (("broker:0", "listeners"), "listeners of broker 0 can only be changed at a restart"),
        (("brokers", "listeners"), "listeners of all brokers can only be changed at a restart"),
        (("topic:nothing", "retention.ms"), "There is no topic nothing"),
    ]:
        assert words in refused(run, "config", "unset", *arguments)


def test_keys_of_all_brokers_that_are_not_set_and_that_do_not_exist(ok: Ok, run: Run) -> None:
    assert settings(ok, "brokers", "log.retention.ms") == {}
    assert "There is no setting log.retentoin.ms of all brokers" in refused(
        run, "config", "describe", "brokers", "log.retentoin.ms"
    )


def test_a_check_changes_nothing(ok: Ok, run: Run, topic: str) -> None:
    said = ok("config", "set", f"topic:{topic}", "retention.ms=1000", "--check")
    assert said == f"The settings of topic {topic} can be changed so.\n"
    assert settings(ok, f"topic:{topic}") == {}
    assert "Not a number" in refused(
        run, "config", "set", "brokers", "log.retention.ms=x", "--check"
    )


def test_refusals_are_one_sentence_and_change_nothing(ok: Ok, run: Run, topic: str) -> None:
    whose = f"topic:{topic}"
    for arguments, words in [
        (("set", "brokers", "listeners=x"), "Cannot update these configs dynamically: [listeners]"),
        (("set", "brokers", "no.such=1"), "Unknown broker config name: no.such"),
        (("set", whose, "retention.ms=5", "no.such=1"), "Unknown topic config name: no.such"),
        (("set", whose, "retention.ms=soon"), "Not a number"),
        (("set", "topic:nothing", "retention.ms=5"), "There is no topic nothing"),
        (("set", "broker:9", "max.connections=5"), "There is no broker 9: the cluster has 0."),
        (("set", "orders", "retention.ms=5"), "write topic:NAME, broker:ID or brokers"),
        (("describe", whose, "no.such"), "There is no setting no.such of topic"),
        (("describe", "topic:nothing"), "There is no topic nothing"),
    ]:
        assert words in refused(run, "config", *arguments)
    assert run("config", "set", whose, "retention.ms").returncode == 2
    assert settings(ok, whose) == {}


@pytest.mark.parametrize("text", ["", "topic", "topic:", "broker:", "broker:x", "brokers:1", "x:y"])
def test_whatever_else_names_nothing(text: str) -> None:
    with pytest.raises(BarnabasError, match="names nothing that has settings"):
        Resource.parsed(text)
