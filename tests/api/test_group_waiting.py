"""Requests that wait for other members, and for members that have gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.group_talk import (
    SETTINGS,
    coordinate,
    frame,
    join_body,
    say,
    say_together,
    settle,
    sync_body,
)

from barnabas.ports.exchange import Later

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


def _pair(house: House) -> tuple[Any, Any]:
    """Two members of one generation that has not synced yet, the leader first."""
    coordinate(house)
    first = settle(house, "g")
    newcomer = say(house, "join_group", 9, **join_body("g"))["member_id"]
    answers = say_together(
        house,
        ("join_group", 9, join_body("g", newcomer)),
        ("join_group", 9, join_body("g", first["member_id"])),
    )
    follower, leader = answers
    assert leader["leader"] == leader["member_id"] == first["member_id"]
    assert len(leader["members"]) == 2
    assert follower["members"] == []
    assert leader["generation_id"] == follower["generation_id"] == 2
    return leader, follower


def test_the_followers_get_what_the_leader_brings(house: House) -> None:
    leader, follower = _pair(house)
    shares = [
        {"member_id": leader["member_id"], "assignment": b"\x00\xff of the leader"},
        {"member_id": follower["member_id"], "assignment": b"of the follower"},
    ]
    waiting, done = say_together(
        house,
        ("sync_group", 5, sync_body("g", follower, assignments=[])),
        ("sync_group", 5, sync_body("g", leader, assignments=shares)),
    )
    assert waiting["assignment"] == b"of the follower"
    assert done["assignment"] == b"\x00\xff of the leader", "the bytes are the clients' own"


def test_who_is_given_nothing_gets_no_bytes(house: House) -> None:
    leader, follower = _pair(house)
    waiting, done = say_together(
        house,
        ("sync_group", 0, sync_body("g", follower, assignments=[])),
        ("sync_group", 5, sync_body("g", leader, assignments=[])),
    )
    assert waiting == {"error_code": "none", "assignment": b""}
    assert done["assignment"] == b""


@pytest.mark.parametrize("api", ["join_group", "sync_group"])
def test_a_wait_ends_with_the_connection(house: House, api: str) -> None:
    """Nothing is lost by that: the coordinator knows already that the member was there."""
    if api == "join_group":
        coordinate(house)
        settle(house, "g")
        newcomer = say(house, "join_group", 9, **join_body("g"))["member_id"]
        body = join_body("g", newcomer)
    else:
        body = sync_body("g", _pair(house)[1])

    async def hang_up() -> None:
        reply = house.dispatch_once(house.peer, frame(house, api, 5, **body))
        assert isinstance(reply, Later)
        assert reply.only_waits
        assert not reply.overlaps
        waiting = asyncio.ensure_future(reply.coroutine)
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    house.run(hang_up())
    (group,) = say(house, "describe_groups", 6, groups=["g"])["groups"]
    assert len(group["members"]) == 2


def test_a_thousand_newcomers_without_an_id_are_no_members(house: House) -> None:
    """A newcomer that never comes back with its id is no member."""
    coordinate(house)
    requests = [("join_group", 9, join_body("g"))] * 1_000
    answers = say_together(house, *requests)
    assert {each["error_code"] for each in answers} == {"member_id_required"}
    assert len({each["member_id"] for each in answers}) == 1_000
    (group,) = say(house, "describe_groups", 6, groups=["g"])["groups"]
    assert (group["group_state"], group["members"]) == ("Empty", [])
