"""Scenarios about topics, configs and offsets: what administrators ask."""

import random
from functools import partial
from typing import Final

import pytest
from tests.compat.port import Can, Change, Client, ClientError, Message, Sending, Spec, Time
from tests.compat.stage import Scenario, Stage, T, eventually, produced, row, same


def topics_come_and_go(stage: Stage) -> None:
    client, name = stage.client, stage.name()
    client.create_topic(name, 3, {"retention.ms": "86400000"})
    eventually(lambda: name in client.topics(), True)
    eventually(lambda: client.partitions(name), 3)
    with pytest.raises(ClientError) as refused:
        client.create_topic(name, 3)
    assert refused.value.name == "TOPIC_ALREADY_EXISTS"
    client.delete_topic(name)
    eventually(lambda: name in client.topics(), False)
    with pytest.raises(ClientError) as missing:
        client.delete_topic(name)
    assert missing.value.name == "UNKNOWN_TOPIC_OR_PARTITION"


def topics_refused(stage: Stage) -> None:
    client = stage.client
    refusals: tuple[tuple[str, int, dict[str, str], str], ...] = (
        (stage.name(), 1, {"no.such.config": "1"}, "INVALID_CONFIG"),
        (stage.name(), 1, {"retention.ms": "soon"}, "INVALID_CONFIG"),
        (stage.name(), 0, {}, "INVALID_PARTITIONS"),
        ("no/slashes", 1, {}, "INVALID_TOPIC_EXCEPTION"),
    )
    for name, partitions, configs, error in refusals:
        with pytest.raises(ClientError) as refused:
            client.create_topic(name, partitions, configs)
        assert refused.value.name == error
        assert name not in client.topics()


def born_again(stage: Stage) -> None:
    """A topic deleted and made again is empty and takes new records from offset 0."""
    client, name = stage.client, stage.name()
    client.create_topic(name)
    produced(stage, name, [Message(value=b"old life")] * 3)
    client.delete_topic(name)
    client.create_topic(name)
    fresh = client.twin()
    try:
        assert [r.error for r in fresh.produce(name, [Message(value=b"new life")])] == [None]
        same([Message(value=b"new life")], fresh.consume(name, 1))
    finally:
        fresh.close()


def more_partitions(stage: Stage) -> None:
    topic = stage.topic(2)
    stage.client.create_partitions(topic, 5)
    eventually(lambda: stage.client.partitions(topic), 5)
    with pytest.raises(ClientError) as refused:
        stage.client.create_partitions(topic, 3)
    assert refused.value.name == "INVALID_PARTITIONS"
    writer = stage.client.twin()
    try:
        message = Message(value=b"new one", partition=4)
        assert [result.error for result in writer.produce(topic, [message])] == [None]
        same([message], writer.consume(topic, 1, partition=4))
    finally:
        writer.close()


def configs(stage: Stage) -> None:
    topic = stage.topic(retention_ms="86400000")
    values = stage.client.configs(topic)
    assert values["retention.ms"] == "86400000"
    assert values["cleanup.policy"] == "delete"
    assert values["max.message.bytes"] == "1048588"
    assert values["compression.type"] == "producer"
    assert values["segment.bytes"] == "1073741824"


def alter_configs(stage: Stage) -> None:
    topic = stage.topic()
    stage.client.alter_config(topic, "max.message.bytes", "2000")
    eventually(lambda: stage.client.configs(topic)["max.message.bytes"], "2000")
    results = stage.client.produce(topic, [Message(value=random.Random(5).randbytes(3000))])
    assert [result.error for result in results] == ["MESSAGE_TOO_LARGE"]


def incremental_configs(stage: Stage) -> None:
    client, topic = stage.client, stage.topic(retention_ms="1234")
    steps = (
        ("cleanup.policy", "compact", Change.APPEND, "delete,compact"),
        ("cleanup.policy", "delete", Change.SUBTRACT, "compact"),
        ("cleanup.policy", "delete", Change.SET, "delete"),
        ("retention.ms", "", Change.DELETE, "604800000"),
    )
    for key, value, change, after in steps:
        client.alter_config(topic, key, value, change)
        eventually(partial(_config, client, topic, key), after)
    with pytest.raises(ClientError) as refused:
        client.alter_config(topic, "retention.ms", "soon")
    assert refused.value.name == "INVALID_CONFIG"


