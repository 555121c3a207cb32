"""EndTxn, and what can be seen of transactions: DescribeTransactions, ListTransactions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.group_talk import say
from tests.api.hot_path import StillClock
from tests.api.txn_talk import SETTINGS, add, coordinate, describe, end, finish, init, state

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


@pytest.fixture(autouse=True)
def coordinator(house: House) -> None:
    coordinate(house)
    house.topic("t", 2)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", range(5))
def test_the_older_generation_keeps_its_epoch(house: House, version: int, committed: bool) -> None:
    producer = init(house)
    for _ in range(2):
        add(house, producer, ("t", 0))
        assert state(house) == "Ongoing"
        answer = finish(house, producer, committed=committed, version=version)
        assert answer.keys() == {"throttle_time", "error_code"}


@pytest.mark.parametrize("committed", [True, False])
def test_the_newer_generation_gets_an_epoch_for_each_transaction(
    house: House, committed: bool
) -> None:
    producer = init(house)
    for _ in range(3):
        add(house, producer, ("t", 0), version=5)
        answer = finish(house, producer, committed=committed, version=5)
        assert answer["producer_id"] == producer.producer_id
        assert answer["producer_epoch"] == producer.epoch + 1
        again = end(house, producer, committed=committed, version=5)
        assert again == answer, "who was not answered asks again"
        producer = producer._replace(epoch=answer["producer_epoch"])


@pytest.mark.parametrize("version", range(6))
def test_only_the_owner_ends(house: House, version: int) -> None:
    producer = init(house)
    add(house, producer, ("t", 0))
    fenced = "invalid_producer_epoch" if version < 2 else "producer_fenced"
    mapping = "invalid_producer_id_mapping"
    for stranger, error in (
        (producer._replace(name=""), "invalid_request"),
        (producer._replace(name="x"), mapping),
        (producer._replace(producer_id=77), mapping),
        (producer._replace(epoch=5), fenced),
    ):
        answer = end(house, stranger, committed=True, version=version)
        assert answer["error_code"] == error
        assert answer.get("producer_id", -1) == answer.get("producer_epoch", -1) == -1
    assert state(house) == "Ongoing"


@pytest.mark.parametrize("version", range(5))
def test_what_has_not_begun_can_not_end(house: House, version: int) -> None:
    producer = init(house)
    assert end(house, producer, committed=True, version=version)["error_code"] == (
        "invalid_txn_state"
    )


def test_a_transaction_can_not_end_both_ways(house: House) -> None:
    producer = init(house)
    add(house, producer, ("t", 0))
    finish(house, producer, committed=True)
    assert end(house, producer, committed=True)["error_code"] == "none"
    assert end(house, producer, committed=False)["error_code"] == "invalid_txn_state"


def test_descriptions(house: House) -> None:
    producer = init(house)
    idle, missing, nameless = describe(house, "t", "never", "")
    assert idle == {
        "error_code": "none",
        "transactional_id": "t",
        "transaction_state": "Empty",
        "transaction_timeout": timedelta(minutes=1),
        "transaction_start_time": datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
        "producer_id": producer.producer_id,
        "producer_epoch": 0,
        "topics": [],
    }
    nothing = {
        "transaction_state": "",
        "transaction_timeout": timedelta(0),
        "transaction_start_time": datetime(1970, 1, 1, tzinfo=UTC),
        "producer_id": 0,
        "producer_epoch": 0,
        "topics": [],
    }
    told = {"error_code": "transactional_id_not_found", "transactional_id": "never", **nothing}
    assert missing == told
    assert nameless == {"error_code": "invalid_request", "transactional_id": "", **nothing}
    house.topic("a")
    add(house, producer, ("t", 1), ("t", 0), ("a", 0))
    (ongoing,) = describe(house, "t")
    assert ongoing["transaction_state"] == "Ongoing"
    assert ongoing["topics"] == [
        {"topic": "a", "partitions": [0]},
        {"topic": "t", "partitions": [0, 1]},
    ]
    finish(house, producer, committed=True)
    (complete,) = describe(house, "t")
    assert complete["topics"] == []


def _listed(house: House, version: int = 2, **filters: Any) -> dict[str, tuple[int, str]]:
    answer = say(house, "list_transactions", version, duration_filter=-1, **filters)
    assert answer["error_code"] == "none"
    assert answer["unknown_state_filters"] == []
    return {
        each["transactional_id"]: (each["producer_id"], each["transaction_state"])
        for each in answer["transaction_states"]
    }


@pytest.mark.parametrize("version", range(3))
def test_lists_by_state_and_producer(house: House, version: int) -> None:
    assert _listed(house, version) == {}
    idle, busy = init(house, "idle"), init(house, "busy")
    add(house, busy, ("t", 0))
    rows = {"idle": (idle.producer_id, "Empty"), "busy": (busy.producer_id, "Ongoing")}
    assert _listed(house, version) == rows
    only_busy = {"busy": rows["busy"]}
    assert _listed(house, version, state_filters=["Ongoing", "Dead"]) == only_busy
    assert _listed(house, version, producer_id_filters=[busy.producer_id, 99]) == only_busy
    both = {"state_filters": ["Empty"], "producer_id_filters": [busy.producer_id]}
    assert _listed(house, version, **both) == {}


def test_names_that_no_state_has_are_told(house: House) -> None:
    init(house)
    filters = ["ongoing", "Nonsense", "Nonsense"]
    answer = say(house, "list_transactions", 2, duration_filter=-1, state_filters=filters)
    assert answer["error_code"] == "none"
    assert answer["unknown_state_filters"] == ["ongoing", "Nonsense"]
    assert answer["transaction_states"] == []


def test_lists_by_pattern(house: House) -> None:
    for name in ("orders-1", "orders-2", "other"):
        init(house, name)
    assert _listed(house, transactional_id_pattern="orders-.*").keys() == {"orders-1", "orders-2"}
    assert _listed(house, transactional_id_pattern="orders").keys() == set(), "the whole of it"
    assert len(_listed(house, transactional_id_pattern="")) == 3
    answer = say(house, "list_transactions", 2, duration_filter=-1, transactional_id_pattern="(")
    assert answer["error_code"] == "invalid_regular_expression"
    assert answer["transaction_states"] == []


def test_lists_by_duration(house: House, build_house: Callable[..., House]) -> None:
    clock = StillClock()
    house = build_house(SETTINGS, clock=clock)
    coordinate(house)
    house.topic("t")
    init(house, "idle")
    producer = init(house, "busy")
    add(house, producer, ("t", 0))
    clock.now_ms += 1000
    for version in (1, 2):
        for longer_than_ms, found in ((999, {"busy", "idle"}), (1000, {"idle"})):
            # What has not begun is let through whatever the duration: so in Kafka.
            answer = say(house, "list_transactions", version, duration_filter=longer_than_ms)
            names = {each["transactional_id"] for each in answer["transaction_states"]}
            assert names == found
