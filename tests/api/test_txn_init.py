"""InitProducerId with a transactional id: one owner at a time, and zombies learn it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.group_talk import say
from tests.api.txn_talk import SETTINGS, add, coordinate, init, init_body, state, until

if TYPE_CHECKING:
    from tests.api.conftest import House

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


@pytest.fixture(autouse=True)
def coordinator(house: House) -> None:
    coordinate(house)


@pytest.mark.parametrize("version", range(6))
def test_every_owner_gets_the_next_epoch_of_the_same_id(house: House, version: int) -> None:
    first, second = init(house, version=version), init(house, version=version)
    assert (first.epoch, second.epoch) == (0, 1)
    assert second.producer_id == first.producer_id
    assert init(house, "another", version).producer_id != first.producer_id


@pytest.mark.parametrize(
    ("version", "error"),
    [(3, "invalid_producer_epoch"), (4, "producer_fenced"), (5, "producer_fenced")],
)
def test_a_zombie_is_fenced_in_the_words_of_its_version(
    house: House, version: int, error: str
) -> None:
    zombie = init(house)
    init(house)
    init(house)
    claim = {"producer_id": zombie.producer_id, "producer_epoch": zombie.epoch}
    answer = say(house, "init_producer_id", version, **init_body("t", **claim))
    assert answer["error_code"] == error
    assert (answer["producer_id"], answer["producer_epoch"]) == (-1, -1)


def test_the_owner_may_say_who_it_is(house: House) -> None:
    first = init(house)
    claim: dict[str, Any] = {"producer_id": first.producer_id, "producer_epoch": first.epoch}
    assert init(house, **claim).epoch == 1
    assert init(house, **claim).epoch == 1, "who was not answered asks again"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"producer_id": 5}, "invalid_request"),
        ({"producer_epoch": 5}, "invalid_request"),
        ({"transactional_id": ""}, "invalid_request"),
        ({"transaction_timeout": timedelta(0)}, "invalid_transaction_timeout"),
        ({"transaction_timeout": timedelta(minutes=16)}, "invalid_transaction_timeout"),
    ],
)
def test_refusals(house: House, change: dict[str, Any], error: str) -> None:
    answer = say(house, "init_producer_id", 5, **{**init_body("t"), **change})
    assert answer["error_code"] == error
    assert (answer["producer_id"], answer["producer_epoch"]) == (-1, -1)


@pytest.mark.parametrize("version", [0, 5])
def test_what_the_last_owner_left_open_is_aborted_first(house: House, version: int) -> None:
    house.topic("t")
    zombie = init(house)
    assert add(house, zombie, ("t", 0)) == ["none"]
    answer = say(house, "init_producer_id", version, **init_body("t"))
    assert answer["error_code"] == "concurrent_transactions"
    until(house, lambda: state(house) == "CompleteAbort")
    assert init(house, version=version).epoch > zombie.epoch
    assert add(house, zombie, ("t", 0)) == ["producer_fenced"]
    assert add(house, zombie, ("t", 0), version=1) == ["invalid_producer_epoch"]


def test_there_is_no_coordinator_before_somebody_looked_for_it(house: House) -> None:
    house.run(house.cluster.delete_topics(["__transaction_state"]))
    answer = say(house, "init_producer_id", 5, **init_body("t"))
    assert answer["error_code"] == "not_coordinator"
    coordinate(house)
    assert init(house).epoch == 0
