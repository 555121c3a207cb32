"""OffsetCommit: what is written down, for whom, and in which words each version is refused."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.group_talk import SETTINGS, commit_body, coordinate, say, settle

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)

_VERSIONS = range(2, 11)


def _commit(house: House, version: int, body: dict[str, Any]) -> list[str]:
    """The error of each partition."""
    answer = say(house, "offset_commit", version, **body)
    return [each["error_code"] for topic in answer["topics"] for each in topic["partitions"]]


def _fetched(house: House, group: str, topic: str, *indexes: int) -> list[int]:
    groups = [{"group_id": group, "topics": [{"name": topic, "partition_indexes": indexes}]}]
    (answer,) = say(house, "offset_fetch", 9, groups=groups)["groups"]
    return [each["committed_offset"] for each in answer["topics"][0]["partitions"]]


@pytest.mark.parametrize("version", range(2, 10))
def test_partitions_that_do_not_exist_are_refused_by_themselves(house: House, version: int) -> None:
    house.topic("t", 2)
    coordinate(house)
    body = commit_body("g", "t", (0, 5), (2, 5), (-1, 5), (1, 6))
    body["topics"] += commit_body("g", "never", (0, 1))["topics"]
    assert _commit(house, version, body) == [
        "none",
        "unknown_topic_or_partition",
        "unknown_topic_or_partition",
        "none",
        "unknown_topic_or_partition",
    ]
    assert _fetched(house, "g", "t", 0, 1) == [5, 6]


def test_topic_ids(house: House) -> None:
    known, unknown = house.topic("t"), uuid.uuid4()
    coordinate(house)
    body = commit_body("g", "", (0, 5), (1, 5))
    partitions = body["topics"][0]["partitions"]
    body["topics"] = [
        {"topic_id": each, "partitions": partitions} for each in (unknown, known, None)
    ]
    answer = say(house, "offset_commit", 10, **body)
    assert [each["topic_id"] for each in answer["topics"]] == [unknown, known, None]
    assert _commit(house, 10, body) == [
        *["unknown_topic_id"] * 2,
        *["none", "unknown_topic_or_partition"],
        *["unknown_topic_id"] * 2,
    ]
    assert _fetched(house, "g", "t", 0) == [5]


@pytest.mark.parametrize("version", _VERSIONS)
def test_a_group_refuses_in_every_partition_that_is_there(house: House, version: int) -> None:
    topic_id = house.topic("t", 2)
    coordinate(house)
    settle(house, "g")
    body = commit_body(
        "g", "t", (0, 5), (7, 5), generation_id_or_member_epoch=1, member_id="nobody"
    )
    body["topics"][0]["topic_id"] = topic_id
    assert _commit(house, version, body) == ["unknown_member_id", "unknown_topic_or_partition"]
    assert _fetched(house, "g", "t", 0) == [-1]


@pytest.mark.parametrize("version", _VERSIONS)
@pytest.mark.parametrize("generation", [0, 2])
def test_another_generation_is_fenced(house: House, version: int, generation: int) -> None:
    topic_id = house.topic("t")
    coordinate(house)
    member = settle(house, "g")["member_id"]
    body = commit_body("g", "t", (0, 5), generation_id_or_member_epoch=generation, member_id=member)
    body["topics"][0]["topic_id"] = topic_id
    assert _commit(house, version, body) == ["illegal_generation"]


def test_somebody_outside_can_not_commit_for_a_group_that_is_alive(house: House) -> None:
    house.topic("t")
    coordinate(house)
    settle(house, "g")
    assert _commit(house, 9, commit_body("g", "t", (0, 5))) == ["unknown_member_id"]


@pytest.mark.parametrize("version", _VERSIONS)
def test_a_member_of_a_group_that_is_not_there(house: House, version: int) -> None:
    topic_id = house.topic("t")
    coordinate(house)
    body = commit_body("g", "t", (0, 5), generation_id_or_member_epoch=1, member_id="m")
    body["topics"][0]["topic_id"] = topic_id
    error = "group_id_not_found" if version >= 9 else "illegal_generation"
    assert _commit(house, version, body) == [error]


@pytest.mark.parametrize("group", ["", "g", "é漢😀"])
def test_a_group_without_members_may_be_of_any_name(house: House, group: str) -> None:
    house.topic("t")
    coordinate(house)
    assert _commit(house, 9, commit_body(group, "t", (0, 5))) == ["none"]
    assert _fetched(house, group, "t", 0) == [5]


def test_metadata_may_be_null_but_not_too_long(house: House) -> None:
    house.topic("t", 3)
    coordinate(house)
    body = commit_body("g", "t", (0, 5), (1, 5), (2, 5))
    for each, metadata in zip(
        body["topics"][0]["partitions"], (None, "x" * 4097, "x" * 4096), strict=True
    ):
        each["committed_metadata"] = metadata
    assert _commit(house, 9, body) == ["none", "offset_metadata_too_large", "none"]
    assert _fetched(house, "g", "t", 0, 1, 2) == [5, -1, 5]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_old_versions_may_say_how_long_to_keep(house: House, version: int) -> None:
    house.topic("t")
    coordinate(house)
    body = commit_body("g", "t", (0, 5), retention_time=timedelta(days=1))
    assert _commit(house, version, body) == ["none"]


def test_nothing_to_commit_is_no_question_for_the_group(house: House) -> None:
    answer = say(house, "offset_commit", 9, group_id="g", topics=[])
    assert answer["topics"] == []
    house.topic("t")
    body = commit_body("g", "t")
    assert say(house, "offset_commit", 9, **body)["topics"] == []
    assert _commit(house, 9, commit_body("g", "never", (0, 1))) == ["unknown_topic_or_partition"]


def test_without_a_coordinator_every_partition_says_so(house: House) -> None:
    house.topic("t", 2)
    assert _commit(house, 9, commit_body("g", "t", (0, 1), (1, 1))) == ["not_coordinator"] * 2
