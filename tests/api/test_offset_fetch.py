"""OffsetFetch: in partitions or in all, of one group or of many, with names or ids."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.group_talk import SETTINGS, commit_body, coordinate, say

from barnabas.coordinator.group.asks import Commit, CommitPartition
from barnabas.model.errors import ErrorCode

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


@pytest.fixture
def topic_id(house: House) -> uuid.UUID:
    """A group g that has committed 5 in t-0, of which this is the id."""
    found = house.topic("t", 2)
    coordinate(house)
    say(house, "offset_commit", 9, **commit_body("g", "t", (0, 5)))
    return found


def _partition(index: int, offset: int, metadata: str, error: str = "none") -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "metadata": metadata,
        "error_code": error,
    }


def _fetch(house: House, version: int, group: str, topics: Any, **more: Any) -> Any:
    groups = [{"group_id": group, "topics": topics, "member_epoch": -1, **more}]
    answer = say(house, "offset_fetch", version, group_id=group, topics=topics, groups=groups)
    if version < 8:
        return answer
    (told,) = answer["groups"]
    assert told["group_id"] == group
    return told


@pytest.mark.parametrize("version", range(5, 10))
def test_where_there_is_none_it_is_minus_one(
    house: House, topic_id: uuid.UUID, version: int
) -> None:
    topics = [
        {"name": "t", "partition_indexes": [0, 1, 99]},
        {"name": "never", "partition_indexes": [0]},
    ]
    told = _fetch(house, version, "g", topics)
    assert told["topics"] == [
        {
            "name": "t",
            "partitions": [
                _partition(0, 5, "note"),
                _partition(1, -1, ""),
                _partition(99, -1, ""),
            ],
        },
        {"name": "never", "partitions": [_partition(0, -1, "")]},
    ]
    other = _fetch(house, version, "nobody", topics)
    assert other.get("error_code", "none") == "none"
    assert {
        (each["committed_offset"], each["error_code"])
        for topic in other["topics"]
        for each in topic["partitions"]
    } == {(-1, "none")}


@pytest.mark.parametrize("version", range(2, 11))
def test_null_is_for_all(house: House, topic_id: uuid.UUID, version: int) -> None:
    (topic,) = _fetch(house, version, "g", None)["topics"]
    assert topic.get("name", "t") == "t"
    assert topic.get("topic_id", topic_id) == topic_id
    (partition,) = topic["partitions"]
    assert (partition["partition_index"], partition["committed_offset"]) == (0, 5)
    assert _fetch(house, version, "nobody", None)["topics"] == []


def test_ids(house: House, topic_id: uuid.UUID) -> None:
    unknown = uuid.uuid4()
    topics = [{"topic_id": each, "partition_indexes": [0]} for each in (unknown, topic_id, None)]
    told = _fetch(house, 10, "g", topics)
    assert told["error_code"] == "none"
    assert [(each["topic_id"], each["partitions"]) for each in told["topics"]] == [
        (unknown, [_partition(0, -1, "", "unknown_topic_id")]),
        (topic_id, [_partition(0, 5, "note")]),
        (None, [_partition(0, -1, "", "unknown_topic_id")]),
    ]


def test_many_groups_at_once(house: House, topic_id: uuid.UUID) -> None:
    say(house, "offset_commit", 9, **commit_body("h", "t", (1, 6)))
    groups = [{"group_id": each, "topics": None, "member_epoch": -1} for each in "ghgx"]
    told = say(house, "offset_fetch", 8, groups=groups)["groups"]
    assert [each["group_id"] for each in told] == ["g", "h", "g", "x"]
    assert [len(each["topics"]) for each in told] == [1, 1, 1, 0]
    assert say(house, "offset_fetch", 8, groups=[])["groups"] == []


@pytest.mark.parametrize("version", range(1, 11))
def test_without_a_coordinator(house: House, version: int) -> None:
    topic_id = house.topic("t")
    topics = [{"name": "t", "topic_id": topic_id, "partition_indexes": [0, 1]}]
    told = _fetch(house, version, "g", topics)
    if version == 1:
        (topic,) = told["topics"]
        codes = [each["error_code"] for each in topic["partitions"]]
        assert codes == ["not_coordinator"] * 2
        assert {each["committed_offset"] for each in topic["partitions"]} == {-1}
    else:
        assert (told["error_code"], told["topics"]) == ("not_coordinator", [])


def _commit_for(house: House, topic: str, topic_id: bytes) -> None:
    """What is left in a log when a topic was deleted while its coordinator was away."""
    partition = CommitPartition(topic=topic, topic_id=topic_id, partition=0, offset=9)
    ask = Commit(
        group_id="g",
        member_id="",
        instance_id=None,
        generation=-1,
        knows_epochs=True,
        partitions=(partition,),
    )

    async def commit() -> None:
        assert house.services.groups.commit(ask) == [ErrorCode.none]

    house.run(commit())


def test_the_offset_of_a_former_topic_is_none(house: House, topic_id: uuid.UUID) -> None:
    _commit_for(house, "t", uuid.uuid4().bytes)
    by_name = [{"name": "t", "partition_indexes": [0]}]
    by_id = [{"topic_id": topic_id, "partition_indexes": [0]}]
    for version, topics in ((9, by_name), (10, by_id)):
        (topic,) = _fetch(house, version, "g", topics)["topics"]
        assert topic["partitions"] == [_partition(0, -1, "")]
        assert _fetch(house, version, "g", None)["topics"] == []


def test_deleting_a_topic_deletes_its_offsets(house: House, topic_id: uuid.UUID) -> None:
    house.ask("delete_topics", 6, topics=[{"name": "t"}])
    assert _fetch(house, 9, "g", None)["topics"] == []
    house.topic("t", 2)
    (topic,) = _fetch(house, 9, "g", [{"name": "t", "partition_indexes": [0]}])["topics"]
    assert topic["partitions"] == [_partition(0, -1, "")]


def test_of_a_topic_without_an_id_only_names_can_tell(house: House, topic_id: uuid.UUID) -> None:
    _commit_for(house, "gone", bytes(16))
    named = _fetch(house, 9, "g", None)["topics"]
    assert {each["name"] for each in named} == {"t", "gone"}
    (told,) = _fetch(house, 10, "g", None)["topics"]
    assert told["topic_id"] == topic_id


@pytest.mark.parametrize("version", [9, 10])
def test_a_member_that_the_group_does_not_know_is_refused(house: House, version: int) -> None:
    house.topic("t")
    coordinate(house)
    beat = {
        "group_id": "c",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": timedelta(seconds=9),
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    joined = say(house, "consumer_group_heartbeat", 1, **beat)
    assert joined["error_code"] == "none"
    epoch = joined["member_epoch"]
    for member, at, error in (
        ("m", epoch, "none"),
        ("m", epoch + 1, "stale_member_epoch"),
        ("x", epoch, "unknown_member_id"),
    ):
        told = _fetch(house, version, "c", None, member_id=member, member_epoch=at)
        assert told["error_code"] == error
