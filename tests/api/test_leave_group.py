"""LeaveGroup: one by one, or many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.api.group_talk import SETTINGS, coordinate, say, settle

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(
    ("group", "member", "error"),
    [
        ("g", "nobody", "unknown_member_id"),
        ("nobody", "m", "unknown_member_id"),
        ("", "m", "invalid_group_id"),
    ],
)
def test_the_error_of_the_one_member_is_the_answers(
    house: House, version: int, group: str, member: str, error: str
) -> None:
    coordinate(house)
    settle(house, "g")
    answer = say(house, "leave_group", version, group_id=group, member_id=member)
    assert answer["error_code"] == error


def test_each_of_many_has_its_own_result(house: House) -> None:
    coordinate(house)
    joined = settle(house, "g", group_instance_id="i")
    members = [
        {"member_id": "nobody", "group_instance_id": None},
        {"member_id": "", "group_instance_id": "other"},
        {"member_id": "another", "group_instance_id": "i"},
        {"member_id": "", "group_instance_id": "i", "reason": "enough"},
    ]
    answer = say(house, "leave_group", 5, group_id="g", members=members)
    assert answer["error_code"] == "none"
    assert [each["error_code"] for each in answer["members"]] == [
        "unknown_member_id",
        "unknown_member_id",
        "fenced_instance_id",
        "none",
    ]
    assert answer["members"][1]["group_instance_id"] == "other"
    beat = {"group_id": "g", "generation_id": 1, "member_id": joined["member_id"]}
    assert say(house, "heartbeat", 4, **beat)["error_code"] == "unknown_member_id"


@pytest.mark.parametrize("version", [3, 4, 5])
def test_in_a_group_that_is_not_there_everybody_is_unknown(house: House, version: int) -> None:
    coordinate(house)
    members = [{"member_id": "a"}, {"member_id": "", "group_instance_id": "i"}]
    answer = say(house, "leave_group", version, group_id="nobody", members=members)
    assert answer["error_code"] == "none"
    assert answer["members"] == [
        {"member_id": "a", "group_instance_id": None, "error_code": "unknown_member_id"},
        {"member_id": "", "group_instance_id": "i", "error_code": "unknown_member_id"},
    ]


def test_the_empty_group_is_refused_as_a_whole(house: House) -> None:
    coordinate(house)
    answer = say(house, "leave_group", 5, group_id="", members=[{"member_id": "m"}])
    assert (answer["error_code"], answer["members"]) == ("invalid_group_id", [])
