"""DeleteGroups: only those without members."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.api.group_talk import SETTINGS, commit_body, coordinate, say, settle

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


@pytest.mark.parametrize("version", range(3))
def test_each_group_by_itself_and_once(house: House, version: int) -> None:
    house.topic("t")
    coordinate(house)
    settle(house, "busy")
    say(house, "offset_commit", 9, **commit_body("simple", "t", (0, 1)))
    names = ["busy", "simple", "nobody", "", "simple"]
    results = say(house, "delete_groups", version, groups_names=names)["results"]
    assert [(each["group_id"], each["error_code"]) for each in results] == [
        ("busy", "non_empty_group"),
        ("simple", "none"),
        ("nobody", "group_id_not_found"),
        ("", "group_id_not_found"),
    ]
    groups = [{"group_id": "simple", "topics": None, "member_epoch": -1}]
    (told,) = say(house, "offset_fetch", 9, groups=groups)["groups"]
    assert told["topics"] == []
    listed = say(house, "list_groups", 5)["groups"]
    assert [each["group_id"] for each in listed] == ["busy"]


def test_without_a_coordinator(house: House) -> None:
    (result,) = say(house, "delete_groups", 2, groups_names=["g"])["results"]
    assert result == {"group_id": "g", "error_code": "not_coordinator"}
