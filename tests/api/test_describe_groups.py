"""DescribeGroups: classic groups, those that are not there, and why the last rebalance was."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from kio.serial import entity_reader
from tests.api.conftest import KEYS
from tests.api.group_talk import SETTINGS, coordinate, frame, join, say, settle

from barnabas.wire.headers import parse_response_header
from barnabas.wire.messages import decode_response

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)

_KEY = KEYS["describe_groups"]


def _describe(house: House, version: int, *names: str, **more: Any) -> list[Any]:
    found: list[Any] = say(house, "describe_groups", version, groups=names, **more)["groups"]
    return found


@pytest.mark.parametrize("name", ["nobody", ""])
def test_a_group_that_is_not_there_is_dead(house: House, name: str) -> None:
    coordinate(house)
    for version in range(7):
        (told,) = _describe(house, version, name)
        assert told["error_code"] == ("group_id_not_found" if version >= 6 else "none")
        assert told.get("error_message") == (f"Group {name} not found." if version >= 6 else None)
        assert (told["group_id"], told["group_state"]) == (name, "Dead")
        assert told["members"] == []


def test_in_the_order_they_are_asked_for(house: House) -> None:
    coordinate(house)
    settle(house, "b")
    join(house, "a")
    told = _describe(house, 5, "b", "x", "a", "b")
    assert [(each["group_id"], each["group_state"]) for each in told] == [
        ("b", "Stable"),
        ("x", "Dead"),
        ("a", "CompletingRebalance"),
        ("b", "Stable"),
    ]


@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_operations_are_told_when_asked_for(house: House, version: int) -> None:
    coordinate(house)
    settle(house, "g")
    (told,) = _describe(house, version, "g", include_authorized_operations=True)
    assert told["authorized_operations"] == 3400
    (told,) = _describe(house, version, "g")
    assert told["authorized_operations"] == -(2**31)


def test_why_and_when_it_was_last_rebalanced(house: House) -> None:
    coordinate(house)
    before_ms = int(time.time() * 1000) - 1000
    joined = settle(house, "g", reason="first day")
    request = frame(house, "describe_groups", 6, groups=["g", "nobody"])
    answer = house.send(request)
    _, start = parse_response_header(_KEY, 6, answer)
    described, missing = decode_response(_KEY, 6, answer[start:]).groups
    assert joined["member_id"] in described.last_rebalance.reason
    assert "first day" in described.last_rebalance.reason
    assert described.last_rebalance.at_ms >= before_ms
    assert (missing.last_rebalance.reason, missing.last_rebalance.at_ms) == ("", -1)


def test_versions_before_the_newest_carry_nothing_of_ours(house: House) -> None:
    """kio's own reader fails on a tag that it does not know."""
    from kio.schema.describe_groups.v5.response import DescribeGroupsResponse

    coordinate(house)
    settle(house, "g")
    answer = house.send(frame(house, "describe_groups", 5, groups=["g"]))
    _, start = parse_response_header(_KEY, 5, answer)
    response, size = entity_reader(DescribeGroupsResponse)(answer, start)
    assert start + size == len(answer)
    assert response.groups[0].group_state == "Stable"


def test_without_a_coordinator(house: House) -> None:
    (told,) = _describe(house, 6, "g")
    assert (told["error_code"], told["group_state"]) == ("not_coordinator", "")
