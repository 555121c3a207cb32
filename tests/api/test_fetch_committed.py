"""Fetch and ListOffsets at read_committed: up to the last stable offset, with what was aborted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from tests.api.conftest import KEYS, T
from tests.api.hot_path import (
    FETCH_VERSIONS,
    HeldWork,
    SlowFiles,
    answer_of,
    batch,
    fetch_frame,
    fetch_one,
    fetch_rows,
    settle,
    wanted,
)
from tests.api.txn_talk import values

from barnabas.log.verification import VERIFICATION_OFF
from barnabas.model.transactions import Marker
from barnabas.ports.work import Lane

if TYPE_CHECKING:
    from tests.api.conftest import House

V = TypeVar("V")
COMMITTED: dict[str, Any] = {"isolation_level": 1}
A, B = 1000, 2000


def append(
    house: House, producer_id: int, sequence: int, value: bytes, *, topic: str = "t"
) -> None:
    """A batch of a producer's transaction."""
    data = batch(
        value,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    partition = house.partition("t")

    async def scene() -> None:
        view = memoryview(bytearray(data))
        partition.append(view, partition.log.check(view, T), T, VERIFICATION_OFF)

    house.run(scene())


def end(house: House, producer_id: int, *, committed: bool) -> None:
    async def scene() -> None:
        end_now(house, producer_id, committed=committed)

    house.run(scene())


def end_now(house: House, producer_id: int, *, committed: bool) -> None:
    marker = Marker(producer_id=producer_id, epoch=0, coordinator_epoch=0, committed=committed)
    house.partition("t").append_marker(marker, T)


def aborted(row: Any) -> list[tuple[int, int]]:
    return [(each["producer_id"], each["first_offset"]) for each in row["aborted_transactions"]]


@pytest.fixture(autouse=True)
def topic(request: pytest.FixtureRequest) -> None:
    if "house" in request.fixturenames:
        request.getfixturevalue("house").topic("t")


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_the_two_isolation_levels(house: House, version: int) -> None:
    append(house, A, 0, b"a")
    append(house, B, 0, b"b")
    end(house, A, committed=False)
    plain = fetch_one(house, "t", 0, version)
    assert plain["aborted_transactions"] is None
    assert (plain["high_watermark"], plain["last_stable_offset"]) == (3, 1)
    row = fetch_one(house, "t", 0, version, **COMMITTED)
    assert aborted(row) == [(A, 0)]
    assert len(row["records"]) < len(plain["records"])
    assert (row["high_watermark"], row["last_stable_offset"]) == (3, 1)
    above = fetch_one(house, "t", 1, version, **COMMITTED)
    assert (above["error_code"], above["records"], aborted(above)) == ("none", b"", [])
    end(house, B, committed=True)
    row = fetch_one(house, "t", 0, version, **COMMITTED)
    assert (row["last_stable_offset"], aborted(row)) == (4, [(A, 0)])
    assert values(house) == [b"b"]
    assert aborted(fetch_one(house, "t", 3, version, **COMMITTED)) == []


def test_only_what_was_aborted_among_the_records_is_told(house: House) -> None:
    for number in range(4):
        append(house, A, number, b"%d" % number)
        end(house, A, committed=number % 2 == 1)
    row = fetch_one(house, "t", 4, partition_max_bytes=1, **COMMITTED)
    assert aborted(row) == [(A, 4)]
    assert aborted(fetch_one(house, "t", 2, partition_max_bytes=1, **COMMITTED)) == []
    assert aborted(fetch_one(house, "t", 0, **COMMITTED)) == [(A, 0), (A, 4)]


def test_offsets_by_time_and_latest_stop_at_what_is_stable(house: House) -> None:
    house.append("t", T)
    append(house, A, 0, b"a")

    def told(timestamp: int, isolation: int) -> int:
        answer = house.ask(
            "list_offsets", 7, replica_id=-1, isolation_level=isolation,
            topics=[{"name": "t", "partitions": [
                {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}]}],
        )  # fmt: skip
        offset: int = answer["topics"][0]["partitions"][0]["offset"]
        return offset

    assert (told(-1, 0), told(-1, 1)) == (2, 1)
    assert (told(-2, 0), told(-2, 1)) == (0, 0)
    assert (told(T, 0), told(T, 1)) == (0, 0)
    house.append("t", T + 5)
    assert (told(T + 5, 0), told(T + 5, 1)) == (2, -1)
    assert (told(-3, 0), told(-3, 1)) == (2, 0)
    end(house, A, committed=True)
    assert (told(-1, 1), told(T + 5, 1)) == (4, 2)


def test_deleting_into_an_open_transaction(house: House) -> None:
    append(house, A, 0, b"a")
    append(house, A, 1, b"a")
    house.partition("t").log.advance_start(2)
    row = fetch_one(house, "t", 2, **COMMITTED)
    assert (row["last_stable_offset"], row["log_start_offset"], row["records"]) == (2, 2, b"")
    end(house, A, committed=False)
    row = fetch_one(house, "t", 2, **COMMITTED)
    assert (row["last_stable_offset"], aborted(row)) == (3, [(A, 0)])


def test_a_reader_of_committed_records_waits_for_the_marker(house: House) -> None:
    append(house, A, 0, b"a")

    async def scene() -> Any:
        options = {**COMMITTED, "max_wait_ms": 60_000}
        frame = fetch_frame(house, 12, [("t", [wanted(0, 0)])], **options)
        waiting = asyncio.ensure_future(answer_of(house, frame))
        await settle()
        view = memoryview(bytearray(batch(b"plain")))
        partition = house.partition("t")
        partition.append(view, partition.log.check(view, T), T)
        await settle()
        assert not waiting.done(), "nothing that it may see has come"
        end_now(house, A, committed=True)
        answer = await asyncio.wait_for(waiting, 30)
        assert answer is not None
        return house.decode(KEYS["fetch"], 12, answer)

    (row,) = fetch_rows(house.run(scene()))
    assert (row["last_stable_offset"], row["high_watermark"]) == (3, 3)
    assert row["records"]


# --- what has to come from the disk ----------------------------------------------------------


class WorkHeldLater(HeldWork):
    """Does jobs at once, until it is told to hold them."""

    holding = False

    def run(self, job: Callable[[], V], lane: Lane = Lane.READ) -> asyncio.Future[V]:
        future = super().run(job, lane)
        if not self.holding and not future.done():
            self.let_go()
        return future


class ColdIndexes(SlowFiles):
    """The logs are in the cache, their transaction indexes are not."""

    def __init__(self) -> None:
        super().__init__(1 << 60)

    def open_read_only(self, path: str) -> Any:
        file = self.open(path)
        if path.endswith(".txnindex"):
            file.is_cached = lambda: False  # type: ignore[attr-defined]
        return file


@pytest.mark.parametrize("files", [lambda: SlowFiles(1), ColdIndexes], ids=["records", "indexes"])
@pytest.mark.parametrize("gone", [False, True])
def test_cold_records_and_indexes(
    build_house: Callable[..., House], files: Callable[[], SlowFiles], gone: bool
) -> None:
    """`gone`: meanwhile retention takes what tells of them. Then nothing is shown at all."""
    work = WorkHeldLater()
    house = build_house({}, files=files(), work=work)
    house.topic("t")
    partition = house.partition("t")
    for number in range(6):
        append(house, A, number, b"aborted")
        end(house, A, committed=False)
        if number % 2:
            partition.log.roll(T)

    work.holding = True

    async def scene() -> Any:
        frame = fetch_frame(house, 12, [("t", [wanted(0, 0)])], **COMMITTED)
        waiting = asyncio.ensure_future(answer_of(house, frame))
        await settle()
        if gone:
            partition.log.drop(partition.log.segments[:2])
        while not waiting.done():
            assert len(work), "it waits for nothing"
            work.let_go()
            await settle()
        answer = waiting.result()
        assert answer is not None
        return house.decode(KEYS["fetch"], 12, answer)

    (row,) = fetch_rows(house.run(scene()))
    work.holding = False
    assert row["error_code"] == "none"
    if gone:
        assert (row["records"], aborted(row)) == (b"", [])
    else:
        assert row["records"]
        assert aborted(row)[0] == (A, 0)


def test_an_index_that_can_not_be_read_shows_nothing(house: House) -> None:
    append(house, A, 0, b"aborted")
    end(house, A, committed=False)
    partition = house.partition("t")
    house.files.remove(partition.log.aborted.path(0))
    row = fetch_one(house, "t", 0, **COMMITTED)
    assert (row["error_code"], row["records"]) == ("kafka_storage_error", b"")
    assert fetch_one(house, "t", 0)["records"]
