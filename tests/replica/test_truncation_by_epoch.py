"""Where two logs have parted, the follower's is cut back: the scenarios of KIP-101 and KIP-279."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.replica.exchange import Replica, state

from barnabas.model.errors import ErrorCode
from barnabas.sim.loop import SimLoop, run

Values = list[bytes | None]


def play(scene: Callable[[SimLoop], Any]) -> None:
    run(scene, 0)


def values(replica: Replica) -> Values:
    return [value for _, _, value in replica.records()]


def two(loop: SimLoop, leader: int = 1) -> tuple[Replica, Replica]:
    begin = state(leader, 0, (1, 2))
    return Replica(loop, 1, begin), Replica(loop, 2, begin)


def elect(leader: int, epoch: int, *replicas: Replica, isr: tuple[int, ...] = (1, 2)) -> None:
    for each in replicas:
        each.assume(state(leader, epoch, isr, epoch))


def test_high_watermark_truncation_loses_nothing() -> None:
    """KIP-101, scenario 1: a follower that restarts before it heard of a commit, and then leads."""

    async def scene(loop: SimLoop) -> None:
        a, b = two(loop, leader=2)
        b.append(b"m1")
        b.append(b"m2")
        await a.copy_from(b)
        await a.copy_from(b)
        assert b.partition.high_watermark == 2
        # A restarts and has not even the checkpoint: it does not cut anything off for that.
        a.open(state(2, 0, (1, 2)), 0)
        assert a.partition.high_watermark == 0
        await a.catch_up(b)
        # B dies before A hears of anything; A leads.
        elect(1, 1, a, isr=(1,))
        assert values(a) == [b"m1", b"m2"]
        assert a.partition.high_watermark == 2
        elect(1, 1, b, isr=(1,))
        await b.catch_up(a)
        assert values(b) == [b"m1", b"m2"]
        assert a.bytes() == b.bytes()

    play(scene)


def test_logs_that_parted_in_a_power_cut_meet_again() -> None:
    """KIP-101, scenario 2: both lose power, the follower comes back first and writes another m2."""

    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        a.append(b"m1")
        await b.catch_up(a)
        a.append(b"m2")
        elect(2, 1, b, isr=(2,))
        b.append(b"m3")
        elect(2, 1, a, isr=(2,))
        await a.catch_up(b)
        assert values(a) == [b"m1", b"m3"]
        assert a.bytes() == b.bytes()
        assert a.log.epochs.entries == b.log.epochs.entries == [(0, 0), (1, 1)]

    play(scene)


def test_fast_double_failover_with_an_epoch_that_the_follower_never_saw() -> None:
    """KIP-279, scenario 1: the leader of an epoch in between has written, and what the follower
    asks about is unknown to the next."""

    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        a.append(b"0")
        await b.catch_up(a)
        a.append(b"a1")
        elect(2, 1, b, isr=(2,))
        b.append(b"b1")
        b.append(b"b2")
        # A leads again without ever having followed B: an unclean election.
        elect(1, 2, a, isr=(1,))
        a.append(b"a2")
        elect(1, 2, b, isr=(1,))
        await b.catch_up(a)
        assert values(b) == [b"0", b"a1", b"a2"]
        assert a.bytes() == b.bytes()

    play(scene)


def test_two_fast_failovers_need_more_than_one_step_back() -> None:
    """KIP-279, scenario 2: no epoch of the follower's tail is known to the leader."""

    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        for number in range(3):
            a.append(b"%d" % number)
        await b.catch_up(a)
        for epoch in (1, 3, 5):
            elect(1, epoch, a, isr=(1,))
            a.append(b"a%d" % epoch)
            a.append(b"a%d'" % epoch)
        for epoch in (2, 4, 6):
            elect(2, epoch, b, isr=(2,))
            b.append(b"b%d" % epoch)
        elect(2, 6, a, isr=(2,))
        cuts: list[int] = []
        while not cuts or cuts[-1] != a.log.end_offset:
            cuts.append(a.log.end_offset)
            await a.copy_from(b)
        assert len(cuts) > 3
        await a.catch_up(b)
        assert values(a) == [b"0", b"1", b"2", b"b2", b"b4", b"b6"]
        assert a.bytes() == b.bytes()
        assert a.log.epochs.entries == b.log.epochs.entries

    play(scene)


