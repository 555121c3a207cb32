"""InitProducerId: every idempotent producer gets an id of its own. (`test_txn_init.py`: the
others.)"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House

_NEW: dict[str, Any] = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}


def test_ids_are_new_and_begin_at_epoch_0(house: House) -> None:
    answers = [house.ask("init_producer_id", 4, **_NEW) for _ in range(5)]
    assert len({each["producer_id"] for each in answers}) == 5
    assert {(each["error_code"], each["producer_epoch"]) for each in answers} == {("none", 0)}


def test_ids_stay_new_from_block_to_block_and_at_once(house: House) -> None:
    async def take(count: int) -> list[int]:
        ids = house.services.producer_ids
        return await asyncio.gather(*(ids.take() for _ in range(count)))

    block = len(house.run(house.cluster.allocate_producer_ids()))
    taken = house.run(take(2 * block + 1))
    assert len(set(taken)) == len(taken)
    assert taken == sorted(taken)


def test_a_known_id_without_transactions_is_replaced(house: House) -> None:
    first = house.ask("init_producer_id", 4, **_NEW)
    again = {**_NEW, "producer_id": first["producer_id"], "producer_epoch": 0}
    answer = house.ask("init_producer_id", 4, **again)
    assert answer["error_code"] == "none"
    assert answer["producer_id"] != first["producer_id"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"producer_id": 5}, "invalid_request"),
        ({"producer_epoch": 5}, "invalid_request"),
        ({"transactional_id": ""}, "invalid_request"),
    ],
)
def test_refusals(house: House, change: dict[str, Any], error: str) -> None:
    answer = house.ask("init_producer_id", 4, **{**_NEW, **change})
    assert answer["error_code"] == error
    assert (answer["producer_id"], answer["producer_epoch"]) == (-1, -1)