def _config(client: Client, topic: str, key: str) -> str | None:
    return client.configs(topic)[key]


def list_offsets(stage: Stage) -> None:
    client, topic = stage.client, stage.topic(2)
    assert client.offset(topic, Spec.EARLIEST) == 0
    assert client.offset(topic, Spec.LATEST) == 0
    produced(stage, topic, [Message(value=b"%d" % n, timestamp=T + 10 * n) for n in range(10)])
    assert client.offset(topic, Spec.EARLIEST) == 0
    assert client.offset(topic, Spec.LATEST) == 10
    assert client.offset(topic, Spec.LATEST, partition=1) == 0
    assert client.offset(topic, Time(T)) == 0
    assert client.offset(topic, Time(T + 31)) == 4
    assert client.offset(topic, Time(T + 91)) is None


def max_timestamp(stage: Stage) -> None:
    topic = stage.topic()
    times = (T, T + 50, T + 20, T + 90, T + 10)
    produced(stage, topic, [Message(value=b"x", timestamp=time) for time in times])
    assert stage.client.offset(topic, Spec.MAX_TIMESTAMP) == 3


def delete_records(stage: Stage) -> None:
    client, topic = stage.client, stage.topic()
    messages = [Message(value=b"%d" % n) for n in range(10)]
    produced(stage, topic, messages)
    assert client.delete_records(topic, 4) == 4
    assert client.offset(topic, Spec.EARLIEST) == 4
    assert client.offset(topic, Spec.LATEST) == 10
    same(messages[4:], client.consume(topic, 6), first_offset=4)
    with pytest.raises(ClientError) as refused:
        client.delete_records(topic, 11)
    assert refused.value.name == "OFFSET_OUT_OF_RANGE"


def unknown_topic(stage: Stage) -> None:
    client, name = stage.client, stage.name()
    with pytest.raises(ClientError) as missing:
        client.delete_topic(name)
    assert missing.value.name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert name not in client.topics()


def configs_of_an_unknown_topic(stage: Stage) -> None:
    with pytest.raises(ClientError) as unseen:
        stage.client.configs(stage.name())
    assert unseen.value.name == "UNKNOWN_TOPIC_OR_PARTITION"


def cluster(stage: Stage) -> None:
    assert stage.client.bootstrap in stage.client.brokers()


def log_dirs(stage: Stage) -> None:
    topic = stage.topic()
    produced(stage, topic, [Message(value=b"x" * 1000)])
    assert 1000 < stage.client.log_dir_bytes(topic) < 5000


def producers(stage: Stage) -> None:
    topic = stage.topic()
    produced(stage, topic, [Message(value=b"%d" % n) for n in range(5)], Sending(idempotent=True))
    assert stage.client.producers(topic) == [4]


def config_resources(stage: Stage) -> None:
    topic = stage.topic()
    found = stage.client.config_resources()
    assert topic in found["topic"]
    assert found["broker"]


ADMIN_SCENARIOS: Final[tuple[Scenario, ...]] = (
    row(topics_come_and_go, Can.ADMIN),
    row(topics_refused, Can.ADMIN),
    row(born_again, Can.ADMIN),
    row(unknown_topic, Can.ADMIN),
    row(more_partitions, Can.CREATE_PARTITIONS),
    row(configs, Can.ADMIN),
    row(configs_of_an_unknown_topic, Can.ADMIN, Can.CONFIG_ERRORS),
    row(alter_configs, Can.ALTER_CONFIGS),
    row(incremental_configs, Can.INCREMENTAL_CONFIGS),
    row(list_offsets, Can.LIST_OFFSETS, Can.TIMESTAMPS),
    row(max_timestamp, Can.MAX_TIMESTAMP, Can.TIMES_OUT_OF_ORDER),
    row(delete_records, Can.DELETE_RECORDS, Can.LIST_OFFSETS),
    row(cluster, Can.DESCRIBE_CLUSTER),
    row(log_dirs, Can.DESCRIBE_LOG_DIRS),
    row(producers, Can.DESCRIBE_PRODUCERS),
    row(config_resources, Can.LIST_CONFIG_RESOURCES),
)