def test_an_epoch_in_which_nothing_was_written_cuts_nothing_off() -> None:
    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        for number in range(3):
            a.append(b"%d" % number)
        await b.catch_up(a)
        for epoch in (1, 2, 3):
            elect(2 if epoch % 2 else 1, epoch, a, b)
        assert b.log.epochs.latest == 3
        elect(1, 4, a, b)
        end = b.log.end_offset
        await b.catch_up(a)
        assert b.log.end_offset == end == 3
        assert b.log.epochs.entries == [(0, 0)]
        a.append(b"3")
        await b.catch_up(a)
        assert a.bytes() == b.bytes()

    play(scene)


def test_a_follower_of_epochs_that_the_leader_does_not_know_is_told_where_that_ends() -> None:
    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        a.append(b"0")
        await b.catch_up(a)
        elect(2, 7, b, isr=(2,))
        b.append(b"lost")
        # The leader's epoch is below that of what B holds: somebody has meddled with the store.
        a.open(state(1, 3, (1,)), 0)
        b.open(state(1, 3, (1,)), 0)
        await b.catch_up(a)
        assert values(b) == [b"0"]

    play(scene)


def test_a_follower_that_ends_before_its_leader_begins_begins_there() -> None:
    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        for number in range(3):
            a.append(b"%d" % number)
        await b.catch_up(a)
        elect(1, 1, a, isr=(1,))
        for number in range(3, 8):
            a.append(b"%d" % number)
        a.log.advance_start(6)
        elect(1, 1, b, isr=(1,))
        await b.catch_up(a)
        assert (b.log.start_offset, b.log.end_offset, b.partition.high_watermark) == (6, 8, 8)
        assert [offset for offset, _, _ in b.records()] == [6, 7]
        assert b.log.epochs.entries == [(1, 6)]

    play(scene)


def test_what_the_leader_deleted_is_deleted_at_its_followers() -> None:
    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        for number in range(4):
            a.append(b"%d" % number)
        await b.catch_up(a)
        a.log.advance_start(3)
        await b.copy_from(a)
        assert b.log.start_offset == 3

    play(scene)


@pytest.mark.parametrize("claimed", [-1, 0, 2])
def test_a_fetch_of_another_epoch_counts_for_nothing(claimed: int) -> None:
    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        elect(1, 1, a, b)
        a.append(b"0")
        asked = b.question()._replace(current_leader_epoch=claimed, fetch_offset=1)
        result = await a.answer(b, asked)
        newer = claimed > 1
        assert result.error == (
            ErrorCode.unknown_leader_epoch if newer else ErrorCode.fenced_leader_epoch
        )
        assert a.partition.high_watermark == 0

    play(scene)


def test_a_fetch_whose_log_does_not_match_counts_for_nothing() -> None:
    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        a.append(b"0")
        await b.catch_up(a)
        elect(2, 1, b, isr=(2,))
        b.append(b"lost")
        b.append(b"lost too")
        elect(1, 2, a, isr=(1, 2))
        a.append(b"1")
        a.append(b"2")
        elect(1, 2, b, isr=(1, 2))
        assert b.log.end_offset == a.log.end_offset
        result = await a.answer(b, b.question())
        assert result.diverging_epoch == (0, 1)
        assert not result.records
        assert a.partition.high_watermark == 1
        await b.catch_up(a)
        assert a.partition.high_watermark == 3

    play(scene)


