"""The topic that groups live in is the broker's own: clients may look at it, not write to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.api.group_talk import MINUTE, SETTINGS, commit_body, coordinate, say
from tests.api.hot_path import batch, produce_frame

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)

_NAME = "__consumer_offsets"


@pytest.fixture(autouse=True)
def topic(house: House) -> None:
    coordinate(house)


@pytest.mark.parametrize("version", [3, 12])
def test_takes_no_records_from_clients(house: House, version: int) -> None:
    end = house.partition(_NAME).log.end_offset
    for _ in range(3):  # The second is like the first: it must not take the quick lane.
        answer = house.send(produce_frame(house, version, (_NAME, 0, batch(b"v", key=b"k"))))
        (response,) = house.decode(0, version, answer)["responses"]
        (partition,) = response["partition_responses"]
        assert partition["error_code"] == "invalid_topic_exception"
    assert house.partition(_NAME).log.end_offset == end


def test_keeps_its_records(house: House) -> None:
    partitions = [{"partition_index": 0, "offset": 0}]
    answer = house.ask("delete_records", 2, topics=[{"name": _NAME, "partitions": partitions}])
    assert answer["topics"][0]["partitions"][0]["error_code"] == "invalid_topic_exception"


def test_is_there_already(house: House) -> None:
    new = {"name": _NAME, "num_partitions": 1, "replication_factor": 1}
    answer = house.ask("create_topics", 7, topics=[new])
    assert answer["topics"][0]["error_code"] == "topic_already_exists"


def test_is_told_to_be_internal(house: House) -> None:
    (told,) = house.ask("metadata", 12, topics=[{"name": _NAME}])["topics"]
    assert (told["error_code"], told["is_internal"]) == ("none", True)
    assert len(told["partitions"]) == 3
    everything = house.ask("metadata", 12, topics=None)["topics"]
    assert [(each["name"], each["is_internal"]) for each in everything] == [(_NAME, True)]


@pytest.mark.parametrize("validate_only", [False, True])
def test_does_not_grow_because_groups_would_not_be_found_again(
    house: House, validate_only: bool
) -> None:
    house.topic("t")
    for number in range(5):
        say(house, "offset_commit", 9, **commit_body(f"g{number}", "t", (0, number)))
    growth = {"name": _NAME, "count": 7, "assignments": None}
    answer = say(
        house,
        "create_partitions",
        3,
        topics=[growth],
        timeout=MINUTE,
        validate_only=validate_only,
    )
    assert answer["results"][0]["error_code"] == "invalid_topic_exception"
    for number in range(5):
        topics = [{"name": "t", "partition_indexes": [0]}]
        asked = {"group_id": f"g{number}", "member_epoch": -1, "topics": topics}
        (group,) = say(house, "offset_fetch", 9, groups=[asked])["groups"]
        assert group["topics"][0]["partitions"][0]["committed_offset"] == number
