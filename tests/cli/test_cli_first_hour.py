"""What somebody stumbles over in the first hour, and must be told."""

import pytest

from barnabas.cli.lines import LineRules, messages
from barnabas.cli.moments import parse_moment
from barnabas.model.errors import BarnabasError


def test_a_misspelt_field_is_no_tombstone() -> None:
    lines = messages([b'{"vlaue": "typo"}'], LineRules(from_json=True))
    with pytest.raises(BarnabasError, match="Line 1 has vlaue in it; known are key, value"):
        next(lines)


def test_a_null_has_to_be_meant() -> None:
    with pytest.raises(BarnabasError, match='Line 1 has no "value"'):
        next(messages([b'{"key": "k"}'], LineRules(from_json=True)))
    (message,) = messages([b'{"key": "k", "value": null}'], LineRules(from_json=True))
    assert message.value is None


def test_what_consume_prints_can_be_produced() -> None:
    line = (
        b'{"topic": "t", "partition": 1, "offset": 5, "timestamp": 7, "timestamp_type": '
        b'"CreateTime", "key": null, "value": "v", "headers": []}'
    )
    (message,) = messages([line], LineRules(from_json=True))
    assert (message.value, message.partition, message.timestamp) == (b"v", 1, 7)


@pytest.mark.parametrize("text", ["-99999999d", "1900-01-01T00:00:00Z"])
def test_before_1970_is_the_beginning(text: str) -> None:
    assert parse_moment(text) == 0
