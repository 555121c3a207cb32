"""The table of scenarios that every client library goes through."""

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from tests.compat.admin_scenarios import ADMIN_SCENARIOS
from tests.compat.port import CODECS, SILENCE_S, Can, Client, Message, Sending, Time
from tests.compat.stage import MIB, Scenario, Stage, T, produced, row, same, sample


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


SCENARIOS: Final[tuple[Scenario, ...]] = (
    *(Scenario(f"round trip {codec}", round_trip(codec), codec=codec) for codec in CODECS),
    Scenario("acks 0", acks(0), frozenset({Can.ACKS_ZERO})),
    Scenario("acks 1", acks(1)),
    Scenario("acks all", acks(-1)),
    row(timestamps, Can.TIMESTAMPS),
    row(times_out_of_order, Can.TIMESTAMPS, Can.TIMES_OUT_OF_ORDER),
    row(log_append_time, Can.TIMESTAMPS),
    row(sizes),
    row(raised_limit),
    row(too_large),
    row(idempotent, Can.IDEMPOTENCE),
    row(chosen_partition),
    row(many_partitions),
    row(order),
    row(several_segments),
    row(middle_of_a_batch),
    row(at_the_end),
    row(out_of_range, Can.OUT_OF_RANGE_RESET),
    row(seek_to_time, Can.SEEK_TIME, Can.TIMESTAMPS),
    row(long_poll),
    row(auto_creation, Can.AUTO_CREATION),
    row(keyless_to_compacted, Can.INVALID_RECORD_ERROR),
    *ADMIN_SCENARIOS,
)


def scenarios_for(client: type[Client]) -> list[Scenario]:
    """The rows that the library can play."""
    return [scenario for scenario in SCENARIOS if scenario.suits(client)]
