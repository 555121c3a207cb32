"""OffsetDelete: single offsets of groups that do not use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.api.group_talk import SETTINGS, commit_body, coordinate, join, say

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


def _delete(house: House, group: str, **topics: tuple[int, ...]) -> Any:
    asked = [
        {"name": name, "partitions": [{"partition_index": each} for each in indexes]}
        for name, indexes in topics.items()
    ]
    return say(house, "offset_delete", 0, group_id=group, topics=asked)


def _errors(answer: Any) -> dict[str, dict[int, str]]:
    return {
        topic["name"]: {each["partition_index"]: each["error_code"] for each in topic["partitions"]}
        for topic in answer["topics"]
    }


def _left(house: House, group: str) -> set[tuple[str, int]]:
    groups = [{"group_id": group, "topics": None, "member_epoch": -1}]
    (told,) = say(house, "offset_fetch", 9, groups=groups)["groups"]
    return {
        (topic["name"], each["partition_index"])
        for topic in told["topics"]
        for each in topic["partitions"]
    }


def test_each_partition_has_its_own_result(house: House) -> None:
    house.topic("t", 3)
    coordinate(house)
    say(house, "offset_commit", 9, **commit_body("g", "t", (0, 1), (1, 1)))
    answer = _delete(house, "g", t=(0, 0, 2, 9), never=(0,))
    assert answer["error_code"] == "none"
    assert _errors(answer) == {
        "t": {0: "none", 2: "none", 9: "unknown_topic_or_partition"},
        "never": {0: "unknown_topic_or_partition"},
    }
    assert _left(house, "g") == {("t", 1)}


def test_what_the_group_reads_stays(house: House) -> None:
    house.topic("read")
    house.topic("done")
    coordinate(house)
    subscription = b"\0\0\0\0\0\1\0\4read\xff\xff\xff\xff"
    joined = join(house, "g", protocols=[{"name": "range", "metadata": subscription}])
    sync = {
        "group_id": "g",
        "generation_id": 1,
        "member_id": joined["member_id"],
        "protocol_type": "consumer",
        "protocol_name": "range",
    }
    assert say(house, "sync_group", 5, **sync)["error_code"] == "none"
    member = {"generation_id_or_member_epoch": 1, "member_id": joined["member_id"]}
    for topic in ("read", "done"):
        say(house, "offset_commit", 9, **commit_body("g", topic, (0, 1), **member))
    answer = _delete(house, "g", read=(0,), done=(0,))
    assert _errors(answer) == {"read": {0: "group_subscribed_to_topic"}, "done": {0: "none"}}
    assert _left(house, "g") == {("read", 0)}


def test_what_concerns_the_whole_group(house: House) -> None:
    house.topic("t")
    assert _delete(house, "g", t=(0,))["error_code"] == "not_coordinator"
    coordinate(house)
    for group, error in (("", "invalid_group_id"), ("nobody", "group_id_not_found")):
        answer = _delete(house, group, t=(0,), never=(0,))
        assert (answer["error_code"], answer["topics"]) == (error, [])
    join(house, "connect", protocol_type="connect")
    assert _delete(house, "connect", t=(0,))["error_code"] == "non_empty_group"
