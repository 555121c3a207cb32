"""ListGroups: all, or those in some state or of some kind."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.group_talk import SETTINGS, commit_body, coordinate, join, say, settle

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


def _names(house: House, version: int = 5, **filters: Any) -> set[str]:
    answer = say(house, "list_groups", version, **filters)
    assert answer["error_code"] == "none"
    return {each["group_id"] for each in answer["groups"]}


@pytest.fixture
def groups(house: House) -> None:
    house.topic("t")
    coordinate(house)
    settle(house, "stable")
    join(house, "joining")
    say(house, "offset_commit", 9, **commit_body("simple", "t", (0, 1)))
    beat = {
        "group_id": "modern",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": timedelta(seconds=9),
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    assert say(house, "consumer_group_heartbeat", 1, **beat)["error_code"] == "none"


@pytest.mark.usefixtures("groups")
def test_the_filters(house: House) -> None:
    everything = {"stable", "joining", "simple", "modern"}
    for version in range(6):
        assert _names(house, version) == everything
    assert _names(house, states_filter=["Stable"]) == {"stable", "modern"}
    assert _names(house, 4, states_filter=[" sTABLE ", "empty"]) == {"stable", "modern", "simple"}
    assert _names(house, states_filter=["CompletingRebalance"]) == {"joining"}
    assert _names(house, states_filter=["nonsense"]) == set()
    assert _names(house, types_filter=["Consumer"]) == {"modern"}
    assert _names(house, types_filter=["CLASSIC"]) == everything - {"modern"}
    assert _names(house, types_filter=["share"]) == set()
    assert _names(house, types_filter=["classic"], states_filter=["stable"]) == {"stable"}


@pytest.mark.usefixtures("groups")
def test_what_is_told_of_each(house: House) -> None:
    told = {each["group_id"]: each for each in say(house, "list_groups", 5)["groups"]}
    assert told["simple"] == {
        "group_id": "simple",
        "protocol_type": "",
        "group_state": "Empty",
        "group_type": "classic",
    }
    assert told["modern"] == {
        "group_id": "modern",
        "protocol_type": "consumer",
        "group_state": "Stable",
        "group_type": "consumer",
    }


def test_before_the_first_group(house: House) -> None:
    assert _names(house) == set()
