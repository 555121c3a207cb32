"""Followers whose logs begin where their leader's do not."""

import pytest
from tests.replica.exchange import Replica, state
from tests.replica.test_truncation_by_epoch import elect, play, two, values

from barnabas.sim.loop import SimLoop


def bounds(replica: Replica) -> tuple[int, int, int]:
    return replica.log.start_offset, replica.log.end_offset, replica.partition.high_watermark


def test_a_leader_whose_log_begins_within_a_batch_can_be_copied() -> None:
    """Records are deleted one by one, and batches are sent whole."""

    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        a.append(b"0", b"1", b"2", b"3")
        a.append(b"4")
        elect(1, 1, a, b, isr=(1,))
        a.log.advance_start(2)
        await b.catch_up(a)
        assert bounds(b) == (2, 5, 5)
        assert b.bytes() == a.bytes()
        assert b.log.epochs.entries == [(0, 2)]

    play(scene)


def test_such_a_copy_that_finds_no_room_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        a.append(b"0", b"1", b"2", b"3")
        elect(1, 1, a, b, isr=(1,))
        a.log.advance_start(2)
        assert await b.copy_from(a)
        assert bounds(b) == (2, 2, 2)

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("barnabas.log.segment.Segment.append", full)
            assert not await b.copy_from(a)
        assert bounds(b) == (0, 0, 0)
        await b.catch_up(a)
        assert bounds(b) == (2, 4, 4)
        assert b.bytes() == a.bytes()

    play(scene)


@pytest.mark.parametrize("whole_segments", [False, True])
def test_a_log_that_begins_where_its_leader_has_not_come_yet_is_given_up(
    whole_segments: bool,
) -> None:
    """Only an unclean election leads there. To wait for the leader would be in vain: without this
    follower it may not be allowed to write."""

    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        for number in range(6):
            a.append(b"%d" % number)
        while b.log.end_offset < 4:
            await b.copy_from(a, 100)
        a.assume(state(1, 0, (1,), 1))
        if whole_segments:
            a.log.roll(0)
            a.log.drop(a.log.segments[:1])
        a.log.advance_start(6)
        elect(2, 1, a, b, isr=(2,))
        await a.catch_up(b)
        assert a.log.end_offset == 4
        b.append(b"x")
        await a.catch_up(b)
        assert values(a)[-1] == b"x"
        assert bounds(a)[1:] == bounds(b)[1:] == (5, 5)

    play(scene)


def test_a_follower_knows_how_far_it_is_behind_what_is_committed() -> None:
    async def scene(loop: SimLoop) -> None:
        # Broker 2 is not in sync: what broker 1 has is committed at once.
        begin = state(1, 0, (1,))
        a, b = Replica(loop, 1, begin), Replica(loop, 2, begin)
        for number in range(5):
            a.append(b"%d" % number)
        lags = []
        while b.log.end_offset < 5:
            await b.copy_from(a, max_bytes=1)
            lags.append(b.partition.offset_lag)
        assert lags == [4, 3, 2, 1, 0]
        assert (a.partition.offset_lag, b.partition.high_watermark) == (0, 5)
        b.assume(state(2, 1, (2,)))
        assert b.partition.offset_lag == 0

    play(scene)
