"""AddPartitionsToTxn and AddOffsetsToTxn: what belongs to a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.api.group_talk import say
from tests.api.txn_talk import SETTINGS, Identity, add, add_body, coordinate, describe, finish, init

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


@pytest.fixture(autouse=True)
def coordinator(house: House) -> None:
    coordinate(house)
    house.topic("t", 2)


def _partitions(house: House) -> list[tuple[str, list[int]]]:
    (told,) = describe(house, "t")
    return [(each["topic"], each["partitions"]) for each in told["topics"]]


@pytest.mark.parametrize("version", range(6))
def test_partitions_are_added(house: House, version: int) -> None:
    house.topic("u")
    producer = init(house)
    partitions = [("t", 1), ("u", 0)]
    assert add(house, producer, *partitions, version=version) == ["none", "none"]
    assert add(house, producer, ("t", 0), ("t", 0), version=version) == ["none", "none"]
    assert _partitions(house) == [("t", [0, 1]), ("u", [0])]


@pytest.mark.parametrize("version", range(6))
def test_all_or_none(house: House, version: int) -> None:
    producer = init(house)
    partitions = [("t", 0), ("t", 2), ("t", -1), ("never", 0)]
    assert add(house, producer, *partitions, version=version) == [
        "operation_not_attempted",
        "unknown_topic_or_partition",
        "unknown_topic_or_partition",
        "unknown_topic_or_partition",
    ]
    assert _partitions(house) == []


@pytest.mark.parametrize(
    ("version", "error"), [(3, "topic_authorization_failed"), (4, "none"), (5, "none")]
)
def test_only_brokers_add_internal_topics(house: House, version: int, error: str) -> None:
    house.ask("find_coordinator", 4, coordinator_keys=["g"])
    producer = init(house)
    assert add(house, producer, ("__consumer_offsets", 0), version=version) == [error]


_MISTAKES: dict[str, tuple[dict[str, Any], str, str]] = {
    "no name": ({"name": ""}, "invalid_request", "invalid_request"),
    "unknown": ({"name": "x"}, "invalid_producer_id_mapping", "invalid_producer_id_mapping"),
    "another": (
        {"producer_id": 77},
        "invalid_producer_id_mapping",
        "invalid_producer_id_mapping",
    ),
    "zombie": ({"epoch": -1}, "invalid_producer_epoch", "producer_fenced"),
    "future": ({"epoch": 7}, "invalid_producer_epoch", "producer_fenced"),
}
"""What is wrong with the producer, and what it is told before version 2 and from there on."""


@pytest.mark.parametrize("mistake", _MISTAKES)
@pytest.mark.parametrize("version", range(6))
def test_only_the_owner_adds(house: House, version: int, mistake: str) -> None:
    change, before, since = _MISTAKES[mistake]
    stranger = init(house)._replace(**change)
    error = before if version < 2 else since
    assert add(house, stranger, ("t", 0), ("t", 1), version=version) == [error, error]


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_may_ask_without_adding(house: House, version: int) -> None:
    producer = init(house)
    verify: dict[str, Any] = {"version": version, "verify_only": True}
    assert add(house, producer, ("t", 0), **verify) == ["transaction_abortable"]
    add(house, producer, ("t", 0))
    assert add(house, producer, ("t", 0), ("t", 1), **verify) == ["none", "transaction_abortable"]
    assert add(house, producer, ("t", 0), ("never", 1), **verify) == [
        "operation_not_attempted",
        "unknown_topic_or_partition",
    ]
    assert add(house, producer._replace(epoch=7), ("t", 0), **verify) == ["producer_fenced"]
    assert add(house, producer._replace(name=""), ("t", 0), **verify) == ["invalid_request"]
    stranger = producer._replace(name="x")
    assert add(house, stranger, ("t", 0), **verify) == ["invalid_producer_id_mapping"]
    finish(house, producer, committed=True)
    assert add(house, producer, ("t", 0), **verify) == ["transaction_abortable"]


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_ask_about_many(house: House, version: int) -> None:
    one, two = init(house, "one"), init(house, "two")
    bodies = [add_body(one, ("t", 0)), add_body(two, ("t", 1), verify_only=True)]
    transactions = [each for body in bodies for each in body["transactions"]]
    answer = say(house, "add_partitions_to_txn", version, transactions=transactions)
    assert answer["error_code"] == "none"
    told = {
        each["transactional_id"]: [
            row["partition_error_code"]
            for topic in each["topic_results"]
            for row in topic["results_by_partition"]
        ]
        for each in answer["results_by_transaction"]
    }
    assert told == {"one": ["none"], "two": ["transaction_abortable"]}
    nothing = say(house, "add_partitions_to_txn", version, transactions=[])
    assert (nothing["error_code"], nothing["results_by_transaction"]) == ("none", [])


def _add_offsets(house: House, producer: Identity, version: int) -> str:
    answer = say(house, "add_offsets_to_txn", version, **producer.body, group_id="g")
    code: str = answer["error_code"]
    return code


@pytest.mark.parametrize("version", range(5))
def test_the_offsets_of_a_group_are_added(house: House, version: int) -> None:
    producer = init(house)
    assert _add_offsets(house, producer, version) == "none"
    ((topic, partitions),) = _partitions(house)
    assert topic == "__consumer_offsets", "the topic was made for it"
    assert len(partitions) == 1
    assert _add_offsets(house, producer, version) == "none"


@pytest.mark.parametrize("mistake", _MISTAKES)
@pytest.mark.parametrize("version", range(5))
def test_only_the_owner_adds_offsets(house: House, version: int, mistake: str) -> None:
    change, before, since = _MISTAKES[mistake]
    stranger = init(house)._replace(**change)
    assert _add_offsets(house, stranger, version) == (before if version < 2 else since)
