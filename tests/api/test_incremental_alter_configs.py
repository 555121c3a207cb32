"""IncrementalAlterConfigs: single settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER = 2, 4


def _resource(*edits: tuple[str, int, str | None], kind: int = TOPIC, name: str = "altered") -> Any:
    rows = [{"name": key, "config_operation": op, "value": value} for key, op, value in edits]
    return {"resource_type": kind, "resource_name": name, "configs": rows}


def _alter(house: House, *edits: tuple[str, int, str | None], **where: Any) -> Any:
    resources = [_resource(*edits, **where)]
    (answer,) = house.ask("incremental_alter_configs", 1, resources=resources)["responses"]
    return answer["error_code"], answer["error_message"]


def _policy(house: House) -> Any:
    return house.settings("altered", "cleanup.policy")["cleanup.policy"]


def test_set_and_unset(house: House) -> None:
    house.topic("altered")
    assert _alter(house, ("retention.ms", SET, "5000")) == ("none", None)
    assert house.settings("altered", "retention.ms") == {"retention.ms": ("5000", 1)}
    assert house.partition("altered").log.config.retention_ms == 5000
    assert _alter(house, ("retention.ms", DELETE, None)) == ("none", None)
    assert house.settings("altered", "retention.ms") == {"retention.ms": ("604800000", 5)}


def test_lists_are_added_to_and_taken_from(house: House) -> None:
    house.topic("altered")
    for operation, value, expected in [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
    ]:
        assert _alter(house, ("cleanup.policy", operation, value)) == ("none", None)
        assert _policy(house) == (expected, 1)


def test_validate_only(house: House) -> None:
    house.topic("altered")
    resources = [_resource(("retention.ms", SET, "1"))]
    house.ask("incremental_alter_configs", 1, resources=resources, validate_only=True)
    assert house.settings("altered", "retention.ms") == {"retention.ms": ("604800000", 5)}


@pytest.mark.parametrize(
    ("edits", "where", "error"),
    [
        ([("retention.ms", APPEND, "1")], {}, "invalid_config"),
        ([("no.such.config", SET, "1")], {}, "invalid_config"),
        ([("retention.ms", SET, "soon")], {}, "invalid_config"),
        ([("retention.ms", SET, None)], {}, "invalid_request"),
        ([("retention.ms", 9, "1")], {}, "invalid_request"),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], {}, "invalid_request"),
        ([("retention.ms", SET, "1"), ("segment.bytes", SET, "x")], {}, "invalid_config"),
        ([("retention.ms", SET, "1")], {"name": "no"}, "unknown_topic_or_partition"),
        ([("retention.ms", SET, "1")], {"name": "a/b"}, "invalid_topic_exception"),
        ([("retention.ms", SET, "1")], {"kind": 99}, "invalid_request"),
        ([("log.retention.ms", SET, "1")], {"kind": BROKER, "name": "77"}, "invalid_request"),
        ([("log.retention.ms", SET, "1")], {"kind": BROKER, "name": "one"}, "invalid_request"),
        ([("log.dirs", SET, "/x")], {"kind": BROKER, "name": "1"}, "invalid_request"),
    ],
)
def test_refusals_change_nothing(house: House, edits: Any, where: Any, error: str) -> None:
    house.topic("altered")
    told, message = _alter(house, *edits, **where)
    assert told == error
    assert message
    assert house.settings("altered", "retention.ms") == {"retention.ms": ("604800000", 5)}


def test_what_is_set_for_a_broker_reaches_its_topics(house: House) -> None:
    house.topic("altered")
    where = {"kind": BROKER, "name": "1"}
    assert _alter(house, ("log.retention.ms", SET, "77"), **where) == ("none", None)
    assert house.settings("altered", "retention.ms") == {"retention.ms": ("77", 2)}
    assert house.partition("altered").log.config.retention_ms == 77


def test_a_resource_named_twice_is_refused_twice(house: House) -> None:
    house.topic("altered")
    resources = [_resource(("retention.ms", SET, "1"))] * 2
    answers = house.ask("incremental_alter_configs", 1, resources=resources)["responses"]
    assert [each["error_code"] for each in answers] == ["invalid_request"] * 2
