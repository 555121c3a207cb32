"""SyncGroup: what is refused. (What is shared out is in test_group_waiting.)"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.api.group_talk import SETTINGS, coordinate, join, say, sync_body

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"group_id": ""}, "invalid_group_id"),
        ({"group_id": "nobody"}, "unknown_member_id"),
        ({"member_id": "nobody"}, "unknown_member_id"),
        ({"generation_id": 0}, "illegal_generation"),
        ({"generation_id": 2}, "illegal_generation"),
        ({"protocol_type": "connect"}, "inconsistent_group_protocol"),
        ({"protocol_name": "sticky"}, "inconsistent_group_protocol"),
        ({"protocol_type": None}, "inconsistent_group_protocol"),
        ({"protocol_name": None, "group_id": ""}, "inconsistent_group_protocol"),
        ({"group_instance_id": "i"}, "unknown_member_id"),
    ],
)
def test_who_is_refused(house: House, change: dict[str, Any], error: str) -> None:
    coordinate(house)
    joined = join(house, "g")
    answer = say(house, "sync_group", 5, **sync_body("g", joined) | change)
    assert answer == {
        "throttle_time": answer["throttle_time"],
        "error_code": error,
        "protocol_type": None,
        "protocol_name": None,
        "assignment": b"",
    }


@pytest.mark.parametrize("version", range(5))
def test_before_version_5_no_protocol_is_named(house: House, version: int) -> None:
    coordinate(house)
    joined = join(house, "g")
    answer = say(house, "sync_group", version, **sync_body("g", joined))
    assert (answer["error_code"], answer["assignment"]) == ("none", b"share")


def test_version_5_tells_the_protocol(house: House) -> None:
    coordinate(house)
    answer = say(house, "sync_group", 5, **sync_body("g", join(house, "g")))
    assert (answer["protocol_type"], answer["protocol_name"]) == ("consumer", "range")
