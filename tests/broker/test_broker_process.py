"""A broker as a process's work and on a thread: signals, exit, and what a failed disk does."""

import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32, i32Timedelta

from barnabas.config.broker_config import BrokerConfig
from barnabas.link.sync import Link
from barnabas.model.errors import BarnabasError, ErrorCode
from barnabas.node.process import serve
from barnabas.node.thread import BrokerThread
from barnabas.ports.exchange import Address
from barnabas.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from barnabas.wire.records.record import encode_batch
from barnabas.world.memory import MemoryFile


def config(data: str = "memory", port: int = 0, **settings: str) -> BrokerConfig:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    listeners = f"PLAINTEXT://127.0.0.1:{port}"
    return BrokerConfig({"listeners": listeners, "log.dirs": data, **named})


def create(link: Link, name: str) -> None:
    topic = CreatableTopic(
        name=TopicName(name),
        num_partitions=i32(1),
        replication_factor=i16(1),
        assignments=(),
        configs=(),
    )
    timeout = i32Timedelta.parse(timedelta(seconds=30))
    request = CreateTopicsRequest(topics=(topic,), timeout=timeout, validate_only=False)
    (result,) = link.call(19, 7, request).topics
    assert result.error_code is ErrorCode.none


def produce(link: Link, name: str) -> ErrorCode:
    part = ProducePartition(0, memoryview(encode_batch([(1, None, b"x", [])])))
    request = ProduceRequest(None, -1, 30_000, [ProduceTopic(name, None, [part])])
    response = link.produce(9, request)
    assert response is not None
    return ErrorCode(response.topics[0].partitions[0].error)


def in_background(work: Callable[[Address], None]) -> Callable[[Address], None]:
    return lambda address: threading.Thread(target=work, args=(address,), daemon=True).start()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    def use_and_stop(address: Address) -> None:
        with Link(*address) as link:
            create(link, "events")
            produce(link, "events")
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    serve(config(str(tmp_path)), memory=False, ready=in_background(use_and_stop))
    assert signal.getsignal(number) is before, "a process may go on after its broker"
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "events-0" / "00000000000000000000.log").stat().st_size > 61


def test_a_failed_sync_ends_the_process_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[ErrorCode] = []

    def broken(_file: MemoryFile) -> None:
        raise OSError(5, "Input/output error")

    def use(address: Address) -> None:
        with Link(*address) as link:
            create(link, "events")
            monkeypatch.setattr(MemoryFile, "sync", broken)
            answers.append(produce(link, "events"))

    with pytest.raises(BarnabasError, match="The broker stopped: syncing memory/events-0 failed"):
        serve(config(log_flush_interval_messages="1"), memory=True, ready=in_background(use))
    assert answers == [ErrorCode.kafka_storage_error]


def test_a_thread_tells_of_it_when_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = BrokerThread(config(log_flush_interval_messages="1"), memory=True)

    def broken(_file: MemoryFile) -> None:
        raise OSError(5, "Input/output error")

    with Link(*thread.address) as link:
        create(link, "events")
        monkeypatch.setattr(MemoryFile, "sync", broken)
        assert produce(link, "events") is ErrorCode.kafka_storage_error
    with pytest.raises(OSError, match="syncing memory/events-0 failed"):
        thread.stop()


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    first = BrokerThread(config(str(tmp_path)), memory=False)
    try:
        with pytest.raises(BarnabasError, match="in use by another broker"):
            BrokerThread(config(str(tmp_path)), memory=False)
    finally:
        first.stop()
    BrokerThread(config(str(tmp_path)), memory=False).stop()


def test_a_port_in_use_is_refused_and_the_directory_stays_usable(tmp_path: Path) -> None:
    first = BrokerThread(config(), memory=True)
    try:
        port = first.address[1]
        with pytest.raises(BarnabasError, match=f"port {port} on 127.0.0.1 is in use"):
            BrokerThread(config(str(tmp_path), port), memory=False)
    finally:
        first.stop()
    BrokerThread(config(str(tmp_path)), memory=False).stop()
