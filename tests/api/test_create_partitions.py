"""CreatePartitions: topics grow and never shrink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House


def _grow(house: House, *topics: tuple[str, int, Any], **more: Any) -> list[Any]:
    rows = [
        {"name": name, "count": count, "assignments": assignments}
        for name, count, assignments in topics
    ]
    found: list[Any] = house.ask("create_partitions", 3, topics=rows, **more)["results"]
    return found


def _assignments(*replicas: list[int]) -> list[dict[str, list[int]]]:
    return [{"broker_ids": each} for each in replicas]


def test_new_partitions_are_usable_at_once(house: House) -> None:
    house.topic("grows", 2)
    assert _grow(house, ("grows", 4, None)) == [
        {"name": "grows", "error_code": "none", "error_message": None}
    ]
    house.append("grows", 1, index=3)
    assert house.partition("grows", 3).high_watermark == 1


def test_assigned_by_hand(house: House) -> None:
    house.topic("grows", 2)
    (answer,) = _grow(house, ("grows", 3, _assignments([1])))
    assert answer["error_code"] == "none"
    assert len(house.cluster.image.topics["grows"].partitions) == 3


def test_validate_only(house: House) -> None:
    house.topic("grows", 2)
    (answer,) = _grow(house, ("grows", 4, None), validate_only=True)
    assert answer["error_code"] == "none"
    assert len(house.cluster.image.topics["grows"].partitions) == 2


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (("grows", 1, None), "invalid_partitions"),
        (("grows", 2, None), "invalid_partitions"),
        (("grows", 0, None), "invalid_partitions"),
        (("grows", -1, None), "invalid_partitions"),
        (("grows", 2**31 - 1, None), "invalid_partitions"),
        (("never", 3, None), "unknown_topic_or_partition"),
        (("a/b", 3, None), "unknown_topic_or_partition"),
        (("grows", 5, _assignments([1])), "invalid_replica_assignment"),
        (("grows", 3, []), "invalid_replica_assignment"),
        (("grows", 3, _assignments([9])), "invalid_replica_assignment"),
        (("grows", 3, _assignments([1, 1])), "invalid_replica_assignment"),
    ],
)
def test_refusals(house: House, topic: tuple[str, int, Any], error: str) -> None:
    house.topic("grows", 2)
    (answer,) = _grow(house, topic)
    assert answer["error_code"] == error
    assert answer["error_message"]
    assert len(house.cluster.image.topics["grows"].partitions) == 2


def test_each_topic_by_itself_in_order(house: House) -> None:
    house.topic("grows", 2)
    house.topic("stays", 1)
    answers = _grow(house, ("grows", 3, None), ("unknown", 2, None), ("stays", 1, None))
    errors = [(each["name"], each["error_code"]) for each in answers]
    assert errors == [
        ("grows", "none"),
        ("unknown", "unknown_topic_or_partition"),
        ("stays", "invalid_partitions"),
    ]


def test_the_same_topic_twice_is_refused(house: House) -> None:
    house.topic("grows", 2)
    (answer,) = _grow(house, ("grows", 3, None), ("grows", 4, None))
    assert answer["error_code"] == "invalid_request"
    assert len(house.cluster.image.topics["grows"].partitions) == 2
