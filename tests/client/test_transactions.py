"""Transactions of the client: what is sent, and how far was read, as a whole or not at all."""

import asyncio
from collections.abc import Callable

import pytest
from tests.client.conftest import unique
from tests.client.quick import quick_consumer

from barnabas.client import (
    AsyncProducer,
    ConfigError,
    Consumer,
    Producer,
    ProducerFencedError,
)

TopicMaker = Callable[..., str]
IDLE_S = 0.5
WAIT_S = 30.0


class BrokenOffError(Exception):
    """What the tests break a block off with."""


def transactional(bootstrap: str) -> Producer:
    return Producer(bootstrap, transactional_id=unique("txn"), linger_ms=0)


def seen(bootstrap: str, topic: str, count: int) -> list[str]:
    """The first messages that are committed, and whatever comes within a moment behind them."""
    with quick_consumer(topic, bootstrap_servers=bootstrap) as consumer:
        found: list[str] = []
        while message := consumer.poll(WAIT_S if len(found) < count else IDLE_S):
            found.append(message.text)
        return found


def test_a_transaction_is_seen_as_a_whole_in_every_topic(
    bootstrap: str, make_topic: TopicMaker
) -> None:
    topics = [make_topic(), make_topic()]
    with transactional(bootstrap) as producer:
        for number in range(3):
            with producer.transaction():
                for topic in topics:
                    producer.post(topic, f"{topic} {number}")
    for topic in topics:
        assert seen(bootstrap, topic, 3) == [f"{topic} {number}" for number in range(3)]


def send_and_break_off(producer: Producer, topic: str) -> None:
    producer.send(topic, "broken off").result()
    raise BrokenOffError


