"""Leader epochs: where each began, where each ended, what a truncation leaves of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.log.checkpoints import CheckpointError
from barnabas.log.epochs import LeaderEpochs

_STEPS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5)), max_size=12)


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    made = LeaderEpochs()
    for epoch, start in entries:
        made.assign(epoch, start)
    return made


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),  # older than all that is known: begins where the oldest known does
        (1, (1, 10)),
        (2, (2, 20)),  # ended where the next one began
        (3, (2, 20)),  # unknown: the largest one below it (KIP-279)
        (4, (2, 20)),
        (5, (5, 35)),
        (6, (6, 50)),  # the newest ends at the end of the log
        (7, (-1, -1)),  # newer than all that is known
    ],
)
def test_where_an_epoch_ended(asked: int, answer: tuple[int, int]) -> None:
    assert epochs((2, 10), (5, 20), (6, 35)).end_offset(asked, 50) == answer


def test_without_epochs_nothing_is_known() -> None:
    assert LeaderEpochs().end_offset(0, 50) == (-1, -1)
    assert (LeaderEpochs().latest, LeaderEpochs().epoch_at(0)) == (-1, -1)


def test_a_log_in_one_epoch_ends_at_its_end() -> None:
    only = epochs((0, 0))
    assert only.end_offset(0, 50) == (0, 50)
    assert only.end_offset(0, 0) == (0, 0)


def test_followers_find_where_their_logs_part() -> None:
    """KIP-101's second scenario: both replicas led once while the other was away."""
    leader, follower = epochs((0, 0), (2, 1)), epochs((0, 0), (1, 1))
    asked = follower.latest
    epoch, end = leader.end_offset(asked, 3)
    assert (epoch, end) == (0, 1)
    follower.truncate_end(end)
    assert follower.entries == [(0, 0)]


@pytest.mark.parametrize(
    ("offset", "epoch"), [(9, -1), (10, 2), (19, 2), (20, 5), (34, 5), (35, 6), (99, 6)]
)
def test_in_which_epoch_a_record_was_written(offset: int, epoch: int) -> None:
    assert epochs((2, 10), (5, 20), (6, 35)).epoch_at(offset) == epoch


@pytest.mark.parametrize("entry", [(6, 60), (5, 60), (0, 60), (-1, 60)])
def test_an_epoch_that_is_not_newer_changes_nothing(entry: tuple[int, int]) -> None:
    made = epochs((2, 10), (6, 35))
    made.changed = False
    made.assign(*entry)
    assert (made.entries, made.changed) == ([(2, 10), (6, 35)], False)


def test_an_epoch_that_wrote_nothing_is_forgotten_by_the_next() -> None:
    assert epochs((1, 0), (2, 10), (3, 10)).entries == [(1, 0), (3, 10)]
    assert epochs((1, 0), (2, 10), (3, 20), (4, 10)).entries == [(1, 0), (4, 10)]


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (36, [(2, 10), (5, 20), (6, 35)]),
        (35, [(2, 10), (5, 20)]),
        (21, [(2, 10), (5, 20)]),
        (20, [(2, 10)]),
        (10, []),
        (0, []),
    ],
)
def test_cutting_the_end_forgets_what_began_there(end: int, left: list[tuple[int, int]]) -> None:
    made = epochs((2, 10), (5, 20), (6, 35))
    made.changed = False
    made.truncate_end(end)
    assert (made.entries, made.changed) == (left, len(left) < 3)


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (9, [(2, 10), (5, 20), (6, 35)]),
        (10, [(2, 10), (5, 20), (6, 35)]),
        (11, [(2, 11), (5, 20), (6, 35)]),
        (20, [(5, 20), (6, 35)]),
        (34, [(5, 34), (6, 35)]),
        (99, [(6, 99)]),
    ],
)
def test_cutting_the_start_moves_the_epoch_it_falls_in(
    start: int, left: list[tuple[int, int]]
) -> None:
    made = epochs((2, 10), (5, 20), (6, 35))
    made.changed = False
    made.truncate_start(start)
    assert (made.entries, made.changed) == (left, start > 10)


@given(_STEPS)
def test_the_file_is_read_back_as_it_was_written(steps: list[tuple[int, int]]) -> None:
    made, offset = LeaderEpochs(), 0
    for epoch, records in steps:
        made.assign(epoch, offset)
        offset += records
    assert LeaderEpochs.from_bytes(made.to_bytes()).entries == made.entries
    for epoch in range(-1, 14):
        known, end = made.end_offset(epoch, offset)
        assert known <= epoch
        assert -1 <= end <= offset


def test_the_file_is_kafkas() -> None:
    assert epochs((0, 0), (3, 42)).to_bytes() == b"0\n2\n0 0\n3 42\n"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"0\n", b"1\n0\n", b"0\n1\n", b"0\n2\n0 0\n", b"0\n1\n0 0\n1 5\n", b"0\n1\nx 0\n",
        b"0\n1\n0\n", b"0\n1\n0 0 0\n", b"0\n2\n3 0\n2 5\n", b"0\n2\n3 5\n4 2\n",
        b"0\n2\n3 0\n3 5\n", b"\xff\xfe\n", b"0\n-1\n", bytes(20),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        LeaderEpochs.from_bytes(data)


@pytest.mark.parametrize(
    ("known", "batch", "after"),
    [
        ([], (3, 10), [(3, 10)]),
        ([(3, 10)], (3, 10), [(3, 10)]),
        ([(3, 10)], (3, 15), [(3, 10)]),
        ([(3, 10)], (5, 15), [(3, 10), (5, 15)]),
        ([(3, 10), (7, 40)], (3, 15), [(3, 10), (7, 40)]),
        ([(3, 10), (7, 40)], (5, 15), [(3, 10), (5, 15), (7, 40)]),
        ([(3, 10), (7, 40)], (3, 40), [(3, 10)]),  # an epoch that was led and given up
        ([(3, 10), (7, 40)], (5, 50), [(3, 10), (5, 50)]),
        ([(3, 10), (7, 40), (8, 60)], (9, 30), [(3, 10), (9, 30)]),  # a tail that was cut off
        ([(3, 10), (7, 40)], (8, 40), [(3, 10), (8, 40)]),
        ([(3, 10), (7, 40)], (2, 5), [(2, 5), (3, 10), (7, 40)]),
        ([(3, 10)], (-1, 20), [(3, 10)]),
    ],
)
def test_batches_that_were_found_are_believed(
    known: list[tuple[int, int]], batch: tuple[int, int], after: list[tuple[int, int]]
) -> None:
    told = LeaderEpochs(list(known))
    told.found(*batch, batch[1] + 4)
    assert told.entries == after
    assert told.changed == (known != after)


@given(_STEPS, _STEPS)
def test_whatever_was_written_down_batches_tell_the_truth(
    stale: list[tuple[int, int]], written: list[tuple[int, int]]
) -> None:
    told, truth = LeaderEpochs(), LeaderEpochs()
    for epoch, start in sorted(stale):
        told.assign(epoch, start)
    offset = 0
    for epoch, size in sorted(written):
        told.found(epoch, offset, offset + size)
        truth.assign(epoch, offset)
        assert told.epoch_at(offset) == epoch
        offset += size + 1
    told.truncate_end(offset)
    if written:
        assert [told.epoch_at(each) for each in range(offset)] == [
            truth.epoch_at(each) for each in range(offset)
        ]
