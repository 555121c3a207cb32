"""DescribeProducers: who has written here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.api.conftest import House


def _ask(house: House, **topics: list[int]) -> dict[str, Any]:
    rows = [{"name": name, "partition_indexes": indexes} for name, indexes in topics.items()]
    answer = house.ask("describe_producers", 0, topics=rows)
    return {each["name"]: each["partitions"] for each in answer["topics"]}


def test_the_newest_sequence_of_each_producer(house: House) -> None:
    house.topic("once", 2)
    house.append("once", 100, 200, producer_id=7, producer_epoch=3, base_sequence=0)
    house.append("once", 300, producer_id=7, producer_epoch=3, base_sequence=2)
    house.append("once", 400)
    written, empty = _ask(house, once=[0, 1])["once"]
    assert written == {
        "partition_index": 0,
        "error_code": "none",
        "error_message": None,
        "active_producers": [
            {
                "producer_id": 7,
                "producer_epoch": 3,
                "last_sequence": 2,
                "last_timestamp": 300,
                "coordinator_epoch": -1,
                "current_txn_start_offset": -1,
            }
        ],
    }
    assert (empty["error_code"], empty["active_producers"]) == ("none", [])


def test_what_is_not_here(house: House) -> None:
    house.topic("once")
    answer = _ask(house, **{"once": [9], "never": [0], "a/b": [0]})
    errors = {name: rows[0]["error_code"] for name, rows in answer.items()}
    assert errors == {
        "once": "unknown_topic_or_partition",
        "never": "unknown_topic_or_partition",
        "a/b": "invalid_topic_exception",
    }
    assert "Topic name is invalid" in answer["a/b"][0]["error_message"]


def test_each_partition_is_told_once(house: House) -> None:
    house.topic("once")
    assert len(_ask(house, once=[0] * 10_000)["once"]) == 1


def test_no_topics(house: House) -> None:
    assert _ask(house) == {}
