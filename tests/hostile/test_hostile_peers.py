"""Peers who come in crowds, ask without listening, or take forever: each costs what it may cost."""

import itertools
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.chaos import talk
from tests.chaos.broker_process import BrokerProcess, Measure
from tests.hostile.stranger import HungUpError, Stranger, framed

from barnabas.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.fetch_client import encode_fetch_request
from barnabas.wire.headers import request_header

_API_VERSIONS: Final = 18
_FETCH: Final = 1
_FETCH_VERSION: Final = 12
_MEBIBYTE: Final = 1024 * 1024
_LIMITS: Final = {
    "FRAME_WAIT_S_MAX": 0.5,
    "OUTBOX_WAIT_S_MAX": 2.0,
    "OUTBOX_BYTES_MAX": 256 * 1024,
}
_CONNECTIONS_MAX: Final = 400
_SETTLE_S: Final = 20.0
_DAY_MS: Final = 86_400_000


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with short waits and few places."""
    home = tmp_path_factory.mktemp("impatient")
    settings = {"connections.max.idle.ms": "1500", "max.connections": str(_CONNECTIONS_MAX)}
    with BrokerProcess(home, settings=settings, limits=_LIMITS) as broker:
        broker.start()
        with broker.link() as link:
            talk.create_topic(link, "big")
            for _ in range(8):
                talk.produce(link, ("big", 0), talk.batch_of(bytes(_MEBIBYTE - 1024)))
            talk.create_topic(link, "empty")
        yield broker
        assert broker.terminate() == 0
        assert "Traceback" not in broker.log_text()


def _question(number: int) -> bytes:
    return framed(request_header(_API_VERSIONS, 0, number))


def _fetch(topic: str, number: int, *, max_wait_ms: int = 0) -> bytes:
    part = FetchPartition(0, -1, 0, -1, -1, 64 * _MEBIBYTE)
    request = FetchRequest(
        -1, -1, max_wait_ms, 1, 64 * _MEBIBYTE, 0, 0, -1, [FetchTopic(topic, None, [part])], []
    )
    header = request_header(_FETCH, _FETCH_VERSION, number)
    return framed(header + encode_fetch_request(_FETCH_VERSION, request))


def _served(broker: BrokerProcess) -> None:
    """Others are served."""
    with broker.link() as link:
        assert "big" in talk.topics(link)


def _settled(broker: BrokerProcess, baseline: Measure) -> Measure:
    """What the broker holds once it holds no more descriptors and tasks than at first."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        now = broker.measure()
        if now.descriptors <= baseline.descriptors and now.tasks <= baseline.tasks:
            return now
        assert time.monotonic() < deadline, f"{baseline} became {now}"
        time.sleep(0.05)


def _is_closed(stranger: Stranger) -> bool:
    """Whether the broker hangs up, within the patience of the socket."""
    try:
        while True:
            stranger.frame()
    except HungUpError:
        return True
    except TimeoutError:
        return False


def test_a_deep_pipeline_is_answered_in_order(impatient: BrokerProcess) -> None:
    count = 5_000
    with Stranger(impatient.port) as stranger:
        asking = threading.Thread(
            target=lambda: stranger.send(b"".join(_question(n) for n in range(count)))
        )
        asking.start()
        answered = [int.from_bytes(stranger.frame()[:4], "big") for _ in range(count)]
        asking.join()
    assert answered == list(range(count))


def test_who_asks_without_listening_is_not_listened_to(impatient: BrokerProcess) -> None:
    """The broker stops reading instead of piling up answers; what it took it answers."""
    impatient.reset_peak()
    before = impatient.status_kib("VmRSS")
    # Before it connects: making them takes longer than the broker waits for the first.
    questions = b"".join(_question(n) for n in range(400_000))
    with Stranger(impatient.port) as stranger:
        stranger.socket.setblocking(False)
        asked = 0
        while (sent := _send_some(stranger.socket, questions, asked)) and asked < len(questions):
            asked += sent
        _served(impatient)
        grown = impatient.status_kib("VmHWM") - before
        stranger.socket.settimeout(30)
        first = [int.from_bytes(stranger.frame()[:4], "big") for _ in range(1000)]
    assert asked < len(questions)
    assert grown < 16 * 1024, f"{grown} KiB"
    assert first == list(range(1000))


def _send_some(sock: socket.socket, data: bytes, position: int) -> int:
    """Send what goes; 0 when nothing has gone for a while."""
    for _ in range(50):
        try:
            return sock.send(data[position : position + 65536])
        except BlockingIOError:
            time.sleep(0.01)
    return 0


def test_slow_readers_of_large_answers(impatient: BrokerProcess) -> None:
    """One answer each is held, not one for every request; then they lose their place."""
    baseline = impatient.measure()
    impatient.reset_peak()
    readers = [Stranger(impatient.port) for _ in range(10)]
    for reader in readers:
        reader.send(b"".join(_fetch("big", number) for number in range(40)))
    _served(impatient)
    assert all(map(_is_closed_unread, readers))
    grown = impatient.status_kib("VmHWM") - baseline.rss_kib
    for reader in readers:
        reader.close()
    # Eight mebibytes an answer, and once more while it is put together.
    assert grown < len(readers) * 2 * 8 * 1024 + 32 * 1024, f"{grown} KiB"
    _settled(impatient, baseline)
    _served(impatient)


