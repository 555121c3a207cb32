"""Real brokers compact what real clients write, in memory and on disk."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
)

from barnabas.testing import Broker

DEADLINE_S = 90
KEYS = 20
ROUNDS = 60
TOPIC = "table"
SETTINGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "internal.segment.bytes": "20000",
    "file.delete.delay.ms": "100",
    "delete.retention.ms": "100",
}


@pytest.fixture(params=["memory", "disk"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    memory = request.param == "memory"
    config = {"log.cleaner.backoff.ms": 100, "log.flush.offset.checkpoint.interval.ms": 200}
    with Broker(memory=memory, data=None if memory else tmp_path, config=config) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        created = admin.create_topics([NewTopic(TOPIC, 1, config=SETTINGS)])
        created[TOPIC].result(DEADLINE_S)
        yield broker


def until(is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def read_all(broker: Broker, **settings: str) -> list[tuple[int, bytes, bytes | None]]:
    """Every record that there is, as a consumer from the beginning sees it."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reads without committing",
            "enable.partition.eof": True,
            **settings,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[tuple[int, bytes, bytes | None]] = []
    try:
        while True:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, "the consumer waits in vain"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            offset, key = message.offset(), message.key()
            assert offset is not None
            assert key is not None
            found.append((offset, key, message.value()))
    finally:
        consumer.close()


def written(producer: Producer, rounds: int, word: str) -> None:
    for number in range(rounds):
        for key in range(KEYS):
            producer.produce(TOPIC, key=b"%d" % key, value=f"{word} {number} {key} {'x' * 60}")
        producer.poll(0)
        producer.flush(DEADLINE_S)


def test_the_last_value_of_each_key_stays(broker: Broker) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "compression.type": "zstd" if broker.data == "memory" else "none",
            "enable.idempotence": True,
        }
    )
    written(producer, ROUNDS, "first")
    for key in range(KEYS // 2):
        producer.produce(TOPIC, key=b"%d" % key, value=None)
    producer.flush(DEADLINE_S)

    def is_compacted() -> bool:
        # A segment is compacted once it is closed, and what closes it is the next record.
        producer.produce(TOPIC, key=b"filler", value=os.urandom(5_000))
        producer.flush(DEADLINE_S)
        found = [each for each in read_all(broker) if each[1] != b"filler"]
        return len(found) <= KEYS // 2 + 1

    until(is_compacted, "it is not compacted")
    found = read_all(broker)
    values = {key: value for _, key, value in found if key != b"filler"}
    for key in range(KEYS // 2, KEYS):
        told = values[b"%d" % key]
        assert told is not None
        assert told.startswith(f"first {ROUNDS - 1} {key} ".encode())
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] > ROUNDS * KEYS
    # The producer goes on: its sequence numbers have outlived its batches.
    written(producer, 1, "second")
    last = {key: value for _, key, value in read_all(broker)}
    assert all((last[b"%d" % key] or b"").startswith(b"second") for key in range(KEYS))


def test_aborted_transactions_go_and_committed_ones_stay(broker: Broker) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "writer"}
    )
    producer.init_transactions(DEADLINE_S)
    for number in range(ROUNDS):
        producer.begin_transaction()
        for key in range(KEYS):
            producer.produce(TOPIC, key=b"%d" % key, value=f"{number} {'x' * 60}")
        if number % 3 == 2:
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)
    expected = max(number for number in range(ROUNDS) if number % 3 != 2)

    def is_compacted() -> bool:
        producer.begin_transaction()
        producer.produce(TOPIC, key=b"filler", value=os.urandom(5_000))
        producer.commit_transaction(DEADLINE_S)
        every = read_all(broker, **{"isolation.level": "read_uncommitted"})
        return len([each for each in every if each[1] != b"filler"]) <= KEYS

    until(is_compacted, "it is not compacted")
    found = {key: value for _, key, value in read_all(broker) if key != b"filler"}
    assert len(found) == KEYS
    assert all((value or b"").startswith(b"%d " % expected) for value in found.values())


def test_records_without_keys_are_refused(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "retries": 0})
    errors: list[Any] = []
    producer.produce(TOPIC, value=b"no key", on_delivery=lambda error, _: errors.append(error))
    producer.flush(DEADLINE_S)
    (error,) = errors
    assert isinstance(error, KafkaError)
    assert error.code() == KafkaError.INVALID_RECORD


def test_a_restart_finds_what_was_compacted(tmp_path: Path) -> None:
    config = {"log.cleaner.backoff.ms": 100}
    checkpoint = tmp_path / "cleaner-offset-checkpoint"
    with Broker(memory=False, data=tmp_path, config=config) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, config=SETTINGS)])[TOPIC].result(DEADLINE_S)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        written(producer, ROUNDS, "once")
        until(checkpoint.exists, "nothing was cleaned")
        before = {key: value for _, key, value in read_all(broker)}
    assert f"{TOPIC} 0 " in checkpoint.read_text()
    assert not [path for path in (tmp_path / f"{TOPIC}-0").iterdir() if path.suffix == ".swap"]
    with Broker(memory=False, data=tmp_path, config=config) as broker:
        assert {key: value for _, key, value in read_all(broker)} == before
