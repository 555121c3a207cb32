"""Produce that can not be answered at once: records looked into, batches synced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.hot_path import (
    PRODUCE_VERSIONS,
    HeldWork,
    Row,
    Sent,
    batch,
    fetch_one,
    produce,
    produce_frame,
    produce_rows,
    settle,
    stored,
)

from barnabas.cluster.configs import ConfigEdit, ConfigResource, IncrementalChange
from barnabas.model.errors import DecodeError
from barnabas.ports.exchange import Frames, Later, Reply
from barnabas.wire.records.batch import assemble, parse_header, walk
from barnabas.wire.records.compression import CODEC_NAMES, CODECS_BY_NAME
from barnabas.wire.records.record import decode_batch

if TYPE_CHECKING:
    from tests.api.conftest import House

VALUE = b"compressible " * 20


class Asked:
    """A request that has been dispatched, as a connection holds it."""

    def __init__(self, house: House, version: int, reply: Reply) -> None:
        self._house, self._version = house, version
        self._frames = reply
        self._task: asyncio.Future[Frames | None] | None = None
        if isinstance(reply, Later):
            self._task = asyncio.ensure_future(reply.coroutine)

    @property
    def answered(self) -> bool:
        return self._task is None or self._task.done()

    def give_up(self) -> None:
        """The peer has gone."""
        assert self._task is not None
        self._task.cancel()

    async def rows(self) -> list[Row]:
        frames = self._frames if self._task is None else await self._task
        assert not isinstance(frames, Later)
        return [] if frames is None else produce_rows(self._house, self._version, b"".join(frames))

    async def bases(self) -> list[int]:
        return [row["base_offset"] for row in await self.rows()]


def _send(house: House, *sent: Sent, version: int = 12, **options: Any) -> Asked:
    """Dispatch now, as one of several pipelined requests."""
    frame = produce_frame(house, version, *sent, **options)
    return Asked(house, version, house.dispatch_once(house.peer, frame))


def _values(house: House, topic: str) -> list[bytes | None]:
    data = fetch_one(house, topic, 0)["records"]
    return [each.value for at, _ in walk(data) for each in decode_batch(data, at)]


# --- conversion ---------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_records_are_stored_in_the_compression_of_their_topic(house: House, target: str) -> None:
    house.topic("t", compression_type=target)
    for codec in CODEC_NAMES:
        (row,) = produce(house, 12, ("t", 0, batch(VALUE, VALUE, codec=codec)))
        assert row["error_code"] == "none"
    data = fetch_one(house, "t", 0)["records"]
    headers = [header for _, header in walk(data)]
    assert {header.codec for header in headers} == {CODECS_BY_NAME.get(target, 0)}
    assert _values(house, "t") == [VALUE] * 2 * len(CODEC_NAMES)


def test_a_batch_in_the_right_compression_is_not_touched(house: House) -> None:
    house.topic("t", compression_type="lz4")
    data = batch(VALUE, codec=CODECS_BY_NAME["lz4"])
    produce(house, 12, ("t", 0, data))
    assert fetch_one(house, "t", 0)["records"] == stored(data, 0)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_records_that_can_not_be_read_are_refused_where_they_must_be_read(
    house: House, version: int
) -> None:
    house.topic("t", compression_type="zstd")
    lie = bytearray(batch(VALUE))
    header = parse_header(lie)._replace(attributes=CODECS_BY_NAME["gzip"])
    (row,) = produce(house, version, ("t", 0, assemble(header, lie[61:])))
    assert (row["error_code"], row["base_offset"]) == ("invalid_record", -1)
    assert row.get("log_start_offset", 0) == 0
    assert house.partition("t").deferred == 0


def test_a_batch_that_grows_over_the_limit_is_refused(house: House) -> None:
    house.topic("t", compression_type="uncompressed", max_message_bytes="1000")
    (row,) = produce(house, 12, ("t", 0, batch(bytes(5000), codec=CODECS_BY_NAME["gzip"])))
    assert (row["error_code"], row["log_start_offset"]) == ("message_too_large", -1)


# --- order --------------------------------------------------------------------------------------


def test_batches_keep_their_order_behind_one_that_is_being_converted(
    build_house: Callable[..., House],
) -> None:
    work = HeldWork()
    house = build_house(work=work)
    house.topic("t", compression_type="gzip")
    ready = CODECS_BY_NAME["gzip"]

    async def talk() -> list[list[int]]:
        answers = [
            _send(house, ("t", 0, batch(b"a"))),
            _send(house, ("t", 0, batch(b"b", codec=ready))),  # could be taken at once
            _send(house, ("t", 0, batch(b"c", b"c"))),
            _send(house, ("t", 0, batch(b"d", codec=ready)), version=3),
        ]
        await settle()
        assert house.partition("t").log.end_offset == 0
        assert not any(each.answered for each in answers)
        while work:
            work.let_go(-1)
            await settle()
        return [await each.bases() for each in answers]

    assert house.run(talk()) == [[0], [1], [2], [4]]
    assert _values(house, "t") == [b"a", b"b", b"c", b"c", b"d"]
    assert house.partition("t").deferred == 0


def test_a_slow_partition_does_not_turn_the_order_in_another(
    build_house: Callable[..., House],
) -> None:
    work = HeldWork()
    house = build_house(work=work)
    for name in ("slow", "t"):
        house.topic(name, compression_type="gzip")

    async def talk() -> list[list[int]]:
        first = _send(house, ("slow", 0, batch(b"-")), ("t", 0, batch(b"a")))
        second = _send(house, ("t", 0, batch(b"b")))
        await settle()
        assert len(work) == 2
        work.let_go(1)  # of "t"; the job for "slow" takes longer than all the others
        await settle()
        work.let_go(1)
        await settle()
        work.let_go(0)
        return [await first.bases(), await second.bases()]

    assert house.run(talk()) == [[0, 0], [1]]
    assert _values(house, "t") == [b"a", b"b"]


def test_the_lane_queues_behind_what_is_being_converted(build_house: Callable[..., House]) -> None:
    work = HeldWork()
    house = build_house(work=work)
    house.topic("t")

    async def talk() -> list[list[int]]:
        answers = [_send(house, ("t", 0, batch(b"a")))]
        assert house.peer.state is not None
        await _recompress(house, "gzip")
        answers.append(_send(house, ("t", 0, batch(b"b"))))
        await _recompress(house, "producer")
        answers.append(_send(house, ("t", 0, batch(b"c"))))
        await settle()
        assert [each.answered for each in answers] == [True, False, False]
        while work:
            work.let_go()
            await settle()
        answers.append(_send(house, ("t", 0, batch(b"d"))))
        return [await each.bases() for each in answers]

    assert house.run(talk()) == [[0], [1], [2], [3]]
    assert _values(house, "t") == [b"a", b"b", b"c", b"d"]


async def _recompress(house: House, compression: str) -> None:
    edit = ConfigEdit("compression.type", 0, compression)
    change = IncrementalChange(ConfigResource(2, "t"), [edit])
    (result,) = await house.cluster.incremental_alter_configs([change])
    assert result.code.name == "none"


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_peer_that_goes_leaves_no_queue_behind(
    build_house: Callable[..., House], steps: int
) -> None:
    work = HeldWork()
    house = build_house(work=work)
    house.topic("t", 2, compression_type="gzip")
    partition = house.partition("t")

    async def talk() -> list[int]:
        gone = _send(house, ("t", 0, batch(b"lost")), ("t", 1, batch(b"lost")))
        for _ in range(steps):
            await asyncio.sleep(0)
        gone.give_up()
        await settle()
        while work:
            work.let_go()
            await settle()
        assert partition.deferred == house.partition("t", 1).deferred == 0
        return await _send(house, ("t", 0, batch(b"kept", codec=CODECS_BY_NAME["gzip"]))).bases()

    kept = house.run(talk())
    # Begun or not: either all of it was done or nothing, and what follows comes after it.
    assert kept == [partition.log.end_offset - 1]
    assert _values(house, "t")[-1] == b"kept"


# --- syncing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_with_flush_messages_1_only_the_synced_is_acknowledged_and_seen(
    build_house: Callable[..., House], version: int
) -> None:
    work = HeldWork()
    house = build_house(work=work)
    house.topic("t", flush_messages="1")

    async def talk() -> list[list[int]]:
        answers = [_send(house, ("t", 0, batch(b"a")), version=version, acks=1)]
        answers.append(_send(house, ("t", 0, batch(b"b")), version=version))
        await settle()
        assert not any(each.answered for each in answers)
        assert house.partition("t").log.end_offset == 2
        assert house.partition("t").high_watermark == 0
        work.let_go()
        await settle()
        assert [each.answered for each in answers] == [True, False]
        assert house.partition("t").high_watermark == 1
        work.let_go()
        return [await each.bases() for each in answers]

    assert house.run(talk()) == [[0], [1]]
    assert _values(house, "t") == [b"a", b"b"]


@pytest.mark.parametrize("timeout_ms", [-1, 0, 1])
def test_patience_ends(build_house: Callable[..., House], timeout_ms: int) -> None:
    work = HeldWork()
    house = build_house(work=work)
    house.topic("t", 2, flush_messages="1")
    house.topic("c", flush_messages="1", cleanup_policy="compact")

    async def talk() -> list[Row]:
        data = batch(b"a", key=b"k")
        sent = ("t", 0, data), ("t", 1, data), ("c", 0, data)
        answer = _send(house, *sent, timeout_ms=timeout_ms)
        await settle()
        work.let_go(-1)  # The records of the compacted topic are looked into; no sync ends.
        return await answer.rows()

    rows = house.run(talk())
    assert [row["error_code"] for row in rows] == ["request_timed_out"] * 3
    assert {row["base_offset"] for row in rows} == {-1}


def test_a_repeat_waits_for_the_sync_of_the_first(build_house: Callable[..., House]) -> None:
    work = HeldWork()
    house = build_house(work=work)
    house.topic("t", flush_messages="1")
    data = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0)

    async def talk() -> list[list[int]]:
        answers = [_send(house, ("t", 0, data)), _send(house, ("t", 0, data))]
        await settle()
        assert not any(each.answered for each in answers)
        work.let_go()
        return [await each.bases() for each in answers]

    assert house.run(talk()) == [[0], [0]]


def test_without_acks_there_is_no_deadline(build_house: Callable[..., House]) -> None:
    work = HeldWork()
    house = build_house(work=work)
    house.topic("t", flush_messages="1")

    async def talk() -> list[Row]:
        answer = _send(house, ("t", 0, batch(b"a")), acks=0, timeout_ms=0)
        await settle()
        assert not answer.answered
        work.let_go()
        return await answer.rows()

    assert house.run(talk()) == []


def test_a_topic_that_goes_away_ends_the_wait(build_house: Callable[..., House]) -> None:
    work = HeldWork()
    house = build_house(work=work)
    house.topic("t", flush_messages="1")

    async def talk() -> list[Row]:
        answer = _send(house, ("t", 0, batch(b"a")))
        await settle()
        await house.cluster.delete_topics(["t"])
        return await answer.rows()

    (row,) = house.run(talk())
    assert row["error_code"] == "unknown_topic_or_partition"


def test_the_second_of_a_kind_waits_like_the_first(build_house: Callable[..., House]) -> None:
    """It takes the lane, where no task waits for it; what it is told is the same."""
    work = HeldWork()
    house = build_house(work=work)
    house.topic("t", flush_messages="1")

    async def talk() -> tuple[list[Row], ...]:
        first = _send(house, ("t", 0, batch(b"a")), timeout_ms=50)
        second = _send(house, ("t", 0, batch(b"b")), timeout_ms=50)
        out_of_patience = await first.rows(), await second.rows()
        late = _send(house, ("t", 0, batch(b"c")), timeout_ms=10_000)
        given_up = _send(house, ("t", 0, batch(b"d")), timeout_ms=10_000)
        given_up.give_up()
        work.let_go()
        await settle()
        work.let_go()
        acknowledged = await late.rows()
        _send(house, ("t", 0, batch(b"e")), timeout_ms=10_000)
        gone = _send(house, ("t", 0, batch(b"f")), timeout_ms=10_000)
        await settle()
        await house.cluster.delete_topics(["t"])
        return *out_of_patience, acknowledged, await gone.rows()

    told = [(row["error_code"], row["base_offset"]) for (row,) in house.run(talk())]
    assert told == [
        ("request_timed_out", -1),
        ("request_timed_out", -1),
        ("none", 2),
        ("unknown_topic_or_partition", -1),
    ]


def test_without_acks_a_late_refusal_closes_the_connection(house: House) -> None:
    house.topic("t", cleanup_policy="compact")
    with pytest.raises(DecodeError, match="acks=0"):
        house.send(produce_frame(house, 12, ("t", 0, batch(b"no key")), acks=0))
