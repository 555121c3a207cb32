"""What was fetched ahead when a transaction is aborted: nothing overtakes what comes again.

The library and the broker are played by a script, since neither fails at a chosen moment.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.client.errors import TransactionError
from barnabas.client.exactly_once_copy import ExactlyOnceCopy
from barnabas.model.topics import TopicPartition

LEFT, STAYS, OTHER = (TopicPartition("t", number) for number in range(3))


class Raw:
    """A record, as the library hands it out."""

    def __init__(self, place: TopicPartition, offset: int) -> None:
        self._place, self._offset = place, offset

    def topic(self) -> str:
        return self._place.topic

    def partition(self) -> int:
        return self._place.partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 0, 0

    def key(self) -> None:
        return None

    value = headers = key


class Played:
    """Both sides: where partitions were sent to, what was committed, and what fails next."""

    def __init__(self) -> None:
        self.assigned = {LEFT, STAYS, OTHER}
        self.sought: dict[TopicPartition, int] = {}
        self.committed: list[dict[TopicPartition, int]] = []
        self.is_open = False
        self.fails = False

    def has_ahead(self) -> bool:
        return True

    def seek(self, place: TopicPartition, offset: int) -> None:
        assert not self.is_open, "nothing goes back while a transaction counts what was read"
        self.sought[place] = offset

    def begin(self) -> None:
        self.is_open = True

    def abort(self) -> None:
        self.is_open = False

    def commit(
        self, offsets: dict[TopicPartition, int], _: object = None, *, wait: bool = False
    ) -> None:
        assert wait is not self.is_open, "waited for outside of transactions only"
        self.is_open = False
        if self.fails:
            self.fails = False
            raise TransactionError("aborted", code="ILLEGAL_GENERATION", retriable=True)
        self.committed.append(dict(offsets))


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def copying(played: Played) -> Iterator[ExactlyOnceCopy]:
    both: Any = played
    yield ExactlyOnceCopy(both, both, interval_s=60.0, every=3)
    assert not played.is_open


def handed(
    copying: ExactlyOnceCopy, *raw: tuple[TopicPartition, int]
) -> list[tuple[TopicPartition, int]]:
    records: Any = [Raw(*each) for each in raw]
    return [(each.place, each.offset) for each in copying.admit(records)]


def test_what_was_fetched_before_an_abort_comes_again_after_it(
    copying: ExactlyOnceCopy, played: Played
) -> None:
    assert len(handed(copying, (STAYS, 5), (LEFT, 3), (LEFT, 4))) == 3
    played.fails = True
    copying.came_back()  # Three are enough for a commit, which fails.
    assert handed(copying, (STAYS, 6), (OTHER, 9)) == [], "5 was taken back, and comes first"
    copying.tend()
    assert played.sought == {STAYS: 5, LEFT: 3, OTHER: 9}
    assert played.committed == []


@pytest.mark.parametrize("lost", [False, True])
def test_a_partition_that_leaves_takes_its_transaction_with_it(
    copying: ExactlyOnceCopy, played: Played, lost: bool
) -> None:
    handed(copying, (LEFT, 3), (STAYS, 5))
    copying.came_back()
    played.fails = not lost
    copying.leaving([LEFT], lost=lost)
    assert handed(copying, (STAYS, 6)) == []
    copying.tend()
    assert played.sought == {STAYS: 5}, "whoever has the other now knows where it goes on"
    assert handed(copying, (STAYS, 5)) == [(STAYS, 5)]
    copying.finish()
    assert played.committed == []


def test_one_abort_after_the_other(copying: ExactlyOnceCopy, played: Played) -> None:
    handed(copying, (LEFT, 3), (STAYS, 5), (OTHER, 9))
    played.fails = True
    copying.came_back()
    copying.leaving([LEFT], lost=True)
    copying.leaving([OTHER], lost=False)
    assert handed(copying, (STAYS, 6)) == []
    copying.tend()
    assert played.sought == {STAYS: 5}


def test_whoever_asks_for_a_commit_is_told_of_the_abort(
    copying: ExactlyOnceCopy, played: Played
) -> None:
    handed(copying, (STAYS, 5), (LEFT, 3))
    played.fails = True
    with pytest.raises(TransactionError):
        copying.commit(None, wait=True)
    copying.moved(LEFT, 0)
    copying.tend()
    assert played.sought == {STAYS: 5}, "the user has gone elsewhere in the other"
