"""AlterConfigs: all settings of a resource at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House

KEYS = ("retention.ms", "segment.bytes")
DEFAULTS = {"retention.ms": ("604800000", 5), "segment.bytes": ("1073741824", 5)}


def _alter(
    house: House, *configs: tuple[str, str | None], name: str = "replaced", **more: Any
) -> Any:
    rows = [{"name": key, "value": value} for key, value in configs]
    resource = {"resource_type": 2, "resource_name": name, "configs": rows}
    (answer,) = house.ask("alter_configs", 2, resources=[resource], **more)["responses"]
    assert (answer["resource_type"], answer["resource_name"]) == (2, name)
    return answer["error_code"], answer["error_message"]


def test_what_is_not_named_is_unset(house: House) -> None:
    house.topic("replaced", segment_bytes="2097152")
    assert _alter(house, ("retention.ms", "2")) == ("none", None)
    assert house.settings("replaced", *KEYS) == {**DEFAULTS, "retention.ms": ("2", 1)}
    assert house.partition("replaced").log.config.retention_ms == 2
    assert _alter(house) == ("none", None)
    assert house.settings("replaced", *KEYS) == DEFAULTS


def test_validate_only(house: House) -> None:
    house.topic("replaced")
    assert _alter(house, ("retention.ms", "2"), validate_only=True) == ("none", None)
    assert house.settings("replaced", *KEYS) == DEFAULTS


@pytest.mark.parametrize(
    ("configs", "error"),
    [
        ([("no.such", "1")], "invalid_config"),
        ([("retention.ms", "soon")], "invalid_config"),
        ([("retention.ms", None)], "invalid_request"),
        ([("retention.ms", "1"), ("segment.bytes", "x")], "invalid_config"),
    ],
)
def test_refusals_change_nothing(house: House, configs: Any, error: str) -> None:
    house.topic("replaced")
    told, message = _alter(house, *configs)
    assert told == error
    assert message
    assert house.settings("replaced", *KEYS) == DEFAULTS


def test_unknown_topic(house: House) -> None:
    told = _alter(house, ("retention.ms", "1"), name="unreplaced")
    assert told == ("unknown_topic_or_partition", "The topic 'unreplaced' does not exist.")
