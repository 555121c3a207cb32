"""The life of a classic group, every request in every version there is of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.api.conftest import KEYS
from tests.api.group_talk import (
    SETTINGS,
    commit_body,
    coordinate,
    join,
    say,
    sync_body,
)

from barnabas.wire.apis import APIS

if TYPE_CHECKING:
    from tests.api.conftest import House

_STEPS = range(11)
"""The most versions that one of these APIs has."""


def _version(api: str, step: int) -> int:
    row = APIS[KEYS[api]]
    return min(row.min_version + step, row.max_version)


class Life:
    """One group; its requests come in the `step`th version of each API."""

    def __init__(self, house: House, step: int) -> None:
        self.house = house
        self.step = step
        self.topic_id = house.topic("t", 2)

    def say(self, api: str, **body: Any) -> Any:
        return say(self.house, api, self.version(api), **body)

    def version(self, api: str) -> int:
        return _version(api, self.step)


@pytest.mark.parametrize("step", _STEPS)
@pytest.mark.parametrize("house", [SETTINGS], indirect=True)
def test_from_first_join_to_deletion(house: House, step: int) -> None:
    life = Life(house, step)
    coordinate(house)
    member = _joins_and_syncs(life)
    _commits_and_fetches(life, member)
    _is_seen(life, member)
    _leaves_and_is_deleted(life, member)


def _joins_and_syncs(life: Life) -> dict[str, Any]:
    version = life.version("join_group")
    joined = join(life.house, "g", version)
    assert joined["error_code"] == "none"
    assert joined["generation_id"] == 1
    assert joined["protocol_name"] == "range"
    assert joined["leader"] == joined["member_id"] != ""
    assert [each["metadata"] for each in joined["members"]] == [b"meta"]
    assert joined.get("protocol_type") == ("consumer" if version >= 7 else None)
    synced = life.say("sync_group", **sync_body("g", joined))
    assert (synced["error_code"], synced["assignment"]) == ("none", b"share")
    member = {"group_id": "g", "member_id": joined["member_id"], "generation_id": 1}
    assert life.say("heartbeat", **member)["error_code"] == "none"
    return member


def _commits_and_fetches(life: Life, member: dict[str, Any]) -> None:
    body = commit_body(
        "g", "t", (0, 7), generation_id_or_member_epoch=1, member_id=member["member_id"]
    )
    body["topics"][0]["topic_id"] = life.topic_id
    (topic,) = life.say("offset_commit", **body)["topics"]
    assert topic["partitions"] == [{"partition_index": 0, "error_code": "none"}]
    assert topic.get("name", "t") == "t"
    assert topic.get("topic_id", life.topic_id) == life.topic_id
    asked = [{"name": "t", "topic_id": life.topic_id, "partition_indexes": [0, 1]}]
    groups = [{"group_id": "g", "topics": asked, "member_epoch": -1}]
    answer = life.say("offset_fetch", group_id="g", topics=asked, groups=groups)
    (group,) = answer.get("groups", [answer])
    assert group.get("error_code", "none") == "none"
    (topic,) = group["topics"]
    first, second = topic["partitions"]
    assert (first["committed_offset"], first["metadata"]) == (7, "note")
    assert (second["committed_offset"], second["metadata"]) == (-1, "")
    assert first["error_code"] == second["error_code"] == "none"


def _is_seen(life: Life, member: dict[str, Any]) -> None:
    (described,) = life.say("describe_groups", groups=["g"])["groups"]
    assert described["error_code"] == "none"
    assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
    (seen,) = described["members"]
    assert seen["member_id"] == member["member_id"]
    assert (seen["client_id"], seen["client_host"]) == ("tests", "/127.0.0.1")
    assert (seen["member_metadata"], seen["member_assignment"]) == (b"meta", b"share")
    (listed,) = life.say("list_groups")["groups"]
    assert (listed["group_id"], listed["protocol_type"]) == ("g", "consumer")
    assert listed.get("group_state", "Stable") == "Stable"
    assert listed.get("group_type", "classic") == "classic"
    (deleted,) = life.say("delete_groups", groups_names=["g"])["results"]
    assert deleted == {"group_id": "g", "error_code": "non_empty_group"}


def _leaves_and_is_deleted(life: Life, member: dict[str, Any]) -> None:
    body = {"group_id": "g", "member_id": member["member_id"]}
    left = life.say("leave_group", **body, members=[{"member_id": member["member_id"]}])
    assert left["error_code"] == "none"
    assert [each["error_code"] for each in left.get("members", [])] in ([], ["none"])
    assert life.say("heartbeat", **member)["error_code"] == "unknown_member_id"
    topics = [{"name": "t", "partitions": [{"partition_index": 0}]}]
    assert life.say("offset_delete", group_id="g", topics=topics)["error_code"] == "none"
    (deleted,) = life.say("delete_groups", groups_names=["g"])["results"]
    assert deleted == {"group_id": "g", "error_code": "none"}
    assert life.say("list_groups")["groups"] == []
