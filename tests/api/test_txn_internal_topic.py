"""The topic that transactions live in is the broker's own: clients may look, not touch."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.api.group_talk import say
from tests.api.hot_path import batch, produce
from tests.api.txn_talk import SETTINGS, coordinate, init

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)

_NAME = "__transaction_state"


@pytest.fixture(autouse=True)
def topic(house: House) -> None:
    coordinate(house)


@pytest.mark.parametrize("version", [3, 12, 13])
def test_takes_no_records_from_clients(house: House, version: int) -> None:
    init(house)
    ends = [house.partition(_NAME, index).log.end_offset for index in range(2)]
    for _ in range(2):
        (row,) = produce(house, version, (_NAME, 0, batch(b"v", key=b"k")))
        assert row["error_code"] == "invalid_topic_exception"
    assert [house.partition(_NAME, index).log.end_offset for index in range(2)] == ends


def test_keeps_its_records(house: House) -> None:
    partitions = [{"partition_index": 0, "offset": 0}]
    answer = house.ask("delete_records", 2, topics=[{"name": _NAME, "partitions": partitions}])
    assert answer["topics"][0]["partitions"][0]["error_code"] == "invalid_topic_exception"


def test_is_told_to_be_internal(house: House) -> None:
    (told,) = house.ask("metadata", 12, topics=[{"name": _NAME}])["topics"]
    assert (told["error_code"], told["is_internal"]) == ("none", True)
    assert len(told["partitions"]) == 2
    asked = {"topics": [{"name": _NAME}], "response_partition_limit": 10}
    (told,) = say(house, "describe_topic_partitions", 0, **asked)["topics"]
    assert told["is_internal"]


def test_does_not_grow_because_transactions_would_not_be_found_again(house: House) -> None:
    growth = {"name": _NAME, "count": 7, "assignments": None}
    answer = say(house, "create_partitions", 3, topics=[growth], timeout=timedelta(minutes=1))
    assert answer["results"][0]["error_code"] == "invalid_topic_exception"


def test_is_not_made_by_asking_for_it(house: House) -> None:
    house.run(house.cluster.delete_topics([_NAME]))
    (told,) = house.ask("metadata", 12, topics=[{"name": _NAME}])["topics"]
    assert told["error_code"] == "unknown_topic_or_partition"
    assert _NAME not in house.cluster.image.topics


def test_ids_are_found_again_by_the_next_broker(house: House) -> None:
    before = [init(house, f"id-{number}") for number in range(5)]
    house.run(_elect_again(house))
    coordinate(house)
    after = [init(house, f"id-{number}") for number in range(5)]
    assert [each.producer_id for each in after] == [each.producer_id for each in before]
    assert {each.epoch for each in after} == {1}


async def _elect_again(house: House) -> None:
    house.coordinators.close()
    house.coordinators.start()
