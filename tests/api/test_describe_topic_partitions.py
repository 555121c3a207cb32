"""DescribeTopicPartitions: pages of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House


def _ask(house: House, *names: str, limit: int = 2000, cursor: Any = None) -> Any:
    topics = [{"name": name} for name in names]
    body = {"topics": topics, "response_partition_limit": limit, "cursor": cursor}
    return house.ask("describe_topic_partitions", 0, **body)


def _rows(answer: Any) -> list[tuple[str, list[int]]]:
    return [
        (topic["name"], [each["partition_index"] for each in topic["partitions"]])
        for topic in answer["topics"]
    ]


def _two_topics(house: House) -> None:
    house.topic("parts-b", 3)
    house.topic("parts-a", 3)


def test_topics_come_in_order_and_once(house: House) -> None:
    _two_topics(house)
    answer = _ask(house, "parts-b", "not-there", "parts-a", "parts-b")
    assert _rows(answer) == [("not-there", []), ("parts-a", [0, 1, 2]), ("parts-b", [0, 1, 2])]
    assert answer["topics"][0]["error_code"] == "unknown_topic_or_partition"
    assert {each["topic_authorized_operations"] for each in answer["topics"]} == {3576}
    assert answer["next_cursor"] is None


def test_no_topics_means_all(house: House) -> None:
    _two_topics(house)
    assert [name for name, _ in _rows(_ask(house))] == ["parts-a", "parts-b"]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("names", [(), ("parts-b", "parts-a")])
def test_pages_put_together_are_everything(
    house: House, limit: int, names: tuple[str, ...]
) -> None:
    _two_topics(house)
    cursor, seen = None, []
    while True:
        answer = _ask(house, *names, limit=limit, cursor=cursor)
        page = [(name, index) for name, indexes in _rows(answer) for index in indexes]
        assert 0 < len(page) <= limit
        seen += page
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    assert seen == [(name, n) for name in ("parts-a", "parts-b") for n in range(3)]


@pytest.mark.parametrize("limit", [0, -5])
def test_a_page_has_at_least_one_partition(house: House, limit: int) -> None:
    _two_topics(house)
    assert _rows(_ask(house, limit=limit)) == [("parts-a", [0])]


@pytest.mark.parametrize("house", [{"max.request.partition.size.limit": "2"}], indirect=True)
def test_the_broker_has_a_limit_too(house: House) -> None:
    _two_topics(house)
    answer = _ask(house, limit=2000)
    assert _rows(answer) == [("parts-a", [0, 1])]
    assert answer["next_cursor"] == {"topic_name": "parts-a", "partition_index": 2}


@pytest.mark.parametrize(
    "cursor",
    [
        {"topic_name": "parts-b", "partition_index": -1},
        {"topic_name": "elsewhere", "partition_index": 0},
    ],
)
def test_bad_cursors(house: House, cursor: Any) -> None:
    _two_topics(house)
    answer = _ask(house, "parts-b", "parts-a", cursor=cursor)
    assert [each["error_code"] for each in answer["topics"]] == ["invalid_request"] * 2
    assert _rows(answer) == [("parts-b", []), ("parts-a", [])]


def test_a_cursor_behind_the_last_partition(house: House) -> None:
    _two_topics(house)
    cursor = {"topic_name": "parts-a", "partition_index": 2**31 - 1}
    answer = _ask(house, cursor=cursor)
    assert _rows(answer) == [("parts-a", []), ("parts-b", [0, 1, 2])]


def test_invalid_name(house: House) -> None:
    (topic,) = _ask(house, "a/b")["topics"]
    assert topic["error_code"] == "invalid_topic_exception"


def test_a_page_that_ends_with_a_topic_says_nothing_of_the_next(house: House) -> None:
    _two_topics(house)
    answer = _ask(house, limit=3)
    assert _rows(answer) == [("parts-a", [0, 1, 2])]
    assert answer["next_cursor"] == {"topic_name": "parts-b", "partition_index": 0}