def test_a_follower_whose_log_has_parted_is_told_at_once() -> None:
    """It has to cut back and ask again, and until then nothing is committed with it."""

    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        a.append(b"0")
        await b.catch_up(a)
        a.append(b"lost")
        elect(2, 1, a, b, isr=(2,))
        result = await b.answer(a, a.question(), wait_ms=60_000)
        assert result.diverging_epoch == (0, 1)
        assert loop.time() == 0

    play(scene)


def test_a_kill_brings_no_epoch_back_that_was_given_up() -> None:
    """B led an epoch in which it wrote nothing, and A has records of the one before behind where
    that began. What B wrote down of its own epoch is not true any more, though a sync came before
    and a kill after: told by it, A would cut off what is committed."""

    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        a.append(b"0")
        await b.catch_up(a)
        a.append(b"1")
        elect(2, 1, b)
        job = b.log.sync_job()
        assert job is not None
        job.run()
        elect(1, 2, a, b)
        await b.catch_up(a)
        assert a.partition.high_watermark == 2
        known = b.log.epochs.entries
        b.open(state(1, 2, (1, 2)), 2)
        assert b.log.epochs.entries == known == [(0, 0)]
        elect(2, 3, a, b)
        while await a.copy_from(b) and b.partition.high_watermark < 2:
            assert a.log.end_offset == 2
        assert values(a) == values(b) == [b"0", b"1"]

    play(scene)


def test_a_high_watermark_that_an_unclean_election_took_back_is_not_remembered() -> None:
    """What comes in the place of what was lost is committed anew, or not: whoever is killed then
    must not believe that it is."""

    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        a.append(b"0")
        await b.catch_up(a)
        elect(1, 1, a, isr=(1,))
        a.append(b"lost")
        assert a.log.committed == 2
        checkpoints: list[int | None] = []
        a.log.rewrite_recovery_point = lambda: checkpoints.append(a.log.committed)
        elect(2, 2, a, b, isr=(1, 2))
        b.append(b"1")
        assert await a.copy_from(b)
        assert (a.log.end_offset, a.partition.high_watermark) == (1, 1)
        assert checkpoints[-1:] == [1]

    play(scene)


def test_a_stranger_is_no_follower() -> None:
    async def scene(loop: SimLoop) -> None:
        a, _ = two(loop)
        stranger = Replica(loop, 9, state(1, 0, (1, 2)))
        result = await a.answer(stranger, stranger.question())
        assert result.error == ErrorCode.not_leader_or_follower
        b_leads = Replica(loop, 2, state(1, 0, (1, 2)))
        result = await b_leads.answer(a, a.question())
        assert result.error == ErrorCode.not_leader_or_follower

    play(scene)


def test_a_commit_is_told_in_the_answer_to_the_fetch_that_brought_it() -> None:
    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        a.append(b"0")
        await b.copy_from(a)
        result = await a.answer(b, b.question(), wait_ms=60_000)
        assert result.high_watermark == 1
        assert loop.time() < 1

    play(scene)


def test_what_a_follower_can_not_use_is_no_news() -> None:
    """Otherwise it would be answered at once, again and again, while it can get no records."""

    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        elect(1, 1, a, b, isr=(1,))
        a.append(b"0")
        assert a.partition.high_watermark == 1
        part = b.question()._replace(max_bytes=0, high_watermark=0)
        from barnabas.api.fetch_followers import has_news_for

        assert not has_news_for(part, a.partition)
        assert has_news_for(part._replace(fetch_offset=1), a.partition)

    play(scene)


def test_cutting_back_that_fails_half_way_is_a_failed_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene(loop: SimLoop) -> None:
        a, b = two(loop)
        a.append(b"0")
        await b.catch_up(a)
        elect(2, 1, b, isr=(2,))
        b.append(b"lost")
        elect(1, 2, a, b, isr=(1,))
        a.append(b"1")

        def broken(size: int) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(b.log.segments[-1].file, "truncate", broken, raising=False)
        assert not await b.copy_from(a)
        assert len(b.failures) == 1
        assert b.log.failure is not None

    play(scene)
