"""The table of scenarios that every client library goes through."""

import random
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pytest
from tests.compat.port import (
    CODECS,
    SILENCE_S,
    WAIT_S,
    Can,
    Change,
    Client,
    ClientError,
    Delivery,
    Message,
    Sending,
    Spec,
    Time,
)

T: Final = 1_700_000_000_000
MIB: Final = 1 << 20
ALL_BYTES: Final = bytes(range(256))


@dataclass
class Stage:
    """What a scenario plays on: the client, and topics of its own, made by the stage hand."""

    client: Client
    make_topic: Callable[[str, int, dict[str, str]], None]
    made: int = field(default=0)
    prefix: str = field(default_factory=lambda: uuid.uuid4().hex[:10])

    def name(self) -> str:
        """A topic name that nobody has used."""
        self.made += 1
        return f"{self.client.name}-{self.prefix}-{self.made}"

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """A new topic; dots in config names are written as underscores."""
        name = self.name()
        plain = {key.replace("_", "."): value for key, value in configs.items()}
        self.make_topic(name, partitions, plain)
        return name


@dataclass(frozen=True)
class Scenario:
    """One row of the table."""

    name: str
    play: Callable[[Stage], None]
    needs: frozenset[Can] = frozenset()
    codec: str = "none"

    def suits(self, client: type[Client]) -> bool:
        """Whether the library offers what the scenario needs."""
        return self.needs <= client.can and self.codec in client.codecs


def produced(stage: Stage, topic: str, messages: Sequence[Message], sending: Sending | None = None
             ) -> list[Delivery]:  # fmt: skip
    """Produce what must succeed."""
    results = stage.client.produce(topic, messages, sending)
    assert [result.error for result in results] == [None] * len(messages)
    return results


def same(sent: Sequence[Message], got: Sequence[Message], first_offset: int = 0) -> None:
    """What came back is what was sent, byte for byte and in order."""
    expected = [
        replace(message, offset=first_offset + n, timestamp=got[n].timestamp)
        if message.timestamp is None and n < len(got)
        else replace(message, offset=first_offset + n)
        for n, message in enumerate(sent)
    ]
    assert list(got) == expected


def eventually(ask: Callable[[], object], expected: object) -> None:
    """A change was answered before every broker had heard of it: ask again, within bounds."""
    deadline = time.monotonic() + WAIT_S
    while (answer := ask()) != expected:
        assert time.monotonic() < deadline, f"still {answer!r}, not {expected!r}"
        time.sleep(0.05)


def sample(can: frozenset[Can]) -> list[Message]:
    """Messages of every shape the library can make."""
    stamp = T if Can.TIMESTAMPS in can else None
    chance = random.Random(7)
    messages = [
        Message(value=b"plain", timestamp=stamp),
        Message(value=b"keyed", key=b"k", timestamp=stamp),
        Message(
            value=ALL_BYTES, key=b"\0\xff" if Can.BINARY_KEYS in can else b"bin", timestamp=stamp
        ),
        Message(value="Grüße, 世界".encode(), key="ключ".encode(), timestamp=stamp),
        Message(value=b"one header", key=b"h", headers=(("name", b"value"),), timestamp=stamp),
        Message(value=b"aaaa" * 5000, timestamp=stamp),
        Message(value=chance.randbytes(20_000), timestamp=stamp),
    ]
    if Can.NULL_VALUES in can:
        messages.append(Message(value=None, key=b"tombstone", timestamp=stamp))
    if Can.EMPTY_VALUES in can:
        messages.append(Message(value=b"", key=b"", timestamp=stamp))
    if Can.NULL_HEADER_VALUES in can:
        messages.append(Message(value=b"null", headers=(("none", None),), timestamp=stamp))
    if Can.DUPLICATE_HEADERS in can:
        twice = (("twice", b"1"), ("twice", b"2"), ("empty", b""), ("twice", ALL_BYTES))
        messages.append(Message(value=b"duplicates", headers=twice, timestamp=stamp))
    return messages


def round_trip(codec: str) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        topic = stage.topic()
        messages = sample(stage.client.can) * 5
        results = produced(stage, topic, messages, Sending(codec=codec))
        if Can.PLACES in stage.client.can:
            assert [result.offset for result in results] == list(range(len(messages)))
        same(messages, stage.client.consume(topic, len(messages)))

    return play


def timestamps(stage: Stage) -> None:
    topic = stage.topic()
    messages = [Message(value=b"%d" % time, timestamp=time) for time in (T, T, T + 5, T + 60_000)]
    produced(stage, topic, messages)
    same(messages, stage.client.consume(topic, len(messages)))


def times_out_of_order(stage: Stage) -> None:
    topic = stage.topic()
    times = [T, T + 5, T - 1_000_000, T + 1, 1]
    messages = [Message(value=b"%d" % time, timestamp=time) for time in times]
    produced(stage, topic, messages)
    same(messages, stage.client.consume(topic, len(messages)))


