"""Produce and Fetch as a client of any version speaks them, and the outside of a broker by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from tests.api.conftest import KEYS, T, build

from barnabas.ports.exchange import Later, Peer
from barnabas.ports.work import Lane
from barnabas.wire.messages import version_type
from barnabas.wire.records.batch import stamp
from barnabas.wire.records.record import Record, encode_batch
from barnabas.wire.tolerant import field_type
from barnabas.world.memory import MemoryFile, MemoryFiles

if TYPE_CHECKING:
    from tests.api.conftest import House

V = TypeVar("V")

Row = dict[str, Any]
Sent = tuple[str, int, bytes | None]
"""A topic's name, a partition, and the records for it."""

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
IDS_FROM = 13
UNKNOWN_ID = UUID("11111111-2222-3333-4444-555555555555")
MIB = 1 << 20


def batch(*values: bytes | None, at: int = T, key: bytes | None = None, **options: Any) -> bytes:
    """A batch with a record for each value."""
    records = [Record(n, at, key, value, []) for n, value in enumerate(values)]
    return encode_batch(records, **options)


def batch_of_size(size: int) -> bytes:
    """A batch of one record that has `size` bytes, or as few more as a varint allows."""
    value = size - len(batch(b""))
    while len(batch(bytes(value))) > size:
        value -= 1
    while len(batch(bytes(value))) < size:
        value += 1
    return batch(bytes(value))


def stored(data: bytes, offset: int, epoch: int = 0) -> bytes:
    """The batch as the log keeps it."""
    copy = bytearray(data)
    stamp(copy, 0, offset, epoch)
    return bytes(copy)


def topic_key(house: House, version: int, name: str, by_name: str) -> Row:
    """How a request of this version names a topic."""
    if version < IDS_FROM:
        return {by_name: name}
    known = house.cluster.image.topics.get(name)
    return {"topic_id": known.id if known is not None else UNKNOWN_ID}


def produce_frame(
    house: House,
    version: int,
    *sent: Sent,
    acks: int = -1,
    timeout_ms: int = 10_000,
    transactional_id: str | None = None,
) -> bytes:
    """A whole Produce request."""
    topics = [
        {
            **topic_key(house, version, name, "name"),
            "partition_data": [{"index": index, "records": data} for _, index, data in group],
        }
        for name, group in groupby(sent, key=lambda each: each[0])
    ]
    body = {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout": timedelta(milliseconds=timeout_ms),
        "topic_data": topics,
    }
    request = build(version_type(KEYS["produce"], version, "request"), body)
    return house.frame(KEYS["produce"], version, request)


def produce_rows(house: House, version: int, answer: bytes) -> list[Row]:
    """What an answer says of each partition, in its order."""
    decoded = house.decode(KEYS["produce"], version, answer)
    return [row for topic in decoded["responses"] for row in topic["partition_responses"]]


def produce(house: House, version: int, *sent: Sent, **options: Any) -> list[Row]:
    """Send records and wait for what becomes of each partition's."""
    frame = produce_frame(house, version, *sent, **options)
    return produce_rows(house, version, house.send(frame))


def wanted(index: int = 0, offset: int = 0, **more: Any) -> Row:
    """One partition of a Fetch."""
    return {
        "partition": index,
        "fetch_offset": offset,
        "partition_max_bytes": MIB,
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        **more,
    }


def fetch_frame(
    house: House,
    version: int,
    topics: Sequence[tuple[str, Sequence[Row]]],
    *,
    max_wait_ms: int = 0,
    forgotten: Sequence[tuple[str, Sequence[int]]] = (),
    **options: Any,
) -> bytes:
    """A whole Fetch request; what its version can not say is left out."""
    entity = version_type(KEYS["fetch"], version, "request")
    replica_id = options.pop("replica_id", -1)
    body = {
        "replica_id": replica_id,
        "replica_state": {"replica_id": replica_id, "replica_epoch": -1},
        "max_wait": timedelta(milliseconds=max_wait_ms),
        "min_bytes": 1,
        "max_bytes": MIB,
        "session_epoch": -1,
        "topics": [
            {**topic_key(house, version, name, "topic"), "partitions": rows}
            for name, rows in topics
        ],
        "forgotten_topics_data": [
            {**topic_key(house, version, name, "topic"), "partitions": indexes}
            for name, indexes in forgotten
        ],
        **options,
    }
    return house.frame(KEYS["fetch"], version, build(entity, _sayable(entity, body)))


