"""FindCoordinator: there is none yet, and each kind of client is told so in the way it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House

_SHARE_KEY = "group:2zUPZg1zTn6vFzGgUyu2kA:0"


@pytest.mark.parametrize(
    ("version", "key_type", "key", "error"),
    [
        (4, 0, "g", "coordinator_not_available"),
        (4, 0, "", "coordinator_not_available"),
        (4, 1, "t", "transactional_id_authorization_failed"),
        (4, 9, "g", "invalid_request"),
        (4, 2, _SHARE_KEY, "invalid_request"),
        (6, 2, _SHARE_KEY, "coordinator_not_available"),
        (6, 2, "nonsense", "invalid_request"),
        (6, -1, "g", "invalid_request"),
    ],
)
def test_who_gets_which_error(
    house: House, version: int, key_type: int, key: str, error: str
) -> None:
    answer = house.ask("find_coordinator", version, key_type=key_type, coordinator_keys=[key])
    (coordinator,) = answer["coordinators"]
    assert coordinator["error_message"]
    assert {**coordinator, "error_message": None} == {
        "key": key,
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": error,
        "error_message": None,
    }


def test_one_key_in_the_old_form(house: House) -> None:
    answer = house.ask("find_coordinator", 2, key="g", key_type=0)
    assert answer["error_code"] == "coordinator_not_available"
    assert "assign partitions" in answer["error_message"]
    assert (answer["node_id"], answer["host"], answer["port"]) == (-1, "", -1)


def test_version_0_asks_for_groups(house: House) -> None:
    assert house.ask("find_coordinator", 0, key="g")["error_code"] == "coordinator_not_available"


def test_each_key_is_answered_once(house: House) -> None:
    answer = house.ask("find_coordinator", 4, coordinator_keys=["g", "h"] * 1000)
    assert [each["key"] for each in answer["coordinators"]] == ["g", "h"]


def test_no_keys(house: House) -> None:
    assert house.ask("find_coordinator", 4, coordinator_keys=[])["coordinators"] == []