def log_append_time(stage: Stage) -> None:
    topic = stage.topic(message_timestamp_type="LogAppendTime")
    produced(stage, topic, [Message(value=b"x", timestamp=T)] * 3)
    got = stage.client.consume(topic, 3)
    assert [message.value for message in got] == [b"x"] * 3
    assert all(message.timestamp is not None and message.timestamp > T for message in got)


def sizes(stage: Stage) -> None:
    topic = stage.topic()
    chance = random.Random(1)
    messages = [
        Message(value=chance.randbytes(size))
        for size in (1, 2, 127, 128, 1_000, 16_383, 16_384, 65_536, 250_000, 1_000_000)
    ]
    for message in messages:
        produced(stage, topic, [message])
    same(messages, stage.client.consume(topic, len(messages)))


def raised_limit(stage: Stage) -> None:
    topic = stage.topic(max_message_bytes=str(6 * MIB))
    chance = random.Random(2)
    messages = [Message(value=chance.randbytes(size)) for size in (5 * MIB, 10, 3 * MIB)]
    for message in messages:
        produced(stage, topic, [message])
    same(messages, stage.client.consume(topic, len(messages)))


def too_large(stage: Stage) -> None:
    topic = stage.topic(max_message_bytes="100000")
    chance = random.Random(3)
    results = stage.client.produce(topic, [Message(value=chance.randbytes(100_001))])
    assert [result.error for result in results] == ["MESSAGE_TOO_LARGE"]
    produced(stage, topic, [Message(value=b"still alive")])
    same([Message(value=b"still alive")], stage.client.consume(topic, 1))


def idempotent(stage: Stage) -> None:
    topic = stage.topic(2)
    messages = [Message(value=b"%d" % n, partition=n % 2) for n in range(200)]
    produced(stage, topic, messages, Sending(idempotent=True))
    for partition in (0, 1):
        mine = [message for message in messages if message.partition == partition]
        same(mine, stage.client.consume(topic, len(mine), partition=partition))


def acks(level: int) -> Callable[[Stage], None]:
    def play(stage: Stage) -> None:
        topic = stage.topic()
        messages = [Message(value=b"%d" % n) for n in range(20)]
        produced(stage, topic, messages, Sending(acks=level))
        same(messages, stage.client.consume(topic, len(messages)))

    return play


def chosen_partition(stage: Stage) -> None:
    topic = stage.topic(4)
    for partition in (3, 0, 2):
        message = Message(value=b"p%d" % partition, partition=partition)
        (result,) = produced(stage, topic, [message])
        if Can.PLACES in stage.client.can:
            assert (result.partition, result.offset) == (partition, 0)
    for partition in (0, 2, 3):
        expected = Message(value=b"p%d" % partition, partition=partition)
        same([expected], stage.client.consume(topic, 1, partition=partition))
    assert stage.client.consume(topic, 1, partition=1, wait_s=SILENCE_S) == []


def many_partitions(stage: Stage) -> None:
    topic = stage.topic(40)
    messages = [Message(value=b"%d" % n, partition=n % 40) for n in range(120)]
    produced(stage, topic, messages)
    for partition in (0, 1, 17, 38, 39):
        mine = [message for message in messages if message.partition == partition]
        same(mine, stage.client.consume(topic, 3, partition=partition))


def order(stage: Stage) -> None:
    topic = stage.topic()
    messages = [Message(value=b"%06d" % n, key=b"k") for n in range(3000)]
    for start in range(0, 3000, 500):
        produced(stage, topic, messages[start : start + 500], Sending(codec="none"))
    same(messages, stage.client.consume(topic, 3000))


def several_segments(stage: Stage) -> None:
    topic = stage.topic(segment_bytes=str(MIB))
    chance = random.Random(4)
    messages = [Message(value=chance.randbytes(300_000)) for _ in range(12)]
    for message in messages:
        produced(stage, topic, [message])
    same(messages, stage.client.consume(topic, len(messages)))
    same(messages[9:], stage.client.consume(topic, 3, start=9), first_offset=9)


def middle_of_a_batch(stage: Stage) -> None:
    topic = stage.topic()
    messages = [Message(value=b"%d" % n) for n in range(50)]
    produced(
        stage, topic, messages, Sending(codec="gzip" if "gzip" in stage.client.codecs else "none")
    )
    for start in (0, 1, 23, 49):
        got = stage.client.consume(topic, 50 - start, start=start)
        same(messages[start:], got, first_offset=start)


def at_the_end(stage: Stage) -> None:
    topic = stage.topic()
    produced(stage, topic, [Message(value=b"old")])
    assert stage.client.consume(topic, 1, start=1, wait_s=SILENCE_S) == []


