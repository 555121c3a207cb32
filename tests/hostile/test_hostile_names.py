"""Names that are paths, counts that are absurd: refused by name, and nothing on the disk."""

import os
from pathlib import Path

import pytest
from tests.chaos import talk
from tests.chaos.broker_process import BrokerProcess

_NAMES = [
    "", ".", "..", "../x", "a/b", "/etc/passwd", "..\\x", "a" * 250, "a" * 30_000, "nul\0nul",
    "new\nline", "sp ace", "émile", "a:b", "~", "$HOME", "*", "x/../../y", "\u202e", "a-0/",
]  # fmt: skip


def _everything(root: Path) -> set[str]:
    return {os.path.join(here, name) for here, _, names in os.walk(root) for name in names}


def _folders(broker: BrokerProcess) -> set[str]:
    return {entry.name for entry in (broker.home / "data").iterdir() if entry.is_dir()}


@pytest.mark.parametrize("name", _NAMES, ids=ascii)
def test_names_that_no_topic_can_have(broker: BrokerProcess, name: str) -> None:
    before, around = _folders(broker), _everything(broker.home.parent)
    place = name, 0
    with broker.link() as link:
        with pytest.raises(talk.RefusedError, match="INVALID_TOPIC_EXCEPTION"):
            talk.create_topic(link, name)
        asked = talk.ask(link, talk.METADATA, {
            "topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": True,
        })  # fmt: skip
        assert asked["topics"][0]["error_code"] == "INVALID_TOPIC_EXCEPTION"
        for attempt in (
            lambda: talk.produce(link, place, talk.batch_of(b"x")),
            lambda: talk.fetch(link, place, 0),
            lambda: talk.offset_of(link, place, -1),
            lambda: talk.delete_topic(link, name),
            lambda: talk.set_config(link, name, "retention.ms", "1"),
            lambda: talk.config_of(link, name, "retention.ms"),
        ):
            with pytest.raises(talk.RefusedError):
                attempt()
    assert _folders(broker) == before
    assert _everything(broker.home.parent) == around


@pytest.mark.parametrize("count", [0, -2, 10_001, 2**31 - 1, -(2**31)])
def test_partitions_beyond_all_reason(broker: BrokerProcess, count: int) -> None:
    before = _folders(broker)
    with broker.link() as link:
        with pytest.raises(talk.RefusedError, match="INVALID_PARTITIONS"):
            talk.create_topic(link, f"many{count}", count)
        assert f"many{count}" not in talk.topics(link)
    assert _folders(broker) == before


@pytest.mark.parametrize("index", [-1, 1, 2**31 - 1, -(2**31)])
def test_partitions_there_are_not(broker: BrokerProcess, index: int) -> None:
    place = "target", index
    with broker.link() as link:
        for attempt in (
            lambda: talk.produce(link, place, talk.batch_of(b"x")),
            lambda: talk.fetch(link, place, 0),
            lambda: talk.offset_of(link, place, -1),
        ):
            with pytest.raises(talk.RefusedError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                attempt()


@pytest.mark.parametrize("offset", [-1, -(2**63), 2**63 - 1, 2**40])
def test_offsets_there_are_not(broker: BrokerProcess, offset: int) -> None:
    with broker.link() as link, pytest.raises(talk.RefusedError, match="OFFSET_OUT_OF_RANGE"):
        talk.fetch(link, ("target", 0), offset)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("retention.ms", "x"), ("retention.ms", "9" * 400), ("retention.ms", ""),
        ("segment.bytes", "-1"), ("cleanup.policy", "burn"), ("no.such.key", "1"),
        ("compression.type", "\0"), ("max.message.bytes", "1e9"), ("flush.ms", "nan"),
    ],
)  # fmt: skip
def test_configs_that_mean_nothing(broker: BrokerProcess, key: str, value: str) -> None:
    with broker.link() as link:
        before = talk.config_of(link, "target", "retention.ms")
        with pytest.raises(talk.RefusedError, match=r"INVALID_CONFIG|INVALID_REQUEST"):
            talk.set_config(link, "target", key, value)
        assert talk.config_of(link, "target", "retention.ms") == before
