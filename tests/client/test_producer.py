"""Messages out: where they go, what comes back, and what happens when it does not."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from tests.client.quick import quick_consumer

from barnabas.client import (
    Admin,
    BrokerUnavailableError,
    ClosedError,
    ConfigError,
    Delivered,
    DeliveryError,
    Message,
    Producer,
    TimedOutError,
    TopicNotFoundError,
)

TopicMaker = Callable[..., str]

JAVA_MURMUR2 = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
"""Hashes that Kafka's own tests name (UtilsTest.testMurmur2)."""


def read_all(bootstrap: str, topic: str, count: int) -> list[Message]:
    with quick_consumer(topic, None, bootstrap, timeout=20) as consumer:
        found = []
        for message in consumer:
            found.append(message)
            if len(found) == count:
                break
        return found


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_a_delivery_tells_where_the_message_stands(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    with Producer(bootstrap) as producer:
        first = producer.send(topic, "one", timestamp=1_700_000_000_000)
        second = producer.send(topic, "two")
        assert first.result(20) == Delivered(topic, 0, 0, 1_700_000_000_000)
        assert second.result(20).offset == 1
        assert first.done()
        assert first.error() is None


def test_of_two_messages_without_a_key_each_partition_gets_one(
    bootstrap: str, make_topic: TopicMaker
) -> None:
    topic = make_topic(2)
    with Producer(bootstrap) as producer:
        sent = [producer.send(topic, f"{number}") for number in range(10)]
        assert {sent[0].result(20).partition, sent[1].result(20).partition} == {0, 1}
        assert Counter(each.result(20).partition for each in sent) == {0: 5, 1: 5}


@pytest.mark.parametrize("key", JAVA_MURMUR2)
def test_a_key_goes_where_java_sends_it(bootstrap: str, make_topic: TopicMaker, key: bytes) -> None:
    topic = make_topic(7)
    with Producer(bootstrap, idempotent=False) as producer:
        assert producer.send(topic, "x", key=key).result(20).partition == (
            (JAVA_MURMUR2[key] & 0x7FFFFFFF) % 7
        )


def test_a_chosen_partition_wins_over_the_key(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(3)
    with Producer(bootstrap, idempotent=False) as producer:
        for partition in range(3):
            sent = producer.send(topic, "x", key="same", partition=partition)
            assert sent.result(20).partition == partition


def test_added_partitions_can_be_chosen_at_once(
    bootstrap: str, make_topic: TopicMaker, admin: Admin
) -> None:
    topic = make_topic(1)
    with Producer(bootstrap, idempotent=False) as producer:
        producer.send(topic, "x").result(20)
        with pytest.raises(TopicNotFoundError, match="has no partition 2: it has 1"):
            producer.send(topic, "x", partition=2)
        admin.grow_topic(topic, 3)
        assert producer.send(topic, "x", partition=2).result(20).partition == 2
        assert set(producer.partitions(topic)) == {0, 1, 2}


def test_every_part_of_a_message_arrives(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    moment = datetime(2024, 5, 17, 12, 30, tzinfo=UTC)
    with Producer(bootstrap, idempotent=False) as producer:
        producer.send(
            topic, "wért", key=b"\x00\xff", headers=[("a", "1"), ("a", b"2"), ("n", None)],
            timestamp=moment,
        )  # fmt: skip
        producer.send(topic, None, key="gone")
        producer.send(topic, memoryview(b'{"n": 1}'), headers={"one": b"1"})
    first, tombstone, third = read_all(bootstrap, topic, 3)
    assert (first.text, first.key, first.time) == ("wért", b"\x00\xff", moment)
    assert first.headers == (("a", b"1"), ("a", b"2"), ("n", None))
    assert first.header("a") == b"2"
    assert first.header("missing") is None
    assert tombstone.is_tombstone
    assert (tombstone.key_text, tombstone.text, tombstone.json()) == ("gone", "", None)
    assert third.json() == {"n": 1}


def test_serializers_make_bytes_of_anything(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    with Producer(bootstrap, key_serializer=str, value_serializer=json.dumps) as producer:
        producer.send(topic, {"n": 1}, key=42)
    (message,) = read_all(bootstrap, topic, 1)
    assert (message.key, message.json()) == (b"42", {"n": 1})


def test_what_is_no_text_and_no_bytes_is_refused(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    with Producer(bootstrap, idempotent=False) as producer:
        with pytest.raises(ConfigError, match=r"value is bytes, str or None, not dict"):
            producer.send(topic, {"n": 1})
        with pytest.raises(ConfigError, match="no time zone"):
            producer.send(topic, "x", timestamp=datetime(2024, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_every_kind_of_acknowledgement(
    bootstrap: str, make_topic: TopicMaker, acks: "object"
) -> None:
    topic = make_topic()
    with Producer(bootstrap, acks=acks) as producer:  # type: ignore[arg-type]
        where = producer.send(topic, "x").result(20)
    assert where.offset == (None if acks == 0 else 0)
    assert [message.text for message in read_all(bootstrap, topic, 1)] == ["x"]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec(bootstrap: str, make_topic: TopicMaker, compression: "object") -> None:
    topic = make_topic()
    with Producer(bootstrap, compression=compression, idempotent=False) as producer:  # type: ignore[arg-type]
        for number in range(50):
            producer.post(topic, f"{number} " * 20)
    found = read_all(bootstrap, topic, 50)
    assert [message.text.split()[0] for message in found] == [str(each) for each in range(50)]


def test_fire_and_forget_waits_instead_of_overflowing(
    bootstrap: str, make_topic: TopicMaker
) -> None:
    topic = make_topic(2)
    config = {"queue.buffering.max.messages": 100}
    with Producer(bootstrap, idempotent=False, config=config) as producer:
        for number in range(2000):
            producer.post(topic, str(number))
        producer.flush(30)
        assert len(producer) == 0
    found = read_all(bootstrap, topic, 2000)
    assert sorted(int(message.text) for message in found) == list(range(2000))


def test_a_message_too_large_is_told_where_it_was_sent(
    bootstrap: str, make_topic: TopicMaker
) -> None:
    topic = make_topic(1, **{"max.message.bytes": 1000})
    with Producer(bootstrap) as producer:
        delivery = producer.send(topic, b"x" * 5000)
        with pytest.raises(DeliveryError, match=r"max\.message\.bytes") as caught:
            delivery.result(20)
        assert caught.value.code == "MESSAGE_TOO_LARGE"
        assert not caught.value.fatal
    # The failure was asked about, so closing says nothing more.


def test_closing_tells_of_every_loss_nobody_asked_about(
    bootstrap: str, make_topic: TopicMaker
) -> None:
    topic = make_topic(1, **{"max.message.bytes": 1000})
    producer = Producer(bootstrap, linger_ms=0, idempotent=False)
    producer.post(topic, b"x" * 5000)
    with pytest.raises(DeliveryError, match=r"max\.message\.bytes"):
        producer.flush(20)
    producer.post(topic, b"fits")
    producer.flush(20)
    producer.post(topic, b"x" * 5000)
    producer.send(topic, b"x" * 5000)
    with pytest.raises(DeliveryError, match="2 messages were lost") as caught:
        producer.close()
    assert caught.value.lost == 2
    producer.close()


def test_a_loss_does_not_hide_the_first_trouble(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(1, **{"max.message.bytes": 1000})

    def lose_and_fail() -> None:
        with Producer(bootstrap, idempotent=False) as producer:
            producer.post(topic, b"x" * 5000)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        lose_and_fail()
    assert "On closing the producer" in caught.value.__notes__[0]


def test_a_topic_that_is_not_there_is_named(bootstrap: str) -> None:
    with (
        Producer(bootstrap) as producer,
        pytest.raises(ConfigError, match=r"Sending to no/topic failed: .*INVALID_TOPIC"),
    ):
        producer.send("no/topic", "x")


def test_no_broker_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.client.producer.REQUEST_S", 0.5)
    with Producer(f"127.0.0.1:{unused_port()}") as producer:
        with pytest.raises((BrokerUnavailableError, TimedOutError), match="barnabas up") as caught:
            producer.send("events", "x")
        assert isinstance(caught.value, OSError)


def test_a_closed_producer_leaves_no_thread_behind(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    before = set(threading.enumerate())
    for _ in range(10):
        with Producer(bootstrap, idempotent=False) as producer:
            # Acknowledged while closing, when the thread may be just looking.
            producer.post(topic, "one")
    for each in set(threading.enumerate()) - before:
        each.join(20)
        assert not each.is_alive()


def test_a_closed_producer_says_so(bootstrap: str) -> None:
    producer = Producer(bootstrap)
    producer.close()
    with pytest.raises(ClosedError, match="make a new one"):
        producer.send("events", "x")


def test_settings_that_make_no_sense_are_refused(bootstrap: str) -> None:
    with pytest.raises(ConfigError, match='needs acks="all"'):
        Producer(bootstrap, acks=1, idempotent=True)
    with pytest.raises(ConfigError, match=r"no\.such\.setting"):
        Producer(bootstrap, config={"no.such.setting": 1})