def test_what_breaks_off_is_never_seen(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    with transactional(bootstrap) as producer:
        with pytest.raises(BrokenOffError), producer.transaction():
            send_and_break_off(producer, topic)
        with producer.transaction() as transaction:
            producer.send(topic, "taken back").result()
            transaction.abort()
        with producer.transaction():
            producer.post(topic, "committed")
    assert seen(bootstrap, topic, 1) == ["committed"]


def test_taking_back_what_has_hardly_left(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(3)
    with Producer(bootstrap, transactional_id=unique("txn")) as producer:
        for number in range(30):
            with producer.transaction() as transaction:
                for _ in range(50):
                    producer.post(topic, str(number))
                if number % 3:
                    transaction.abort()
    found = seen(bootstrap, topic, 500)
    assert sorted(found) == sorted(str(each) for each in range(0, 30, 3) for _ in range(50))


def test_closing_in_the_midst_takes_everything_back(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()
    producer = transactional(bootstrap)
    transaction = producer.transaction()
    transaction.__enter__()
    producer.send(topic, "never").result()
    producer.close()
    with transactional(bootstrap) as other, other.transaction():
        other.post(topic, "seen")
    assert seen(bootstrap, topic, 1) == ["seen"]


def test_the_newest_producer_of_an_id_fences_the_others(
    bootstrap: str, make_topic: TopicMaker
) -> None:
    topic, name = make_topic(), unique("txn")
    with (
        Producer(bootstrap, transactional_id=name, linger_ms=0) as old,
        Producer(bootstrap, transactional_id=name, linger_ms=0) as new,
    ):
        with old.transaction():
            old.post(topic, "before")
        zombie = old.transaction()
        zombie.__enter__()
        old.send(topic, "zombie").result()
        with new.transaction():
            new.post(topic, "after")
        with pytest.raises(ProducerFencedError) as caught:
            zombie.__exit__(None, None, None)
        assert caught.value.fatal
    assert seen(bootstrap, topic, 2) == ["before", "after"]


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_being_fenced_at_the_first_record_is_told_by_the_commit_alone(
    bootstrap: str, make_topic: TopicMaker
) -> None:
    topic, name = make_topic(), unique("txn")
    with (
        Producer(bootstrap, transactional_id=name, linger_ms=0) as old,
        Producer(bootstrap, transactional_id=name, linger_ms=0) as new,
    ):
        with old.transaction():
            old.post(topic, "before")
        with new.transaction():
            new.post(topic, "after")
        with pytest.raises(ProducerFencedError), old.transaction():
            old.post(topic, "zombie")
    assert seen(bootstrap, topic, 2) == ["before", "after"]


def copy(
    bootstrap: str,
    topics: tuple[str, str],
    group: str,
    stop_after: int | None = None,
    fail_at: str | None = None,
) -> None:
    """Read, transform, write; until nothing comes, or in the midst of it."""
    source, target = topics
    with (
        transactional(bootstrap) as producer,
        quick_consumer(
            source, group, bootstrap, delivery="exactly-once", producer=producer, timeout=IDLE_S
        ) as consumer,
    ):
        consumer.timeout = WAIT_S
        for count, message in enumerate(consumer, 1):
            producer.post(target, message.text.upper())
            if message.text == fail_at:
                raise BrokenOffError
            if count == stop_after:
                break
            consumer.timeout = 2.0


def fill(bootstrap: str, topic: str, values: str) -> None:
    with Producer(bootstrap, idempotent=False) as producer:
        for value in values:
            producer.send(topic, value, partition=0).result()


def committed(bootstrap: str, topic: str, group: str) -> int | None:
    with Consumer(assign=[(topic, 0)], group=group, bootstrap_servers=bootstrap) as consumer:
        return next(iter(consumer.committed().values()))


def test_copying_is_exact_however_it_is_broken_off(bootstrap: str, make_topic: TopicMaker) -> None:
    topics, group = (make_topic(), make_topic()), unique("group")
    fill(bootstrap, topics[0], "abcdef")
    with pytest.raises(BrokenOffError):
        copy(bootstrap, topics, group, fail_at="c")
    copy(bootstrap, topics, group, stop_after=4)
    copy(bootstrap, topics, group)
    assert seen(bootstrap, topics[1], 6) == list("ABCDEF")
    assert committed(bootstrap, topics[0], group) == 6


def test_leaving_a_loop_takes_its_transaction_back(bootstrap: str, make_topic: TopicMaker) -> None:
    topics, group = (make_topic(), make_topic()), unique("group")
    fill(bootstrap, topics[0], "abc")
    with (
        transactional(bootstrap) as producer,
        quick_consumer(
            topics[0], group, bootstrap, delivery="exactly-once", producer=producer, timeout=WAIT_S
        ) as consumer,
    ):
        for message in consumer:
            producer.post(topics[1], f"first {message.text}")
            break
        for message in consumer:
            producer.post(topics[1], f"second {message.text}")
            if message.text == "c":
                consumer.commit()
                break
    assert seen(bootstrap, topics[1], 3) == ["second a", "second b", "second c"]


def test_what_nobody_has_seen_comes_again_with_its_whole_transaction(
    bootstrap: str, make_topic: TopicMaker
) -> None:
    topics, group = (make_topic(), make_topic()), unique("group")
    fill(bootstrap, topics[0], "abcd")
    with (
        transactional(bootstrap) as producer,
        quick_consumer(
            topics[0], group, bootstrap, delivery="exactly-once", producer=producer, timeout=WAIT_S
        ) as consumer,
    ):
        for expected in "abc":
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.text == expected
            producer.post(topics[1], message.text.upper())
        consumer.give_back()
        assert consumer.position() == {(topics[0], 0): 0}
        for _ in "abcd":
            message = consumer.poll(WAIT_S)
            assert message is not None
            producer.post(topics[1], message.text.upper())
        consumer.commit()
    assert seen(bootstrap, topics[1], 4) == list("ABCD")


def test_a_batch_is_one_transaction_and_a_position_moves_with_it(
    bootstrap: str, make_topic: TopicMaker
) -> None:
    topics, group = (make_topic(), make_topic()), unique("group")
    fill(bootstrap, topics[0], "abcd")
    with (
        transactional(bootstrap) as producer,
        quick_consumer(
            topics[0], group, bootstrap, delivery="exactly-once", producer=producer, timeout=WAIT_S
        ) as consumer,
    ):
        batch = consumer.poll_batch(4, linger=5.0, timeout=WAIT_S)
        producer.post(topics[1], "".join(message.text for message in batch))
        with pytest.raises(ConfigError, match="commit"):
            consumer.rewind()
        consumer.commit()
        assert set(consumer.committed().values()) == {4}
        consumer.rewind(to=1)
        again = consumer.poll(WAIT_S)
        assert again is not None
        assert again.text == "b"
    assert seen(bootstrap, topics[1], 1) == ["abcd"]


def test_asyncio(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()

    async def break_off(producer: AsyncProducer) -> None:
        async with producer.transaction():
            await producer.send(topic, "never")
            raise BrokenOffError

    async def send() -> None:
        async with AsyncProducer(
            bootstrap, transactional_id=unique("txn"), linger_ms=0
        ) as producer:
            with pytest.raises(BrokenOffError):
                await break_off(producer)
            async with producer.transaction():
                await producer.post(topic, "a")
                await producer.send(topic, "b")
            async with producer.transaction() as transaction:
                await producer.send(topic, "nor this")
                await transaction.abort()

    asyncio.run(send())
    assert seen(bootstrap, topic, 2) == ["a", "b"]


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: Producer("x:1", transactional_id="t", acks=1),
        lambda: Producer("x:1", transactional_id="t", idempotent=False),
        lambda: Producer("x:1").transaction(),
        lambda: Producer("x:1", transactional_id="t").post("topic", "outside"),
        lambda: Consumer("t", "g", "x:1", delivery="exactly-once"),
        lambda: Consumer("t", "g", "x:1", producer=Producer("x:1", transactional_id="t")),
        lambda: Consumer("t", "g", "x:1", delivery="exactly-once", producer=Producer("x:1")),
    ],
)
def test_mistakes_are_told_before_anything_is_done(mistake: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        mistake()
