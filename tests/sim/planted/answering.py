"""Mistakes in what is told to clients, and when."""

import asyncio
from typing import Any

import pytest

from barnabas.api import fetch
from barnabas.coordinator.runtime import seat
from barnabas.coordinator.runtime.waiting import deliver
from barnabas.log.log import Appended
from barnabas.log.transactions import Transactions
from barnabas.replica.partition import Partition


def acknowledged_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    honest = Partition.append

    def append(
        self: Partition, *arguments: Any, **options: Any
    ) -> tuple[Appended, "asyncio.Future[None] | None"]:
        appended, committed = honest(self, *arguments, **options)
        if committed is not None:
            committed.cancel()
        return appended, None

    patch.setattr(Partition, "append", append)


def groups_answer_before_they_have_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(seat.Seat, "_deliver_once_committed", lambda _self, replies: deliver(replies))


def readers_see_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    honest = fetch._read_records

    def read_records(partition: Partition, part: Any, _up_to: int, reading: Any) -> Any:
        return honest(partition, part, partition.log.end_offset, reading)

    patch.setattr(fetch, "_read_records", read_records)


def the_end_of_a_transaction_counts_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    """The last stable offset leaves out only what is still open."""

    def first_unstable(self: Transactions, high_watermark: int) -> int | None:
        self.settle(high_watermark)
        return self.first_undecided()

    patch.setattr(Transactions, "first_unstable", first_unstable)


def a_new_leader_tells_an_end_that_it_does_not_know(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "is_behind_its_epoch", False)


PLANTS = (
    acknowledged_before_it_is_committed,
    groups_answer_before_they_have_committed,
    readers_see_what_is_not_committed,
    the_end_of_a_transaction_counts_before_it_is_committed,
    a_new_leader_tells_an_end_that_it_does_not_know,
)
