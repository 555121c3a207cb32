"""A partition leads, follows and leads again: who is told what, and what counts as committed."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.replica.conftest import NOW_MS
from tests.replica.exchange import Replica, state

from barnabas.config.topic_config import TopicConfig
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import Marker
from barnabas.replica.parked import ParkedFetch
from barnabas.replica.uncommitted import ENOUGH_TO_LOOK, PIECES_MAX
from barnabas.sim.loop import SimLoop, run
from barnabas.wire.records.record import encode_batch

SYNCED = TopicConfig(flush_messages=1)
Scene = Callable[[SimLoop], Any]


def play(scene: Scene) -> None:
    run(scene, 0)


def leader(
    loop: SimLoop, isr: tuple[int, ...] = (1, 2), config: TopicConfig | None = None
) -> Replica:
    return Replica(loop, 1, state(1, 0, isr), config)


def fetched(replica: Replica, offset: int, broker: int = 2) -> None:
    """A follower of the first life has fetched from there."""
    replica.partition.record_fetch(broker, 102, offset, 0.0)


class Watched(ParkedFetch):
    """A parked fetch that says what it was told."""

    __slots__ = ("told",)

    def __init__(self, missing: int = 1 << 30) -> None:
        super().__init__(missing, 1000.0)
        self.told: list[int] = []

    def arrived(self, size: int) -> None:
        self.told.append(size)
        super().arrived(size)


# --- acknowledging -----------------------------------------------------------------------------


def test_acks_all_waits_for_every_member_of_the_isr_and_acks_1_for_nobody() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop)
        assert one.append(b"quick") is None
        everywhere = one.append(b"safe", everywhere=True)
        fetched(one, 1)
        assert not everywhere.done()
        assert one.partition.high_watermark == 1
        fetched(one, 2)
        assert everywhere.done()
        assert one.partition.high_watermark == 2

    play(scene)


def test_who_is_not_in_the_isr_is_not_waited_for() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop, isr=(1,))
        assert one.append(b"a", everywhere=True) is None
        assert one.partition.high_watermark == 1

    play(scene)


def test_a_leader_counts_only_for_what_it_has_synced() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop, config=SYNCED)
        everywhere = one.append(b"a", everywhere=True)
        here = one.append(b"b")
        fetched(one, 2)
        assert one.partition.high_watermark == 0
        await one.work.finish()
        assert one.partition.high_watermark == 1
        assert everywhere.done()
        assert not here.done()
        await one.work.finish()
        assert here.done()
        assert one.partition.high_watermark == 2

    play(scene)


def test_a_repeat_waits_for_what_the_first_waits_for() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop)

        def send(*, everywhere: bool) -> Any:
            data = encode_batch(
                [(NOW_MS, b"k", b"v", [])], producer_id=7, producer_epoch=0, base_sequence=0
            )
            view = memoryview(bytearray(data))
            header = one.log.check(view, NOW_MS)
            return one.partition.append(view, header, NOW_MS, everywhere=everywhere)[1]

        first, again = send(everywhere=True), send(everywhere=True)
        assert send(everywhere=False) is None
        assert not again.done()
        fetched(one, 1)
        assert first.done()
        assert again.done()
        assert send(everywhere=True) is None

    play(scene)


@pytest.mark.parametrize("isr", [(1,), (1, 2)])
def test_too_small_an_isr_takes_nothing_that_is_to_be_everywhere(isr: tuple[int, ...]) -> None:
    async def scene(loop: SimLoop) -> None:
        one = Replica(
            loop, 1, state(1, 0, isr, replicas=(1, 2, 3)), TopicConfig(min_insync_replicas=3)
        )
        with pytest.raises(KafkaError) as refused:
            one.append(b"a", everywhere=True)
        assert refused.value.code is ErrorCode.not_enough_replicas
        assert one.log.end_offset == 0
        with pytest.raises(KafkaError) as refused:
            one.partition.append_marker(_marker(), NOW_MS)
        assert refused.value.code is ErrorCode.not_enough_replicas
        assert one.append(b"b") is None
        assert one.partition.high_watermark == 0

    play(scene)


def _marker() -> Marker:
    return Marker(
        producer_id=7, epoch=0, coordinator_epoch=0, committed=True, transaction_version=0
    )


def test_what_nobody_commits_for_long_takes_no_more_and_more_memory() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop, (1,), TopicConfig(min_insync_replicas=2))
        for _ in range(3 * PIECES_MAX):
            one.append(b"quick")
        assert one.partition.high_watermark == 0
        assert len(one.partition._uncommitted._pieces) == PIECES_MAX

    play(scene)


def test_what_waits_while_the_isr_is_too_small_is_committed_when_it_grows() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop, config=TopicConfig(min_insync_replicas=2))
        waiting = one.append(b"a", everywhere=True)
        one.assume(state(1, 0, (1,), 1))
        assert not waiting.done()
        fetched(one, 1)
        assert not waiting.done()
        one.assume(state(1, 0, (1, 2), 2))
        assert waiting.done()

    play(scene)


def test_a_state_that_was_written_under_a_higher_minimum_counts_before_that_is_heard_of() -> None:
    """min.insync.replicas becomes 2, then broker 2 dies and stays eligible. Were the first write
    after that acknowledged by the old minimum, broker 2 could lead without it."""

    async def scene(loop: SimLoop) -> None:
        one = leader(loop)
        fetched(one, 0)
        waiting = one.append(b"a", everywhere=True)
        alone = replace(state(1, 0, (1,), 1), eligible=(2,))
        one.partition.assume(1, alone, 0.0)
        assert not waiting.done()
        one.partition.configure(TopicConfig(min_insync_replicas=2))
        assert not waiting.done()
        assert one.partition.high_watermark == 0

    play(scene)


def test_a_change_of_min_insync_replicas_counts_at_once() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop, isr=(1,), config=TopicConfig(min_insync_replicas=2))
        one.append(b"a")
        assert one.partition.high_watermark == 0
        one.partition.configure(TopicConfig(min_insync_replicas=1))
        assert one.partition.high_watermark == 1

    play(scene)


def test_a_change_to_flush_messages_1_has_the_rest_synced() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop)
        waiting = one.append(b"a", everywhere=True)
        one.partition.configure(SYNCED)
        fetched(one, 1)
        assert not waiting.done()
        await one.work.finish()
        assert waiting.done()

    play(scene)


# --- roles -------------------------------------------------------------------------------------


def test_who_loses_the_lead_tells_everybody_who_waits() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop)
        waiting = one.append(b"a", everywhere=True)
        parked, stable, follower = Watched(), Watched(), Watched()
        one.partition.park_fetch(parked)
        one.partition.park_fetch(stable, committed_only=True)
        one.partition.park_follower(follower)
        one.assume(state(2, 1, (1, 2), 1))
        with pytest.raises(KafkaError) as refused:
            await waiting
        assert refused.value.code is ErrorCode.not_leader_or_follower
        assert all(each.done.done() for each in (parked, stable, follower))
        for everywhere in (True, False):
            with pytest.raises(KafkaError) as refused:
                one.append(b"b", everywhere=everywhere)
            assert refused.value.code is ErrorCode.not_leader_or_follower
        with pytest.raises(KafkaError):
            one.partition.append_marker(_marker(), NOW_MS)
        with pytest.raises(KafkaError):
            fetched(one, 1)

    play(scene)


def test_a_new_epoch_of_the_same_leader_begins_anew() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop)
        one.append(b"a")
        fetched(one, 1)
        waiting = one.append(b"b", everywhere=True)
        assert one.partition.assume(1, state(1, 1, (1, 2), 1), 0.0)
        with pytest.raises(KafkaError):
            await waiting
        assert one.log.epochs.entries == [(0, 0), (1, 2)]
        assert one.partition.high_watermark == 1
        # What a follower said in the old epoch says nothing in the new.
        one.partition.advance()
        assert one.partition.high_watermark == 1
        fetched(one, 2)
        assert one.partition.high_watermark == 2

    play(scene)


def test_old_news_change_nothing() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop)
        one.assume(state(2, 5, (1, 2), 5))
        assert not one.partition.assume(1, state(1, 4, (1, 2), 4), 0.0)
        assert not one.partition.leads
        assert one.partition.leader_epoch == 5

    play(scene)


def test_news_of_the_same_epoch_keep_those_who_wait() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop)
        waiting = one.append(b"a", everywhere=True)
        assert not one.partition.assume(1, state(1, 0, (1, 2), 1), 0.0)
        assert not waiting.done()
        assert not one.partition.assume(1, state(1, 0, (1,), 2), 0.0)
        assert waiting.done()

    play(scene)


def test_one_replica_becomes_two_and_one_again() -> None:
    async def scene(loop: SimLoop) -> None:
        one = Replica(loop, 1, state(1, 0, (1,), replicas=(1,)))
        assert one.append(b"a", everywhere=True) is None
        one.assume(state(1, 0, (1,), 1, replicas=(1, 2)))
        assert one.partition.high_watermark == 1
        fetched(one, 1)
        one.assume(state(1, 0, (1, 2), 2, replicas=(1, 2)))
        waiting = one.append(b"b", everywhere=True)
        fetched(one, 2)
        assert waiting.done()
        one.append(b"c")
        one.assume(state(1, 1, (1,), 3, replicas=(1,)))
        assert one.partition.high_watermark == 3
        assert one.append(b"d", everywhere=True) is None

    play(scene)


def test_a_new_leader_does_not_know_yet_what_is_committed() -> None:
    async def scene(loop: SimLoop) -> None:
        one, two = leader(loop), Replica(loop, 2, state(1, 0, (1, 2)))
        for number in range(3):
            one.append(b"%d" % number)
        await two.copy_from(one)
        await one.answer(two, two.question())
        assert (one.partition.high_watermark, two.partition.high_watermark) == (3, 0)
        two.assume(state(2, 1, (1, 2), 1))
        assert two.partition.is_behind_its_epoch
        one.assume(state(2, 1, (1, 2), 1))
        assert not one.partition.is_behind_its_epoch
        await one.copy_from(two)
        assert not two.partition.is_behind_its_epoch
        assert two.partition.high_watermark == 3

    play(scene)


def test_a_new_leader_syncs_what_it_has_copied() -> None:
    async def scene(loop: SimLoop) -> None:
        one, two = leader(loop), Replica(loop, 2, state(1, 0, (1, 2)), SYNCED)
        one.append(b"a")
        await two.copy_from(one)
        two.assume(state(2, 1, (2,), 1))
        assert two.partition.high_watermark == 0
        await two.work.finish()
        assert two.partition.high_watermark == 1

    play(scene)


def test_a_sync_that_ends_at_a_follower_commits_nothing() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop, config=SYNCED)
        here = one.append(b"a")
        one.assume(state(2, 1, (1, 2), 1))
        await one.work.finish()
        assert one.partition.high_watermark == 0
        with pytest.raises(KafkaError):
            await here

    play(scene)


# --- the high watermark over restarts ----------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "expected"), [(0, 0), (2, 2), (9, 3)], ids=["lost", "older", "beyond the end"]
)
def test_a_restart_begins_with_the_high_watermark_that_is_remembered(
    known: int, expected: int
) -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop)
        for number in range(3):
            one.append(b"%d" % number)
        one.log.close(clean=False)
        one.open(state(1, 1, (1, 2), 1), known)
        assert one.partition.high_watermark == expected
        one.open(state(2, 1, (1, 2), 1), known)
        assert one.partition.high_watermark == expected

    play(scene)


def test_with_one_replica_everything_is_committed_after_a_restart() -> None:
    async def scene(loop: SimLoop) -> None:
        one = Replica(loop, 1, state(1, 0, (1,), replicas=(1,)))
        one.append(b"a")
        one.log.close(clean=False)
        one.open(state(1, 1, (1,), replicas=(1,)), 0)
        assert one.partition.high_watermark == 1

    play(scene)


def test_what_is_cut_off_is_not_remembered_as_committed() -> None:
    """Otherwise what grows in its place would be taken for committed after a restart."""

    async def scene(loop: SimLoop) -> None:
        one, two = leader(loop), Replica(loop, 2, state(1, 0, (1, 2)))
        for number in range(3):
            one.append(b"%d" % number)
        await two.catch_up(one)
        assert two.log.committed == 3
        empty = Replica(loop, 1, state(1, 1, (1,), 1))
        two.assume(state(1, 1, (1,), 1))
        empty.append(b"other")
        await two.copy_from(empty)
        assert two.partition.high_watermark == two.log.committed == 0

    play(scene)


# --- who waits for bytes -----------------------------------------------------------------------


def test_readers_are_told_how_many_bytes_a_commit_brings() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop)
        reader, stable = Watched(), Watched()
        one.partition.park_fetch(reader)
        one.partition.park_fetch(stable, committed_only=True)
        sizes = []
        for number in range(3):
            before = one.log.size
            one.append(b"x" * 10 * number)
            sizes.append(one.log.size - before)
        assert reader.told == []
        fetched(one, 2)
        fetched(one, 3)
        assert reader.told == stable.told == [sizes[0] + sizes[1], sizes[2]]

    play(scene)


def test_readers_of_a_new_leader_are_told_of_what_was_there_before() -> None:
    """How many bytes that are, nobody has counted; to say none would let them wait in vain."""

    async def scene(loop: SimLoop) -> None:
        one = leader(loop)
        for number in range(4):
            one.append(b"%d" % number)
        one.assume(state(1, 1, (1, 2), 1))
        reader = Watched(1)
        one.partition.park_fetch(reader)
        fetched(one, 2)
        assert reader.told == [ENOUGH_TO_LOOK]
        assert reader.done.done()

    play(scene)


def test_a_parked_follower_hears_of_appends_and_of_commits() -> None:
    async def scene(loop: SimLoop) -> None:
        one, two = leader(loop), Replica(loop, 2, state(1, 0, (1, 2)))
        waiting = asyncio.ensure_future(one.answer(two, two.question(), wait_ms=60_000))
        await asyncio.sleep(1)
        assert not waiting.done()
        one.append(b"a")
        result = await waiting
        assert result.records
        assert loop.time() < 2
        two.copier.take(two.partition, 0, result)
        three_of = Replica(loop, 1, state(1, 0, (1, 2, 3), replicas=(1, 2, 3)))
        three_of.append(b"a")
        waiting = asyncio.ensure_future(three_of.answer(two, two.question(), wait_ms=60_000))
        await asyncio.sleep(1)
        assert not waiting.done()
        fetched(three_of, 1, broker=3)
        result = await waiting
        assert result.high_watermark == 1
        assert loop.time() < 3

    play(scene)


def test_a_parked_follower_hears_that_its_leader_leads_no_more() -> None:
    async def scene(loop: SimLoop) -> None:
        one, two = leader(loop), Replica(loop, 2, state(1, 0, (1, 2)))
        waiting = asyncio.ensure_future(one.answer(two, two.question(), wait_ms=60_000))
        await asyncio.sleep(1)
        one.assume(state(2, 1, (1, 2), 1))
        assert (await waiting).error == ErrorCode.not_leader_or_follower
        assert loop.time() < 2

    play(scene)


# --- transactions ------------------------------------------------------------------------------


def transact(replica: Replica, sequence: int, *, commit: bool = True) -> None:
    data = encode_batch(
        [(NOW_MS, b"k", b"v", [])],
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    view = memoryview(bytearray(data))
    header = replica.log.check(view, NOW_MS)
    guard = replica.partition.begin_verification(header, NOW_MS, bumps_epochs=False)
    replica.partition.append(view, header, NOW_MS, guard, everywhere=False)
    if commit:
        replica.partition.append_marker(_marker(), NOW_MS)


def test_what_has_ended_does_not_pile_up_at_a_follower() -> None:
    async def scene(loop: SimLoop) -> None:
        one, two = leader(loop), Replica(loop, 2, state(1, 0, (1, 2)))
        for number in range(20):
            transact(one, number)
        await two.catch_up(one)
        assert two.partition.high_watermark == 40
        assert not two.log.producers.transactions

    play(scene)


def test_a_marker_that_is_not_everywhere_ends_nothing_for_readers() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop)
        transact(one, 0)
        fetched(one, 1)
        assert (one.partition.high_watermark, one.partition.last_stable_offset) == (1, 0)
        fetched(one, 2)
        assert one.partition.last_stable_offset == 2

    play(scene)


def test_what_was_verified_in_another_epoch_opens_nothing() -> None:
    async def scene(loop: SimLoop) -> None:
        one = leader(loop)
        data = encode_batch(
            [(NOW_MS, b"k", b"v", [])],
            producer_id=7, producer_epoch=0, base_sequence=0, transactional=True,
        )  # fmt: skip
        view = memoryview(bytearray(data))
        header = one.log.check(view, NOW_MS)
        guard = one.partition.begin_verification(header, NOW_MS, bumps_epochs=False)
        one.assume(state(2, 1, (1, 2), 1))
        one.assume(state(1, 2, (1, 2), 2))
        with pytest.raises(KafkaError) as refused:
            one.partition.append(view, header, NOW_MS, guard)
        assert refused.value.code is ErrorCode.invalid_txn_state
        assert not one.log.producers.verifications

    play(scene)
