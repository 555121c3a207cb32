"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: a group of the new protocol, seen from afar."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.conftest import KEYS
from tests.api.group_talk import SETTINGS, commit_body, coordinate, frame, join, say, settle

from barnabas.wire.headers import parse_response_header
from barnabas.wire.messages import decode_response

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


def _joining(group: str = "g", member: str = "m", **more: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": 0,
        "rebalance_timeout": timedelta(seconds=30),
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
        **more,
    }


def _beat(house: House, version: int = 1, **body: Any) -> Any:
    return say(house, "consumer_group_heartbeat", version, **body)


@pytest.mark.parametrize("version", [0, 1])
def test_a_life(house: House, version: int) -> None:
    topic_id = house.topic("t", 2)
    coordinate(house)
    joined = _beat(house, version, **_joining())
    assert (joined["error_code"], joined["error_message"]) == ("none", None)
    assert joined["member_id"] == "m"
    assert joined["heartbeat_interval"] == timedelta(seconds=5)
    owned = [{"topic_id": topic_id, "partitions": [0, 1]}]
    assert joined["assignment"] == {"topic_partitions": owned}
    here = {"group_id": "g", "member_id": "m", "member_epoch": joined["member_epoch"]}
    quiet = {**here, "topic_partitions": None, "subscribed_topic_names": None}
    beat = _beat(house, version, **quiet, rebalance_timeout=timedelta(milliseconds=-1))
    assert (beat["error_code"], beat["assignment"]) == ("none", None)
    told = _beat(house, version, **here, topic_partitions=owned)
    assert told["error_code"] == "none"
    left = _beat(house, version, **{**here, "member_epoch": -1})
    assert (left["error_code"], left["member_epoch"]) == ("none", -1)
    gone = _beat(house, version, **quiet)
    assert gone["error_code"] == "unknown_member_id"
    assert gone["member_id"] is None


def test_version_0_gives_ids_and_version_1_wants_them(house: House) -> None:
    house.topic("t")
    coordinate(house)
    given = _beat(house, 0, **_joining(member=""))
    assert given["error_code"] == "none"
    assert given["member_id"]
    refused = _beat(house, 1, **_joining(member=""))
    assert refused["error_code"] == "invalid_request"
    assert refused["error_message"] == "MemberId can't be empty."
    assert (refused["member_epoch"], refused["assignment"]) == (0, None)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"group_id": ""}, "invalid_request"),
        ({"subscribed_topic_names": None}, "invalid_request"),
        ({"topic_partitions": None}, "invalid_request"),
        ({"rebalance_timeout": timedelta(milliseconds=-1)}, "invalid_request"),
        ({"member_epoch": -3}, "invalid_request"),
        ({"server_assignor": "nonsense"}, "unsupported_assignor"),
        ({"subscribed_topic_regex": "("}, "invalid_regular_expression"),
        ({"member_epoch": 7}, "group_id_not_found"),
        ({"member_epoch": -1}, "group_id_not_found"),
    ],
)
def test_who_is_refused(house: House, change: dict[str, Any], error: str) -> None:
    house.topic("t")
    coordinate(house)
    told = _beat(house, **_joining() | change)
    assert told["error_code"] == error
    assert told["error_message"]


def test_nobody_joins_a_classic_group_this_way(house: House) -> None:
    house.topic("t")
    coordinate(house)
    settle(house, "g")
    assert _beat(house, **_joining())["error_code"] == "group_id_not_found"


def test_nobody_joins_a_consumer_group_the_classic_way(house: House) -> None:
    house.topic("t")
    coordinate(house)
    assert _beat(house, **_joining())["error_code"] == "none"
    assert join(house, "g")["error_code"] == "inconsistent_group_protocol"


def test_two_with_one_static_id(house: House) -> None:
    house.topic("t")
    coordinate(house)
    assert _beat(house, **_joining(instance_id="i"))["error_code"] == "none"
    second = _beat(house, **_joining(member="n", instance_id="i"))
    assert second["error_code"] == "unreleased_instance_id"


def test_commits_are_fenced_by_the_member_epoch(house: House) -> None:
    topic_id = house.topic("t")
    coordinate(house)
    epoch = _beat(house, **_joining())["member_epoch"]

    def commit(version: int, member: str, at: int) -> str:
        body = commit_body("g", "t", (0, 1), member_id=member, generation_id_or_member_epoch=at)
        body["topics"][0]["topic_id"] = topic_id
        (topic,) = say(house, "offset_commit", version, **body)["topics"]
        code: str = topic["partitions"][0]["error_code"]
        return code

    assert [commit(version, "m", epoch) for version in (9, 10)] == ["none", "none"]
    assert commit(10, "m", epoch + 1) == "stale_member_epoch"
    assert commit(8, "m", epoch) == "unsupported_version"
    assert commit(9, "x", epoch) == "unknown_member_id"


@pytest.mark.parametrize("version", [0, 1])
def test_is_described(house: House, version: int) -> None:
    topic_id = house.topic("t", 2)
    coordinate(house)
    epoch = _beat(house, **_joining(rack_id="r"))["member_epoch"]
    names = ["g", "nobody", ""]
    body = {"group_ids": names, "include_authorized_operations": True}
    group, missing, empty = say(house, "consumer_group_describe", version, **body)["groups"]
    assert (group["error_code"], group["group_state"]) == ("none", "Stable")
    assert group["assignor_name"] == "uniform"
    assert group["group_epoch"] == group["assignment_epoch"] == epoch
    assert group["authorized_operations"] == 3400
    (member,) = group["members"]
    share = {"topic_id": topic_id, "topic_name": "t", "partitions": [0, 1]}
    assert member["assignment"] == member["target_assignment"] == {"topic_partitions": [share]}
    assert (member["client_id"], member["client_host"]) == ("tests", "/127.0.0.1")
    assert (member["member_id"], member["rack_id"]) == ("m", "r")
    assert member["subscribed_topic_names"] == ["t"]
    assert member.get("member_type", 1) == 1
    assert missing["error_code"] == "group_id_not_found"
    assert missing["error_message"]
    assert (empty["error_code"], empty["error_message"]) == ("invalid_group_id", None)
    assert empty["authorized_operations"] == -(2**31)


def test_why_it_was_last_rebalanced(house: House) -> None:
    house.topic("t")
    coordinate(house)
    _beat(house, **_joining())
    key = KEYS["consumer_group_describe"]
    answer = house.send(frame(house, "consumer_group_describe", 1, group_ids=["g"]))
    _, start = parse_response_header(key, 1, answer)
    (group,) = decode_response(key, 1, answer[start:]).groups
    assert "m" in group.last_rebalance.reason
    assert group.last_rebalance.at_ms > 0


def test_a_classic_group_is_not_described_as_one(house: House) -> None:
    coordinate(house)
    settle(house, "g")
    (told,) = say(house, "consumer_group_describe", 1, group_ids=["g"])["groups"]
    assert told["error_code"] == "group_id_not_found"
