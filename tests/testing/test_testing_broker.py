"""The broker that test suites start: in memory or on disk, by `with` or by fixture."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.model.errors import BarnabasError
from barnabas.testing import Broker


def produced(broker: Broker, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def consumed(broker: Broker, topic: str, count: int) -> list[bytes | str | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "nobody",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


def test_any_client_can_use_the_fixture(barnabas_broker: Broker) -> None:
    produced(barnabas_broker, "fixture-in-memory", b"one", b"two")
    assert consumed(barnabas_broker, "fixture-in-memory", 2) == [b"one", b"two"]


def test_the_disk_fixture_brings_everything_back_after_a_restart(
    barnabas_disk_broker: Broker,
) -> None:
    produced(barnabas_disk_broker, "events", b"kept")
    barnabas_disk_broker.stop()
    barnabas_disk_broker.start()
    assert consumed(barnabas_disk_broker, "events", 1) == [b"kept"]


def test_a_with_block_starts_and_stops_one() -> None:
    broker = Broker()
    with pytest.raises(RuntimeError, match="is not running"):
        assert broker.port
    with broker as started:
        assert started is broker
        assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
        with pytest.raises(RuntimeError, match="running already"):
            broker.start()
    with pytest.raises(RuntimeError, match="is not running"):
        assert broker.port
    broker.stop()


def test_a_temporary_directory_goes_with_the_broker() -> None:
    with Broker(memory=False) as broker:
        data = Path(broker.data)
        produced(broker, "events", b"x")
        assert (data / "events-0" / "00000000000000000000.log").exists()
    assert not data.exists()


def test_a_given_directory_stays(tmp_path: Path) -> None:
    with Broker(memory=False, data=tmp_path) as broker:
        produced(broker, "events", b"x")
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with Broker(memory=False, data=tmp_path) as broker:
        assert consumed(broker, "events", 1) == [b"x"]


def test_any_broker_key_can_be_set() -> None:
    with Broker(config={"num.partitions": 7, "auto.create.topics.enable": True}) as broker:
        produced(broker, "wide", b"x")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        assert len(producer.list_topics("wide", timeout=30).topics["wide"].partitions) == 7
    with pytest.raises(BarnabasError, match="there is no broker key"):
        Broker(config={"no.such.key": 1}).start()


def test_two_brokers_live_side_by_side() -> None:
    with Broker() as first, Broker() as second:
        assert first.port != second.port
        produced(first, "events", b"first")
        produced(second, "events", b"second")
        assert consumed(first, "events", 1) == [b"first"]
        assert consumed(second, "events", 1) == [b"second"]