def _sayable(entity: Any, body: Mapping[str, Any]) -> Row:
    """Only the fields that a message of this version has, at every depth."""
    said: Row = {}
    for field in fields(entity):
        if field.name not in body:
            continue
        inner, is_array, _, is_entity = field_type(field)
        value = body[field.name]
        if is_entity and is_array:
            value = [_sayable(inner, each) for each in value]
        elif is_entity:
            value = _sayable(inner, value)
        said[field.name] = value
    return said


def fetch(house: House, version: int, *topics: tuple[str, Sequence[Row]], **options: Any) -> Row:
    """A Fetch and its answer."""
    frame = fetch_frame(house, version, topics, **options)
    answer: Row = house.decode(KEYS["fetch"], version, house.send(frame))
    return answer


def fetch_rows(answer: Row) -> list[Row]:
    """What an answer says of each partition, in its order."""
    return [row for topic in answer["responses"] for row in topic["partitions"]]


def fetch_one(
    house: House, topic: str, offset: int, version: int = 12, index: int = 0, **more: Any
) -> Row:
    """One partition from one offset on; `more` may be about the partition or the request."""
    names = {"partition_max_bytes", "current_leader_epoch", "last_fetched_epoch"}
    part = {name: more.pop(name) for name in names & more.keys()}
    answer = fetch(house, version, (topic, [wanted(index, offset, **part)]), **more)
    (row,) = fetch_rows(answer)
    return row


async def answer_of(house: House, frame: bytes, peer: Peer | None = None) -> bytes | None:
    """One request from its frame to its answer, inside the loop."""
    reply = house.dispatch_once(peer or house.peer, frame)
    if isinstance(reply, Later):
        reply = await reply.coroutine
    return None if reply is None else b"".join(reply)


class StillClock:
    """Time goes only when it is told to."""

    def __init__(self) -> None:
        self.now_ms = T + 1_000_000
        self.now_s = 1000.0

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic(self) -> float:
        return self.now_s


class HeldWork:
    """Jobs begin only when they are let go, one by one; folders are made at once."""

    def __init__(self) -> None:
        self._held: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def __len__(self) -> int:
        return len(self._held)

    def run(self, job: Callable[[], V], lane: Lane = Lane.READ) -> asyncio.Future[V]:
        future: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._held.append((job, future))
        if lane is Lane.CHORE:
            self.let_go(-1)
        return future

    def let_go(self, which: int = 0) -> None:
        """Do the job, on this thread."""
        job, future = self._held.pop(which)
        if future.cancelled():
            return
        try:
            future.set_result(job())
        except Exception as error:  # noqa: BLE001 - whoever waits for the job gets it
            future.set_exception(error)


class SlowFile(MemoryFile):
    """Bytes that are in the cache only now and then."""

    def pread_cached(self, length: int, position: int) -> bytes | None:
        return super().pread_cached(length, position) if self.is_cached() else None

    def pread(self, length: int, position: int) -> bytes:
        if self.broken():
            raise OSError(5, "the disk can not be read")
        return super().pread(length, position)

    is_cached: Callable[[], bool]
    broken: Callable[[], bool]


class SlowFiles(MemoryFiles):
    """Every `period`-th read of a log would have to wait for the disk; some can not be done."""

    def __init__(self, period: int) -> None:
        super().__init__()
        self._period = period
        self.reads = 0
        self.broken: set[str] = set()

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        file = SlowFile(self._content(path, create=create), writable=True)
        file.is_cached = self._is_cached
        file.broken = lambda: path in self.broken
        return file

    def _is_cached(self) -> bool:
        self.reads += 1
        return self.reads % self._period != 0


async def settle() -> None:
    """Let everything happen that needs nothing but its turn."""
    for _ in range(20):
        await asyncio.sleep(0)
