"""Transactions as a partition's leader sees them: what is stable, and who is told of it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.replica.conftest import NOW_MS, Rig, make_rig

from barnabas.config.topic_config import TopicConfig
from barnabas.log.verification import VERIFICATION_OFF, VerificationGuard
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import Marker
from barnabas.replica.parked import ParkedFetch
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles
from barnabas.wire.records.batch import BatchHeader, parse_header
from barnabas.wire.records.record import encode_batch

Play = Callable[[Callable[[], Any]], None]

SYNCED = TopicConfig(flush_messages=1)


def records(producer_id: int, sequence: int, value: bytes = b"v") -> memoryview:
    data = encode_batch(
        [(NOW_MS, b"k", value, [])],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    return memoryview(bytearray(data))


def write(
    rig: Rig, producer_id: int, sequence: int, guard: VerificationGuard | None = VERIFICATION_OFF
) -> "asyncio.Future[None] | None":
    data = records(producer_id, sequence)
    return rig.partition.append(data, parse_header(data), NOW_MS, guard)[1]


def header(producer_id: int) -> BatchHeader:
    return parse_header(records(producer_id, 0))


def end(rig: Rig, producer_id: int, *, committed: bool) -> "asyncio.Future[None] | None":
    marker = Marker(
        producer_id=producer_id, epoch=0, coordinator_epoch=0, committed=committed
    )  # fmt: skip
    return rig.partition.append_marker(marker, NOW_MS)[1]


def test_a_marker_counts_once_it_is_committed(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig(SYNCED)
        write(rig, 7, 0)
        await rig.work.finish()
        assert (rig.partition.last_stable_offset, rig.partition.high_watermark) == (0, 1)
        acknowledged = end(rig, 7, committed=True)
        assert acknowledged is not None
        assert rig.partition.last_stable_offset == 0, "a power cut could take the marker away"
        assert not rig.partition.has_open_transaction(7, 0)
        await rig.work.finish()
        assert acknowledged.done()
        assert rig.partition.last_stable_offset == rig.partition.high_watermark == 2

    play(scene)


def test_a_marker_waits_for_the_sync_that_others_wait_for(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig(TopicConfig(flush_messages=2))
        assert write(rig, 7, 0) is None
        synced = end(rig, 7, committed=False)
        assert synced is not None
        await rig.work.finish()
        assert synced.done()

    play(scene)


def test_readers_of_committed_records_wait_for_what_is_stable(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        everything, committed = ParkedFetch(1, 60), ParkedFetch(1, 60)
        rig.partition.park_fetch(everything)
        rig.partition.park_fetch(committed, committed_only=True)
        write(rig, 7, 0)
        write(rig, 8, 0)
        assert (everything.done.done(), committed.done.done()) == (True, False)
        rig.send(b"plain")
        end(rig, 8, committed=True)
        assert not committed.done.done(), "the first transaction is still open"
        end(rig, 7, committed=True)
        assert committed.done.done()
        committed.wake()
        everything.wake()

    play(scene)


def test_without_transactions_they_wait_for_bytes_like_all_others(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        parked = ParkedFetch(150, 60)
        rig.partition.park_fetch(parked, committed_only=True)
        rig.send(b"one")
        assert not parked.done.done()
        rig.send(b"two")
        rig.send(b"three")
        assert parked.done.done()

    play(scene)


def test_one_marker_sets_far_more_free_than_its_own_bytes(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        for sequence in range(50):
            write(rig, 7, sequence)
        parked = ParkedFetch(2000, 60)
        rig.partition.park_fetch(parked, committed_only=True)
        end(rig, 7, committed=False)
        assert parked.done.done()
        rig.partition.unpark_fetch(parked)
        rig.partition.wake_fetches()

    play(scene)


def test_stopping_wakes_them_too(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        parked = ParkedFetch(1, 60)
        rig.partition.park_fetch(parked, committed_only=True)
        rig.partition.stop(ErrorCode.unknown_topic_or_partition, "The topic was deleted.")
        assert parked.done.done()
        with pytest.raises(KafkaError) as refused:
            end(rig, 7, committed=True)
        assert refused.value.code is ErrorCode.kafka_storage_error

    play(scene)


def test_a_transaction_is_opened_under_a_guard(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        with pytest.raises(KafkaError) as refused:
            write(rig, 7, 0, None)
        assert refused.value.code is ErrorCode.invalid_txn_state
        guard = rig.partition.begin_verification(header(7), NOW_MS, bumps_epochs=False)
        end(rig, 7, committed=False)
        with pytest.raises(KafkaError):
            write(rig, 7, 0, guard)
        guard = rig.partition.begin_verification(header(7), NOW_MS, bumps_epochs=False)
        write(rig, 7, 0, guard)
        assert rig.partition.has_open_transaction(7, 0)

    play(scene)


def test_cold_indexes_are_read_elsewhere(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig(files=SimFiles(3, chances=Chances(cold=1)))
        assert rig.partition.aborted_transactions(0, 9) == []
        for sequence in range(3):
            write(rig, 7, sequence)
            end(rig, 7, committed=False)
        assert rig.partition.aborted_transactions(6, 9) == []
        found = rig.partition.aborted_transactions(0, 4)
        assert isinstance(found, asyncio.Future)
        await rig.work.finish()
        assert [each.first_offset for each in await found] == [0, 2]

    play(scene)


def test_what_has_ended_does_not_pile_up(play: Play) -> None:
    async def scene() -> None:
        rig = make_rig()
        for sequence in range(20):
            write(rig, 7, sequence)
            end(rig, 7, committed=True)
        assert not rig.partition.log.producers.transactions

    play(scene)
