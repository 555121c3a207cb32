"""Heartbeat: who is alive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.conftest import KEYS
from tests.api.group_talk import SETTINGS, coordinate, frame, join, say, settle

from barnabas.ports.exchange import Later

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({}, "none"),
        ({"group_id": ""}, "invalid_group_id"),
        ({"group_id": "nobody"}, "unknown_member_id"),
        ({"member_id": "nobody"}, "unknown_member_id"),
        ({"member_id": ""}, "unknown_member_id"),
        ({"generation_id": 0}, "illegal_generation"),
        ({"generation_id": 2}, "illegal_generation"),
    ],
)
def test_who_is_refused(house: House, change: dict[str, Any], error: str, version: int) -> None:
    coordinate(house)
    joined = settle(house, "g")
    body = {"group_id": "g", "generation_id": 1, "member_id": joined["member_id"]} | change
    assert say(house, "heartbeat", version, **body)["error_code"] == error


def test_makes_no_coroutine(house: House) -> None:
    """There are thousands of them: the answer is there when the call returns."""
    coordinate(house)
    joined = settle(house, "g")
    body = {"group_id": "g", "generation_id": 1, "member_id": joined["member_id"]}

    async def beat() -> Any:
        return house.dispatch_once(house.peer, frame(house, "heartbeat", 4, **body))

    assert not isinstance(house.run(beat()), Later)


def test_a_member_that_has_yet_to_sync_is_alive(house: House) -> None:
    coordinate(house)
    joined = join(house, "g")
    body = {"group_id": "g", "generation_id": 1, "member_id": joined["member_id"]}
    assert say(house, "heartbeat", 4, **body)["error_code"] == "none"


def test_is_fine_while_groups_are_loaded(house: House) -> None:
    """Otherwise members would give up what they may well keep."""
    house.ask("find_coordinator", 4, coordinator_keys=["g"])
    body = {"group_id": "g", "generation_id": 1, "member_id": "m"}

    async def begin_loading_and_beat() -> Any:
        for partition in range(3):
            house.coordinators.groups.resign(partition)
        house.coordinators.start()
        replies = [
            house.dispatch_once(house.peer, frame(house, api, version, **body))
            for api, version, body in (
                ("heartbeat", 4, body),
                ("list_groups", 5, {}),
                ("describe_groups", 6, {"groups": ["g"]}),
            )
        ]
        await asyncio.sleep(0)
        return replies

    beat, listed, described = house.run(begin_loading_and_beat())
    assert house.decode(KEYS["heartbeat"], 4, b"".join(beat))["error_code"] == "none"
    told = house.decode(KEYS["list_groups"], 5, b"".join(listed))
    assert (told["error_code"], told["groups"]) == ("coordinator_load_in_progress", [])
    (group,) = house.decode(KEYS["describe_groups"], 6, b"".join(described))["groups"]
    assert (group["error_code"], group["group_state"]) == ("coordinator_load_in_progress", "")