def _is_closed_unread(stranger: Stranger) -> bool:
    """Whether the broker has hung up on somebody who does not read."""
    poller = select.poll()
    poller.register(stranger.socket, select.POLLHUP | select.POLLERR)
    return bool(poller.poll(30_000))


def test_a_byte_now_and_then(impatient: BrokerProcess) -> None:
    """Slow loris: frames that never end lose their connection, however many they are."""
    baseline = impatient.measure()
    crowd = [Stranger(impatient.port) for _ in range(100)]
    for stranger in crowd:
        stranger.send(struct.pack(">i", 1000))
    stop = threading.Event()

    def drip() -> None:
        while not stop.wait(0.1):
            for stranger in crowd:
                stranger.send(b"\0")

    dripping = threading.Thread(target=drip)
    dripping.start()
    closed = [_is_closed(stranger) for stranger in crowd]
    stop.set()
    dripping.join()
    for stranger in crowd:
        stranger.close()
    assert all(closed)
    _settled(impatient, baseline)


def test_who_says_nothing_loses_its_place(impatient: BrokerProcess) -> None:
    with Stranger(impatient.port) as silent, Stranger(impatient.port) as once:
        once.send(_question(1))
        assert once.frame()[:4] == b"\0\0\0\x01"
        assert _is_closed(silent)
        assert _is_closed(once)


def test_a_peer_that_has_said_its_last_word(impatient: BrokerProcess) -> None:
    """Half-closed: its question is answered or not, but its place becomes free."""
    baseline = impatient.measure()
    with Stranger(impatient.port) as stranger:
        stranger.send(_question(1))
        stranger.socket.shutdown(socket.SHUT_WR)
        assert _is_closed(stranger)
    _settled(impatient, baseline)


def test_no_more_than_there_are_places(impatient: BrokerProcess) -> None:
    baseline = impatient.measure()
    crowd = [Stranger(impatient.port) for _ in range(_CONNECTIONS_MAX)]
    for stranger in crowd:
        stranger.send(_question(7))
    assert crowd[0].frame()[:4] == b"\0\0\0\x07"
    with Stranger(impatient.port) as late:
        assert _is_closed(late)
    for stranger in crowd:
        stranger.close()
    _settled(impatient, baseline)
    _served(impatient)


def test_thousands_come_and_go(impatient: BrokerProcess) -> None:
    baseline = impatient.measure()
    reset = struct.pack("ii", 1, 0)
    for number in range(3000):
        if number % 100 == 0:
            # Else the kernel's queue overflows, and whoever comes then waits a second.
            _served(impatient)
        with Stranger(impatient.port) as stranger:
            if number % 3 == 1:
                stranger.send(_question(number) * 5 + b"\0\0")
            if number % 3 == 2:
                stranger.send(_fetch("empty", number, max_wait_ms=_DAY_MS) + _question(number))
            if number % 2:
                stranger.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    after = _settled(impatient, baseline)
    assert after.rss_kib - baseline.rss_kib < 48 * 1024, f"{baseline} became {after}"
    _served(impatient)


def test_waiting_fetches_end_with_their_peers(impatient: BrokerProcess) -> None:
    """A long poll for a day is forgotten as soon as nobody waits for it any more."""
    baseline = impatient.measure()
    crowd = [Stranger(impatient.port) for _ in range(200)]
    for stranger in crowd:
        stranger.send(_fetch("empty", 1, max_wait_ms=_DAY_MS) + _question(2))
    _served(impatient)
    assert impatient.measure().tasks > baseline.tasks
    for stranger in crowd:
        stranger.close()
    _settled(impatient, baseline)


def test_a_stop_does_not_wait_for_bad_manners(tmp_path: Path) -> None:
    """Silent peers, waiting ones and unread answers do not keep a broker from a clean stop."""
    with BrokerProcess(tmp_path) as broker:
        broker.start()
        with broker.link() as link:
            talk.create_topic(link, "empty")
            talk.create_topic(link, "big")
            talk.produce(link, ("big", 0), talk.batch_of(bytes(_MEBIBYTE - 1024)))
        crowd = [Stranger(broker.port) for _ in range(30)]
        waiting = _fetch("empty", 1, max_wait_ms=_DAY_MS)
        manners = itertools.cycle((b"\0\0", waiting, _fetch("big", 1) * 30))
        for stranger, rudeness in zip(crowd, manners, strict=False):
            stranger.send(rudeness)
        broker.measure()
        assert broker.terminate() == 0
        for stranger in crowd:
            stranger.close()
        assert "Traceback" not in broker.log_text()


def test_partitions_leave_descriptors_for_others(tmp_path: Path) -> None:
    """More partitions than descriptors, all written to, and whoever comes is still served."""
    with BrokerProcess(tmp_path, descriptors_max=400) as broker:
        broker.start()
        with broker.link() as link:
            talk.create_topic(link, "rolling", 1, {"internal.segment.bytes": "1000"})
            talk.create_topic(link, "many", 500)
            for number in range(500):
                assert talk.produce(link, ("many", number), talk.batch_of(b"%d" % number)) == 0
        crowd = [Stranger(broker.port) for _ in range(150)]
        with broker.link() as link:
            for _ in range(10):
                talk.produce(link, ("rolling", 0), talk.batch_of(bytes(900)))
            assert talk.produce(link, ("many", 3), talk.batch_of(b"room")) == 1
        assert broker.measure().descriptors < 400
        for stranger in crowd:
            stranger.close()
        assert broker.terminate() == 0
        assert [line for line in broker.log_text().splitlines() if " INFO " not in line] == []