def out_of_range(stage: Stage) -> None:
    topic = stage.topic()
    messages = [Message(value=b"%d" % n) for n in range(3)]
    produced(stage, topic, messages)
    same(messages, stage.client.consume(topic, 3, start=1000))


def seek_to_time(stage: Stage) -> None:
    topic = stage.topic()
    messages = [Message(value=b"%d" % n, timestamp=T + 100 * n) for n in range(20)]
    produced(stage, topic, messages[:10])
    produced(stage, topic, messages[10:])
    for moment, first in ((0, 0), (T + 100, 1), (T + 101, 2), (T + 1250, 13), (T + 1900, 19)):
        got = stage.client.consume(topic, 20 - first, start=Time(moment))
        same(messages[first:], got, first_offset=first)


def long_poll(stage: Stage) -> None:
    """A reader that was there before the data gets it all the same."""
    topic = stage.topic()
    reader = stage.client.twin()
    got: list[Message] = []
    read = partial(reader.consume, topic, 2, start=0, fetch_wait_ms=2000)
    waiting = threading.Thread(target=lambda: got.extend(read()))
    waiting.start()
    try:
        first, second = Message(value=b"first"), Message(value=b"second")
        waiting.join(SILENCE_S)
        produced(stage, topic, [first])
        waiting.join(SILENCE_S)
        produced(stage, topic, [second])
    finally:
        waiting.join()
        reader.close()
    same([first, second], got)


def auto_creation(stage: Stage) -> None:
    topic = stage.name()
    (result,) = produced(stage, topic, [Message(value=b"first")])
    got = stage.client.consume(topic, 1, partition=max(result.partition, 0))
    assert [message.value for message in got] == [b"first"]


def keyless_to_compacted(stage: Stage) -> None:
    topic = stage.topic(cleanup_policy="compact")
    results = stage.client.produce(topic, [Message(value=b"no key")])
    assert [result.error for result in results] == ["INVALID_RECORD"]
    produced(stage, topic, [Message(value=b"key", key=b"k")])
    same([Message(value=b"key", key=b"k")], stage.client.consume(topic, 1))


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
    refusals = (
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


def _row(play: Callable[[Stage], None], *needs: Can) -> Scenario:
    return Scenario(play.__name__.replace("_", " "), play, frozenset(needs))


SCENARIOS: Final[tuple[Scenario, ...]] = (
    *(Scenario(f"round trip {codec}", round_trip(codec), codec=codec) for codec in CODECS),
    Scenario("acks 0", acks(0), frozenset({Can.ACKS_ZERO})),
    Scenario("acks 1", acks(1)),
    Scenario("acks all", acks(-1)),
    _row(timestamps, Can.TIMESTAMPS),
    _row(times_out_of_order, Can.TIMESTAMPS, Can.TIMES_OUT_OF_ORDER),
    _row(log_append_time, Can.TIMESTAMPS),
    _row(sizes),
    _row(raised_limit),
    _row(too_large),
    _row(idempotent, Can.IDEMPOTENCE),
    _row(chosen_partition),
    _row(many_partitions),
    _row(order),
    _row(several_segments),
    _row(middle_of_a_batch),
    _row(at_the_end),
    _row(out_of_range, Can.OUT_OF_RANGE_RESET),
    _row(seek_to_time, Can.SEEK_TIME, Can.TIMESTAMPS),
    _row(long_poll),
    _row(auto_creation, Can.AUTO_CREATION),
    _row(keyless_to_compacted, Can.INVALID_RECORD_ERROR),
    _row(topics_come_and_go, Can.ADMIN),
    _row(topics_refused, Can.ADMIN),
    _row(born_again, Can.ADMIN),
    _row(unknown_topic, Can.ADMIN),
    _row(more_partitions, Can.CREATE_PARTITIONS),
    _row(configs, Can.ADMIN),
    _row(configs_of_an_unknown_topic, Can.ADMIN, Can.CONFIG_ERRORS),
    _row(alter_configs, Can.ALTER_CONFIGS),
    _row(incremental_configs, Can.INCREMENTAL_CONFIGS),
    _row(list_offsets, Can.LIST_OFFSETS, Can.TIMESTAMPS),
    _row(max_timestamp, Can.MAX_TIMESTAMP, Can.TIMES_OUT_OF_ORDER),
    _row(delete_records, Can.DELETE_RECORDS, Can.LIST_OFFSETS),
    _row(cluster, Can.DESCRIBE_CLUSTER),
    _row(log_dirs, Can.DESCRIBE_LOG_DIRS),
    _row(producers, Can.DESCRIBE_PRODUCERS),
    _row(config_resources, Can.LIST_CONFIG_RESOURCES),
)


def scenarios_for(client: type[Client]) -> list[Scenario]:
    """The rows that the library can play."""
    return [scenario for scenario in SCENARIOS if scenario.suits(client)]
