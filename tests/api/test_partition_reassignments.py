"""AlterPartitionReassignments and ListPartitionReassignments, as one broker answers them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.cluster.image import BrokerNode

if TYPE_CHECKING:
    from tests.api.conftest import House


def _ask(house: House, *partitions: tuple[int, list[int] | None], **more: Any) -> Any:
    rows = [{"partition_index": number, "replicas": replicas} for number, replicas in partitions]
    topics = [{"name": more.pop("topic", "there"), "partitions": rows}]
    return house.ask("alter_partition_reassignments", 1, topics=topics, **more)


def _results(answer: Any) -> list[tuple[str, str | None]]:
    assert answer["error_code"] == "none"
    (topic,) = answer["responses"]
    return [(each["error_code"], each["error_message"]) for each in topic["partitions"]]


def _under_way(house: House, **asked: Any) -> dict[str, Any]:
    answer = house.ask("list_partition_reassignments", 0, **{"topics": None, **asked})
    assert answer["error_code"] == "none"
    return {each["name"]: each["partitions"] for each in answer["topics"]}


@pytest.fixture
def two(house: House) -> House:
    """It believes that there is a second broker, which does nothing."""
    house.topic("there", 2)
    view = house.cluster._view
    view.found_brokers({**view.image.brokers, 2: BrokerNode(2, "elsewhere", 9092)})
    return house


INVALID = "The manual partition assignment is invalid: "


@pytest.mark.parametrize(
    ("number", "replicas", "error", "says"),
    [
        (0, [], "invalid_replica_assignment", INVALID + "it includes an empty replica list."),
        (
            0,
            [1, 7],
            "invalid_replica_assignment",
            INVALID + "it includes broker 7, but no such broker is registered.",
        ),
        (
            0,
            [1, 1],
            "invalid_replica_assignment",
            INVALID + "it includes the broker 1 more than once.",
        ),
        (0, None, "no_reassignment_in_progress", "No partition reassignment is in progress."),
        (9, [1], "unknown_topic_or_partition", "Unable to find partition there:9."),
        (-1, [1], "unknown_topic_or_partition", "Unable to find partition there:-1."),
    ],
)
def test_what_is_refused_says_why(
    house: House, number: int, replicas: list[int] | None, error: str, says: str
) -> None:
    house.topic("there", 1)
    assert _results(_ask(house, (number, replicas))) == [(error, says)]


def test_an_unknown_topic(house: House) -> None:
    assert _results(_ask(house, (0, [1]), topic="never")) == [
        ("unknown_topic_or_partition", "Unable to find a topic named never.")
    ]


def test_replicas_it_has_already_are_no_move(house: House) -> None:
    house.topic("there", 1)
    assert _results(_ask(house, (0, [1]))) == [("none", None)]
    assert _under_way(house) == {}


def test_a_move_is_begun_told_of_and_taken_back(two: House) -> None:
    assert _results(_ask(two, (1, [2]), (0, [5]))) == [
        ("none", None),
        ("invalid_replica_assignment", INVALID + "it includes broker 5, but no such broker is "
        "registered."),
    ]  # fmt: skip
    moving = {
        "partition_index": 1,
        "replicas": [2, 1],
        "adding_replicas": [2],
        "removing_replicas": [1],
    }
    assert _under_way(two) == {"there": [moving]}
    (told,) = two.ask("metadata", 12, topics=[{"name": "there"}])["topics"]
    assert [each["replica_nodes"] for each in told["partitions"]] == [[1], [2, 1]]
    some = [{"name": "there", "partition_indexes": [0, 1, 9]}, {"name": "never"}]
    assert _under_way(two, topics=some) == {"there": [moving]}
    assert _under_way(two, topics=[{"name": "there", "partition_indexes": [0]}]) == {}
    assert _results(_ask(two, (1, [1, 2]))) == [("none", None)]
    assert _under_way(two)["there"] == [
        {**moving, "replicas": [1, 2], "adding_replicas": [2], "removing_replicas": []}
    ]
    assert _results(_ask(two, (1, None))) == [("none", None)]
    assert _under_way(two) == {}
    two.append("there", 1, index=1)
    assert two.partition("there", 1).high_watermark == 1


def test_the_number_of_replicas_stays_where_that_is_asked_for(two: House) -> None:
    answer = _ask(two, (0, [1, 2]), allow_replication_factor_change=False)
    assert answer["allow_replication_factor_change"] is False
    assert _results(answer) == [
        ("invalid_replication_factor", "The replication factor is changed from 1 to 2.")
    ]
    assert _results(_ask(two, (0, [1, 2]))) == [("none", None)]


def test_a_broker_that_leaves_gets_nothing_new_to_lead(two: House) -> None:
    view = two.cluster._view
    leaving = replace(view.image.brokers[2], leaving=True)
    view.found_brokers({**view.image.brokers, 2: leaving})
    assert _results(_ask(two, (0, [2]))) == [("none", None)]
    assert two.cluster.image.topics["there"].partitions[0].leader == 1
