"""DescribeConfigs: values, sources, synonyms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House

TOPIC, BROKER = 2, 4


def _describe(
    house: House, kind: int, name: str, keys: list[str] | None = None, **more: Any
) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    answer = house.ask("describe_configs", 4, resources=[resource], **more)
    (result,) = answer["results"]
    assert (result["resource_type"], result["resource_name"]) == (kind, name)
    return result


def test_a_topic_and_where_its_settings_come_from(house: House) -> None:
    house.topic("described", retention_ms="12345")
    keys = ["segment.bytes", "retention.ms", "no.such.key"]
    result = _describe(house, TOPIC, "described", keys, include_synonyms=True)
    configs = {each["name"]: each for each in result["configs"]}
    assert configs.keys() == {"segment.bytes", "retention.ms"}
    retention = configs["retention.ms"]
    assert (retention["value"], retention["config_source"]) == ("12345", 1)
    assert retention["config_type"] == 5
    assert retention["synonyms"][0] == {"name": "retention.ms", "value": "12345", "source": 1}
    segment = configs["segment.bytes"]
    assert (segment["value"], segment["config_source"]) == ("1073741824", 5)
    assert segment["synonyms"] == [
        {"name": "log.segment.bytes", "value": "1073741824", "source": 5}
    ]


@pytest.mark.parametrize("keys", [None, []])
def test_no_keys_means_all(house: House, keys: list[str] | None) -> None:
    house.topic("described")
    configs = _describe(house, TOPIC, "described", keys)["configs"]
    assert len(configs) == 33
    assert all(each["synonyms"] == [] for each in configs)
    assert all(each["documentation"] is None for each in configs)


def test_documentation(house: House) -> None:
    house.topic("described")
    result = _describe(house, TOPIC, "described", ["retention.ms"], include_documentation=True)
    assert result["configs"][0]["documentation"]


@pytest.mark.parametrize("house", [{"num.partitions": "7"}], indirect=True)
def test_this_broker(house: House) -> None:
    keys = ["num.partitions", "log.retention.check.interval.ms"]
    result = _describe(house, BROKER, "1", keys)
    told = {each["name"]: (each["value"], each["config_source"]) for each in result["configs"]}
    assert told == {
        "num.partitions": ("7", 4),
        "log.retention.check.interval.ms": ("300000", 5),
    }


def test_the_defaults_of_all_brokers_are_what_was_set_for_them(house: House) -> None:
    assert _describe(house, BROKER, "")["configs"] == []
    edit = {"name": "log.retention.ms", "config_operation": 0, "value": "9"}
    resource = {"resource_type": BROKER, "resource_name": "", "configs": [edit]}
    answer = house.ask("incremental_alter_configs", 1, resources=[resource])
    assert answer["responses"][0]["error_code"] == "none"
    (config,) = _describe(house, BROKER, "")["configs"]
    assert (config["name"], config["value"]) == ("log.retention.ms", "9")
    assert config["config_source"] == 3


@pytest.mark.parametrize(
    ("kind", "name", "error", "message"),
    [
        (TOPIC, "undescribed", "unknown_topic_or_partition", "does not host"),
        (TOPIC, "a/b", "invalid_topic_exception", "Topic name is invalid"),
        (TOPIC, "", "invalid_topic_exception", "Topic name is invalid"),
        (BROKER, "77", "invalid_request", "expected 1 or empty string, but received 77"),
        (BROKER, "-1", "invalid_request", "but received -1"),
        (BROKER, "one", "invalid_request", "must be an integer, but it is: one"),
        (99, "x", "invalid_request", "type that does not exist"),
        (0, "x", "invalid_request", "type that does not exist"),
        (-128, "x", "invalid_request", "type that does not exist"),
    ],
)
def test_refusals(house: House, kind: int, name: str, error: str, message: str) -> None:
    result = _describe(house, kind, name)
    assert result["error_code"] == error
    assert message in result["error_message"]
    assert result["configs"] == []


@pytest.mark.parametrize("kind", [8, 16, 32])
def test_resources_without_settings(house: House, kind: int) -> None:
    result = _describe(house, kind, "1")
    assert (result["error_code"], result["configs"]) == ("none", [])


def test_the_same_question_is_answered_once(house: House) -> None:
    resource = {"resource_type": BROKER, "resource_name": "1", "configuration_keys": None}
    answer = house.ask("describe_configs", 4, resources=[resource] * 10_000)
    assert len(answer["results"]) == 1


def test_many_lists_of_keys_for_one_resource(house: House) -> None:
    resources = [
        {"resource_type": BROKER, "resource_name": "1", "configuration_keys": [f"x{n}"]}
        for n in range(2000)
    ]
    answer = house.ask("describe_configs", 4, resources=resources)
    assert len(answer["results"]) == 2000
    assert all(each["configs"] == [] for each in answer["results"])
