"""Many partitions on one broker: made, each written to and read, stopped and started again."""

import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from barnabas.bench import admin, frames, host, subject
from barnabas.bench.lives import Life, life
from barnabas.bench.load import RefusedError, connect
from barnabas.bench.payload import build_batch

_DEPTH: Final = 32
_WAIT_S: Final = 600
_FETCH_BYTES: Final = 64 * 1024


def measure(data: Path, count: int, argv: Sequence[str]) -> list[dict[str, Any]]:
    """Rows about `count` partitions of one topic."""
    with tempfile.TemporaryDirectory(prefix="partitions-", dir=data) as folder:
        room = Path(folder)
        with life(room, argv) as first:
            rows = _made_and_served(first, count)
            rows.append(_told(first.stop(f"clean stop, {count:,} partitions")))
        with life(room, argv) as second:
            rows.append(_told(second.started(f"clean start, {count:,} partitions")))
            second.stop("")
        with life(room, argv) as third:
            rows.append(_told(third.stop(f"clean stop, {count:,} idle partitions")))
    return rows


def _made_and_served(broker: Life, count: int) -> list[dict[str, Any]]:
    topic = admin.new_topic_name()
    server = broker.server
    made = _timed(lambda: create(server, topic, count))
    rows = [_told({"what": f"{count:,} partitions made", "seconds": made, **broker.facts()})]
    write = bytearray(frames.produce(topic, build_batch(1024).data, acks=-1))
    written = _timed(lambda: ask_each(server, write, frames.PRODUCE_PARTITION_AT, count, _produced))
    rows.append(_told({"what": "each written to", "seconds": written, **broker.facts()}))
    read = bytearray(frames.fetch(topic, bytes_max=_FETCH_BYTES))
    seconds = _timed(lambda: ask_each(server, read, frames.FETCH_PARTITION_AT, count, _fetched))
    rows.append(_told({"what": "each read", "seconds": seconds, **broker.facts()}))
    return rows


def _told(row: dict[str, Any]) -> dict[str, Any]:
    host.progress(
        f"{row['what']}: {row['seconds']:.2f} s, at most {row['peak_mib']:.0f} MiB, "
        f"{row['descriptors']} descriptors"
    )
    return row


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@contextmanager
def _patient(server: subject.Subject) -> Iterator[socket.socket]:
    with connect(server.host, server.port) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _WAIT_S, 0))
        yield sock


def create(server: subject.Subject, topic: str, count: int) -> None:
    """Make a topic; the answer comes when all of it is served."""
    with _patient(server) as sock:
        answer = admin.converse(sock, frames.create_topic(topic, {}, count))
    error = admin.topic_errors(answer, throttled=True, messages=True).get(topic)
    if error != 0:
        raise RefusedError(f"error code {error} to CreateTopics of {count} partitions")


def ask_each(
    server: subject.Subject,
    frame: bytearray,
    partition_at: int,
    count: int,
    check: Callable[[bytes], None],
) -> None:
    """The same request to every partition, some in flight at a time."""
    with _patient(server) as sock:
        for first in range(0, count, _DEPTH):
            numbers = range(first, min(first + _DEPTH, count))
            for number in numbers:
                struct.pack_into(">i", frame, partition_at, number)
                sock.sendall(frame)
            for _ in numbers:
                check(admin.receive(sock))


def _produced(answer: bytes) -> None:
    error = frames.PRODUCE_ANSWER.unpack_from(answer)[2]
    if error:
        raise RefusedError(f"error code {error} to a Produce request")


def _fetched(answer: bytes) -> None:
    _, _, error, partition_error, high_watermark = frames.FETCH_ANSWER.unpack_from(answer)
    if error or partition_error or high_watermark < 1:
        raise RefusedError(
            f"error code {error or partition_error} to a Fetch request, of a partition with "
            f"{high_watermark} records"
        )
