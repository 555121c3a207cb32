"""How many bytes a high watermark that moves sets free."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.replica.uncommitted import ENOUGH_TO_LOOK, PIECES_MAX, Uncommitted


def test_what_was_there_before_is_not_counted() -> None:
    found = Uncommitted()
    found.begin_at(10)
    found.add(12, 200)
    assert found.commit(5, 7) >= ENOUGH_TO_LOOK
    assert found.commit(7, 12) >= ENOUGH_TO_LOOK + 200
    found.add(15, 300)
    assert found.commit(12, 15) == 300


def test_a_part_of_what_was_copied_at_once_counts_in_part() -> None:
    found = Uncommitted()
    found.add(10, 1000)
    assert found.commit(0, 3) == 300
    assert found.commit(3, 4) == 100
    assert found.commit(4, 10) == 600


def test_another_role_begins_to_count_anew() -> None:
    found = Uncommitted()
    found.add(10, 1000)
    found.begin_at(10)
    assert found.commit(10, 10) == 0
    found.add(11, 50)
    assert found.commit(10, 11) == 50


def test_more_than_can_be_told_apart_counts_together() -> None:
    found = Uncommitted()
    for end in range(1, 10 * PIECES_MAX + 1):
        found.add(end, 100)
    assert len(found._pieces) == PIECES_MAX
    assert found.commit(0, 10) == 10 * 100
    half = found.commit(10, 5 * PIECES_MAX)
    assert half == (5 * PIECES_MAX - 10) * 100
    found.add(10 * PIECES_MAX + 1, 700)
    assert found.commit(5 * PIECES_MAX, 10 * PIECES_MAX + 1) == 5 * PIECES_MAX * 100 + 700


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(20, 5000)), min_size=1, max_size=20),
    st.lists(st.integers(0, 400), max_size=20),
)
def test_nothing_is_counted_twice_and_nothing_is_forgotten(
    pieces: list[tuple[int, int]], moves: list[int]
) -> None:
    found, end, total = Uncommitted(), 0, 0
    for count, size in pieces:
        end += count
        total += size
        found.add(end, size)
    committed = counted = 0
    for to in [*sorted(min(each, end) for each in moves), end]:
        if to > committed:
            some = found.commit(committed, to)
            assert some > 0, "whoever waits for one byte is told of it"
            counted, committed = counted + some, to
    assert counted == total
