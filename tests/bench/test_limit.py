"""The generator and the limit server exchange exactly what they say they do."""

import socket
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.bench import admin, crew, frames, ratio
from barnabas.bench.load import FetchPipe, Load, ProducePipe, RefusedError, connect, drive
from barnabas.bench.payload import build_batch
from barnabas.bench.subject import Subject
from barnabas.model.errors import BarnabasError

TOPIC = "bench-0123456789"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("limit")


@pytest.fixture(scope="module")
def started(folder: Path) -> Iterator[Subject]:
    with crew.limit_server(folder) as server:
        yield server


@pytest.fixture
def server(started: Subject) -> Subject:
    admin.exchange(started.host, started.port, frames.delete_topic(TOPIC))
    return started


@pytest.fixture(scope="module")
def workers() -> Iterator[crew.Crew]:
    with crew.workers(2) as started:
        yield started


def load_for(server: Subject, batch_bytes: int, **changes: int) -> Load:
    plain = Load(server.host, server.port, TOPIC, "produce", batch_bytes, 20, 20.0)
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("batch_bytes", [0, 8_192, 100_000, 1_000_000])
@pytest.mark.parametrize("depth", [1, 5])
def test_every_acknowledged_batch_is_on_disk(
    server: Subject, folder: Path, batch_bytes: int, depth: int
) -> None:
    load = load_for(server, batch_bytes, depth=depth)
    batch = build_batch(batch_bytes, now_ms=0)
    frame = frames.produce(TOPIC, batch.data, acks=-1)
    with connect(server.host, server.port) as sock:
        outcome = drive([ProducePipe(sock, frame, batch, depth)], load)
    assert (outcome.requests, outcome.records) == (20, 20 * batch.records)
    assert outcome.payload_bytes == 20 * len(batch.data)
    assert (folder / "limit.log").read_bytes() == batch.data * 20


def test_workers_share_the_requests(server: Subject, workers: crew.Crew, folder: Path) -> None:
    outcome = workers.run(load_for(server, 8_192, requests_max=60, connections=3, depth=5))
    batch = build_batch(8_192)
    assert (outcome.requests, outcome.records) == (60, 60 * batch.records)
    assert (folder / "limit.log").stat().st_size == outcome.payload_bytes == 60 * len(batch.data)


def test_a_load_ends_when_its_time_is_over(server: Subject, workers: crew.Crew) -> None:
    outcome = workers.run(replace(load_for(server, 0, requests_max=10**9), seconds_max=0.05))
    assert 0 < outcome.requests < 10**6


def test_consuming_reads_the_whole_file_and_starts_over(
    server: Subject, workers: crew.Crew
) -> None:
    written = workers.run(load_for(server, 8_192, requests_max=40))
    size = len(build_batch(8_192).data)
    load = replace(
        load_for(server, 8_192, requests_max=15, fetch_bytes=8 * size),
        kind="consume", end_offset=written.payload_bytes, offsets_are_bytes=True,
    )  # fmt: skip
    with connect(server.host, server.port) as sock:
        outcome = drive([FetchPipe(sock, load)], load)
    assert (outcome.requests, outcome.payload_bytes) == (15, 15 * 8 * size)
    assert outcome.records == 3 * written.records


def test_offsets_come_from_the_last_whole_batch(server: Subject) -> None:
    first, second = (bytearray(build_batch(8_192).data) for _ in range(2))
    count = build_batch(8_192).records
    struct.pack_into(">q", second, 0, count)
    for data in (first, second):
        admin.exchange(server.host, server.port, frames.produce(TOPIC, bytes(data), acks=-1))
    load = replace(
        load_for(server, 8_192, fetch_bytes=len(first) * 2 - 1), kind="consume", end_offset=10**6
    )
    with connect(server.host, server.port) as sock:
        pipe = FetchPipe(sock, load)
        pipe.send(1)
        pipe.receive()
        assert pipe.records == count
        pipe.send(1)
        with pytest.raises(RefusedError, match=f"at offset {count}$"):
            # The limit server takes the offset for a position, in the middle of a batch.
            pipe.receive()


