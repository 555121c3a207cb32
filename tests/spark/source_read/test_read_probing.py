"""The next sound offset is found in any log, and in few questions."""

from collections.abc import Sequence
from typing import NamedTuple, cast

from hypothesis import given
from hypothesis import strategies as st

from barnabas.model.errors import ErrorCode
from barnabas.spark.places import Place, Span
from barnabas.spark.source.cursors import Cursor
from barnabas.spark.source.lanes import Lane
from barnabas.spark.source.probing import next_sound_offset
from barnabas.wire.fetch import FetchPartitionResult
from barnabas.wire.records.record import Record, encode_batch

PLACE = Place("t", 0)
QUESTIONS_MAX = 100


class Stored(NamedTuple):
    """Offsets from `base` up to and with `last` in one batch."""

    base: int
    last: int
    damaged: bool


class CheckingBroker:
    """Answers what a broker does that looks at each batch before it serves it."""

    def __init__(self, log: Sequence[Stored]) -> None:
        self._log = log
        self._questions = 0

    def try_at(self, place: Place, offset: int) -> FetchPartitionResult:
        assert place == PLACE
        self._questions += 1
        assert self._questions < QUESTIONS_MAX, "it asks for ever"
        found = next((batch for batch in self._log if batch.last >= offset), None)
        if found is None:
            return FetchPartitionResult(0, 0, 1000, records=b"")
        if found.damaged:
            return FetchPartitionResult(0, ErrorCode.corrupt_message.value, -1, records=b"")
        records = [Record(found.last, 0, None, b"v", [])]
        return FetchPartitionResult(
            0, 0, 1000, records=encode_batch(records, base_offset=found.base)
        )


def _after_damage(log: Sequence[Stored], end: int) -> int:
    cursor = Cursor(Span(PLACE, log[0].base, end))
    return next_sound_offset(cast("Lane", CheckingBroker(log)), cursor)


def test_a_gap_behind_the_damage() -> None:
    """Compaction left nothing between the damaged batch and the next one."""
    log = [Stored(10, 11, True), Stored(20, 29, False)]
    assert 11 < _after_damage(log, 1000) <= 20


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1), st.integers(1, 400))
def test_nothing_sound_behind_one_damaged_batch_is_passed_over(
    gaps_and_sizes: list[tuple[int, int]], length: int
) -> None:
    log: list[Stored] = []
    at = 0
    for gap, size in gaps_and_sizes:
        at = at + gap if log else at
        log.append(Stored(at, at + size - 1, damaged=not log))
        at += size
    end = log[0].base + length
    found = _after_damage(log, end)
    behind = min([batch.base for batch in log[1:]] + [end])
    assert min(log[0].last + 1, end) <= found <= min(behind, end)
