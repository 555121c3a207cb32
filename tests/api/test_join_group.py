"""JoinGroup: who is let in, and what each version is told."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.group_talk import (
    MINUTE,
    PROTOCOLS,
    SETTINGS,
    coordinate,
    join,
    join_body,
    say,
    settle,
)

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


@pytest.mark.parametrize("version", range(4, 10))
def test_a_newcomer_is_given_an_id_first(house: House, version: int) -> None:
    coordinate(house)
    answer = say(house, "join_group", version, **join_body("g"))
    assert answer["error_code"] == "member_id_required"
    assert answer["member_id"].startswith("tests-")
    assert answer["generation_id"] == -1
    assert answer["protocol_name"] == (None if version >= 7 else "")
    assert (answer["leader"], answer["members"]) == ("", [])


@pytest.mark.parametrize("version", range(4))
def test_older_newcomers_are_let_in_at_once(house: House, version: int) -> None:
    coordinate(house)
    answer = say(house, "join_group", version, **join_body("g"))
    assert (answer["error_code"], answer["generation_id"]) == ("none", 1)


def test_a_static_member_needs_no_second_request(house: House) -> None:
    coordinate(house)
    answer = say(house, "join_group", 9, **join_body("g", group_instance_id="i"))
    assert answer["error_code"] == "none"
    assert answer["member_id"].startswith("i-")
    assert answer["members"][0]["group_instance_id"] == "i"


def test_the_empty_protocol_name_is_null_where_it_can_be(house: House) -> None:
    coordinate(house)
    nameless = [{"name": "", "metadata": b"m"}]
    assert join(house, "g", 3, protocols=nameless)["protocol_name"] == ""
    assert join(house, "h", 9, protocols=nameless)["protocol_name"] is None


def test_version_0_rebalances_within_its_session_timeout(house: House) -> None:
    from barnabas.api.context import Call
    from barnabas.api.join_group import _ask
    from barnabas.wire.headers import RequestHeader
    from barnabas.wire.messages import newest_type

    request = newest_type(11, "request")(
        group_id="g",
        member_id="",
        session_timeout=timedelta(seconds=30),
        rebalance_timeout=timedelta(milliseconds=-1),
        protocol_type="consumer",
        protocols=(),
    )

    def rebalance_timeout_ms(version: int) -> int:
        call = Call(house.services, house.peer, RequestHeader(11, version, 1, None, 0))
        return _ask(call, request).rebalance_timeout_ms

    assert rebalance_timeout_ms(0) == 30_000
    assert rebalance_timeout_ms(1) == -1


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"group_id": ""}, "invalid_group_id"),
        ({"member_id": "nobody"}, "unknown_member_id"),
        ({"session_timeout": timedelta(milliseconds=5_999)}, "invalid_session_timeout"),
        ({"session_timeout": timedelta(milliseconds=-1)}, "invalid_session_timeout"),
        ({"session_timeout": 31 * MINUTE}, "invalid_session_timeout"),
        ({"protocols": []}, "inconsistent_group_protocol"),
        ({"protocol_type": ""}, "inconsistent_group_protocol"),
    ],
)
@pytest.mark.parametrize("version", [0, 4, 9])
def test_who_is_refused(house: House, change: dict[str, Any], error: str, version: int) -> None:
    coordinate(house)
    body = join_body("g") | change
    answer = say(house, "join_group", version, **body)
    assert answer["error_code"] == error
    assert answer["member_id"] == body["member_id"]
    assert (answer["generation_id"], answer["leader"], answer["members"]) == (-1, "", [])
    assert answer["protocol_name"] == (None if version >= 7 else "")


def test_another_protocol_than_the_members_have_is_refused(house: House) -> None:
    coordinate(house)
    settle(house, "g")
    other = [{**PROTOCOLS[0], "name": "sticky"}]
    body = join_body("g", protocols=other)
    assert say(house, "join_group", 9, **body)["error_code"] == "inconsistent_group_protocol"


def test_the_second_with_one_static_id_takes_the_place_of_the_first(house: House) -> None:
    coordinate(house)
    first = settle(house, "g", group_instance_id="i")
    second = settle(house, "g", group_instance_id="i")
    assert first["member_id"] != second["member_id"]
    beat = {
        "group_id": "g",
        "generation_id": second["generation_id"],
        "group_instance_id": "i",
    }
    old, new = (
        say(house, "heartbeat", 4, **beat, member_id=each["member_id"])["error_code"]
        for each in (first, second)
    )
    assert (old, new) == ("fenced_instance_id", "none")


def test_without_its_topic_nobody_is_coordinated(house: House) -> None:
    answer = say(house, "join_group", 9, **join_body("g", "someone"))
    assert answer["error_code"] == "not_coordinator"
    assert answer["member_id"] == ""


@pytest.mark.parametrize("name", ["x", " ", "../a/b", "gruppe-é漢😀", "a\0b", "g" * 10_000])
def test_a_group_may_have_any_name(house: House, name: str) -> None:
    coordinate(house)
    settle(house, name)
    listed = say(house, "list_groups", 5)["groups"]
    assert [each["group_id"] for each in listed] == [name]