def test_a_damaged_batch_closes_the_connection_and_is_not_written(
    server: Subject, folder: Path
) -> None:
    frame = bytearray(frames.produce(TOPIC, build_batch(8_192).data, acks=-1))
    frame[-20] ^= 1
    with connect(server.host, server.port) as sock:
        sock.sendall(frame)
        with pytest.raises((RefusedError, ConnectionError)):
            admin.converse(sock, bytes(frame))
    assert (folder / "limit.log").stat().st_size == 0


def test_a_frame_in_pieces_is_put_together(server: Subject, folder: Path) -> None:
    batch = build_batch(8_192)
    frame = frames.produce(TOPIC, batch.data, acks=-1)
    with connect(server.host, server.port) as sock:
        for cut in (3, 11, 70, len(frame) - 1):
            sock.sendall(frame[:cut])
            answer = admin.converse(sock, frame[cut:])
            assert len(answer) == len(frames.produce_answer()) - 8
    assert (folder / "limit.log").read_bytes() == batch.data * 4


def test_an_oversized_frame_closes_the_connection(server: Subject) -> None:
    with connect(server.host, server.port) as sock:
        sock.sendall(frames.REQUEST_HEAD.pack(1 << 30, 0, 11, 0))
        with pytest.raises((RefusedError, ConnectionError)):
            admin.converse(sock, b"")


def test_mixed_requests_are_answered_in_order(server: Subject) -> None:
    batch = build_batch(8_192)
    wanted = [frames.produce(TOPIC, batch.data, acks=-1), frames.fetch(TOPIC, bytes_max=1 << 20)]
    pipeline = bytearray()
    for correlation in range(6):
        frame = bytearray(wanted[correlation % 2])
        frames.CORRELATION.pack_into(frame, frames.CORRELATION_AT, correlation)
        pipeline += frame
    with connect(server.host, server.port) as sock:
        sock.sendall(pipeline)
        for correlation in range(6):
            size, got = struct.unpack(">ii", sock.recv(8, socket.MSG_WAITALL))
            assert got == correlation
            sock.recv(size - 4, socket.MSG_WAITALL)


def test_a_worker_says_why_it_failed(workers: crew.Crew) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
    nowhere = Load("127.0.0.1", port, TOPIC, "produce", 0, 1, 1.0)
    with pytest.raises(BarnabasError, match="refused"):
        workers.run(nowhere)


class _Refusing:
    """A peer that answers a Produce with what it is given."""

    def __init__(self, correlation: int, error: int) -> None:
        answer = bytearray(frames.produce_answer())
        frames.CORRELATION.pack_into(answer, 4, correlation)
        struct.pack_into(">h", answer, frames.PRODUCE_ANSWER.size - 2, error)
        self.ours, theirs = socket.socketpair()
        theirs.sendall(answer)
        self._theirs = theirs

    def close(self) -> None:
        self.ours.close()
        self._theirs.close()


@pytest.mark.parametrize(
    ("correlation", "error", "problem"), [(0, 3, "error code 3"), (1, 0, "answer 1 instead of 0")]
)
def test_a_refused_produce_is_not_counted(correlation: int, error: int, problem: str) -> None:
    batch = build_batch(0)
    peer = _Refusing(correlation, error)
    try:
        pipe = ProducePipe(peer.ours, frames.produce(TOPIC, batch.data, acks=-1), batch, 1)
        pipe.send(1)
        with pytest.raises(RefusedError, match=problem):
            pipe.receive()
        assert pipe.requests == 0
    finally:
        peer.close()


def test_the_limit_server_compared_with_itself(tmp_path: Path) -> None:
    options = ratio.Options(
        tmp_path, rounds=2, seconds=5.0, volume_bytes=1_000_000, keep_awake=False
    )
    report = ratio.calibrate(options)
    assert [row["shape"] for row in report.rows] == [shape.name for shape in ratio.SHAPES]
    for row in report.rows:
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
        assert len(row["broker_rounds_records_per_second"]) == 2
        assert row["cpu_ratio"] > 0
    assert list(tmp_path.iterdir()) == []
