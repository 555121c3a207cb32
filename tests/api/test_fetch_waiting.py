"""Fetch that waits for records: who wakes it, what it gets, and that nothing of it stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.conftest import KEYS
from tests.api.hot_path import (
    FETCH_VERSIONS,
    HeldWork,
    Row,
    Sent,
    SlowFiles,
    answer_of,
    batch,
    fetch,
    fetch_frame,
    fetch_rows,
    produce_frame,
    settle,
    stored,
    wanted,
)

from barnabas.ports.exchange import Later, Peer

if TYPE_CHECKING:
    from tests.api.conftest import House

ONE = batch(b"one")
LONG_MS = 60_000
"""Longer than any test may take: whoever waits for so long has missed something."""


class Waiting:
    """A Fetch that has been dispatched and is waited for."""

    def __init__(self, house: House, version: int, *topics: Any, **options: Any) -> None:
        self._house, self._version = house, version
        options = {"max_wait_ms": LONG_MS, **options}
        reply = house.dispatch_once(house.peer, fetch_frame(house, version, topics, **options))
        assert isinstance(reply, Later)
        # Nothing is lost by giving it up, and the connection rests meanwhile.
        assert (reply.overlaps, reply.only_waits) == (False, True)
        self.task = asyncio.ensure_future(reply.coroutine)

    async def answer(self) -> Row:
        frames = await self.task
        assert frames is not None
        decoded: Row = self._house.decode(KEYS["fetch"], self._version, b"".join(frames))
        return decoded

    async def rows(self) -> list[Row]:
        return fetch_rows(await self.answer())


async def _produce(house: House, *sent: Sent) -> None:
    """By another connection."""
    peer = Peer(2, ("127.0.0.1", 50001), ("127.0.0.1", 9092))
    assert await answer_of(house, produce_frame(house, 12, *sent), peer) is not None


def _parked(house: House) -> int:
    return sum(len(partition._fetches) for partition in house.replicas)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_append_wakes_it(house: House, version: int) -> None:
    house.topic("t", 2)

    async def talk() -> list[Row]:
        waiting = Waiting(house, version, ("t", [wanted(0), wanted(1)]))
        await settle()
        assert not waiting.task.done()
        await _produce(house, ("t", 1, ONE))
        return await waiting.rows()

    rows = house.run(talk())
    assert [row["records"] for row in rows] == [b"", stored(ONE, 0)]
    assert [row["high_watermark"] for row in rows] == [0, 1]
    assert _parked(house) == 0


def test_an_append_to_another_partition_does_not(house: House) -> None:
    house.topic("t", 2)

    async def talk() -> None:
        waiting = Waiting(house, 12, ("t", [wanted(0)]))
        await settle()
        await _produce(house, ("t", 1, ONE))
        await settle()
        assert not waiting.task.done()
        waiting.task.cancel()

    house.run(talk())


@pytest.mark.parametrize("version", [4, 12, 18])
@pytest.mark.parametrize("there_before", [0, 1])
def test_it_waits_until_there_is_enough(house: House, version: int, there_before: int) -> None:
    house.topic("t", 3)

    async def talk() -> list[Row]:
        for _ in range(there_before):
            await _produce(house, ("t", 0, ONE))
        parts = [wanted(index) for index in range(3)]
        waiting = Waiting(house, version, ("t", parts), min_bytes=3 * len(ONE))
        for index in range(2 - there_before):
            await settle()
            await _produce(house, ("t", index, ONE))
        await settle()
        assert not waiting.task.done()
        await _produce(house, ("t", 2, ONE))
        return await waiting.rows()

    rows = house.run(talk())
    assert sum(len(row["records"]) for row in rows) == 3 * len(ONE)


def test_enough_is_answered_at_once(house: House) -> None:
    house.topic("t", 2)

    async def talk() -> None:
        await _produce(house, ("t", 0, ONE), ("t", 1, ONE))
        frame = fetch_frame(
            house,
            12,
            [("t", [wanted(0), wanted(1)])],
            min_bytes=2 * len(ONE),
            max_wait_ms=LONG_MS,
        )
        assert isinstance(house.dispatch_once(house.peer, frame), list)

    house.run(talk())


@pytest.mark.parametrize("min_bytes", [0, -1])
def test_who_wants_nothing_waits_for_nothing(house: House, min_bytes: int) -> None:
    house.topic("t")
    (row,) = fetch_rows(
        fetch(house, 12, ("t", [wanted()]), min_bytes=min_bytes, max_wait_ms=LONG_MS)
    )
    assert (row["error_code"], row["records"]) == ("none", b"")


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_the_deadline_wakes_it_with_what_there_is(house: House, version: int) -> None:
    house.topic("t")

    async def talk() -> list[Row]:
        waiting = Waiting(house, version, ("t", [wanted()]), max_wait_ms=20, min_bytes=10_000)
        await _produce(house, ("t", 0, ONE))
        return await waiting.rows()

    (row,) = house.run(talk())
    assert (row["error_code"], row["records"]) == ("none", stored(ONE, 0))
    assert _parked(house) == 0


@pytest.mark.parametrize("max_wait_ms", [0, -1])
def test_without_time_it_does_not_wait(house: House, max_wait_ms: int) -> None:
    house.topic("t")
    (row,) = fetch_rows(fetch(house, 12, ("t", [wanted()]), max_wait_ms=max_wait_ms))
    assert (row["error_code"], row["records"]) == ("none", b"")


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("parked_first", [True, False])
def test_the_deletion_of_the_topic_wakes_it(house: House, version: int, parked_first: bool) -> None:
    house.topic("t")
    house.topic("u")

    async def talk() -> list[Row]:
        waiting = Waiting(house, version, ("u", [wanted()]), ("t", [wanted()]))
        if parked_first:
            await settle()
        await house.cluster.delete_topics(["t"])
        return await waiting.rows()

    rows = house.run(talk())
    missing = "unknown_topic_id" if version >= 13 else "unknown_topic_or_partition"
    assert [row["error_code"] for row in rows] == ["none", missing]
    assert _parked(house) == 0


@pytest.mark.parametrize("version", [4, 12, 18])
def test_what_comes_before_it_is_parked_is_not_missed(house: House, version: int) -> None:
    house.topic("t")

    async def talk() -> list[Row]:
        waiting = Waiting(house, version, ("t", [wanted()]))
        # Its task has not had a turn yet.
        frame = produce_frame(house, 12, ("t", 0, ONE))
        assert isinstance(house.dispatch_once(house.peer, frame), list)
        return await waiting.rows()

    (row,) = house.run(talk())
    assert row["records"] == stored(ONE, 0)


def test_too_little_that_comes_before_it_is_parked_counts(house: House) -> None:
    house.topic("t")

    async def talk() -> list[Row]:
        waiting = Waiting(house, 12, ("t", [wanted()]), min_bytes=2 * len(ONE))
        house.dispatch_once(house.peer, produce_frame(house, 12, ("t", 0, ONE)))
        await settle()
        assert not waiting.task.done()
        await _produce(house, ("t", 0, ONE))
        return await waiting.rows()

    (row,) = house.run(talk())
    assert row["records"] == stored(ONE, 0) + stored(ONE, 1)
    assert _parked(house) == 0


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_reader_that_goes_leaves_nothing_behind(house: House, steps: int) -> None:
    house.topic("t", 3)

    async def talk() -> None:
        waiting = Waiting(house, 12, ("t", [wanted(index) for index in range(3)]))
        for _ in range(steps):
            await asyncio.sleep(0)
        assert _parked(house) == (3 if steps else 0)
        waiting.task.cancel()
        await settle()
        assert waiting.task.cancelled()
        assert _parked(house) == 0
        await _produce(house, ("t", 0, ONE))

    house.run(talk())


def test_many_wait_for_one(house: House) -> None:
    house.topic("t")

    async def talk() -> list[list[Row]]:
        waiting = [Waiting(house, version, ("t", [wanted()])) for version in FETCH_VERSIONS]
        await settle()
        assert _parked(house) == len(FETCH_VERSIONS)
        await _produce(house, ("t", 0, ONE))
        return [await each.rows() for each in waiting]

    assert all(row["records"] == stored(ONE, 0) for (row,) in house.run(talk()))
    assert _parked(house) == 0


def test_what_is_not_synced_is_not_seen(build_house: Callable[..., House]) -> None:
    work = HeldWork()
    house = build_house(work=work)
    house.topic("t", flush_messages="1")

    async def talk() -> list[Row]:
        asyncio.get_running_loop().create_task(_produce(house, ("t", 0, ONE)))
        await settle()
        waiting = Waiting(house, 12, ("t", [wanted(), wanted()]))
        await settle()
        assert not waiting.task.done()
        work.let_go()
        return await waiting.rows()

    (row,) = house.run(talk())
    assert (row["high_watermark"], row["records"]) == (1, stored(ONE, 0))


def test_woken_it_may_find_the_disk_slow(build_house: Callable[..., House]) -> None:
    house = build_house(files=SlowFiles(1))
    house.topic("t", 2)

    async def talk() -> list[Row]:
        waiting = Waiting(house, 12, ("t", [wanted(0), wanted(1)]))
        await settle()
        await _produce(house, ("t", 1, ONE))
        return await waiting.rows()

    assert [row["records"] for row in house.run(talk())] == [b"", stored(ONE, 0)]


def test_an_error_is_not_waited_with(house: House) -> None:
    house.topic("t", 2)
    rows = fetch_rows(fetch(house, 12, ("t", [wanted(0), wanted(1, 5)]), max_wait_ms=LONG_MS))
    assert [row["error_code"] for row in rows] == ["none", "offset_out_of_range"]
