"""The asyncio face: the same, without blocking the loop, and safe to cancel."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import pytest
from tests.client.conftest import unique

from barnabas.client import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    DeliveryError,
    SqliteLedger,
    TopicNotFoundError,
    TopicPartition,
)

TopicMaker = Callable[..., str]
WAIT_S = 30.0
QUICK = {"fetch.wait.max.ms": 20}


async def fill(bootstrap: str, topic: str, count: int) -> None:
    async with AsyncProducer(bootstrap, idempotent=False) as producer:
        for number in range(count):
            await producer.post(topic, str(number))


def test_send_tells_where_the_message_stands(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(2)

    async def run() -> None:
        async with AsyncProducer(bootstrap) as producer:
            first = await producer.send(topic, "a", headers={"h": "1"})
            many = await asyncio.gather(*(producer.send(topic, str(each)) for each in range(199)))
            assert Counter(each.partition for each in [first, *many]) == {0: 100, 1: 100}

    asyncio.run(run())


def test_messages_leave_in_the_order_of_the_calls(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()

    async def run() -> None:
        async with AsyncProducer(bootstrap) as producer:
            # The first ones wait for the topic to be known, the later ones would not have to.
            futures = [producer.send(topic, str(number)) for number in range(50)]
            await asyncio.sleep(0.1)
            futures += [producer.send(topic, str(number)) for number in range(50, 100)]
            assert [(await each).offset for each in futures] == list(range(100))
        async with AsyncConsumer(topic, None, bootstrap, config=QUICK) as consumer:
            found = [await consumer.poll(WAIT_S) for _ in range(100)]
            assert [each and int(each.text) for each in found] == list(range(100))

    asyncio.run(run())


def test_what_fails_raises_where_it_is_awaited(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic(1, **{"max.message.bytes": 1000})

    async def run() -> None:
        async with AsyncProducer(bootstrap) as producer:
            with pytest.raises(DeliveryError, match=r"max\.message\.bytes"):
                await producer.send(topic, b"x" * 5000)
            with pytest.raises(TopicNotFoundError, match="has no partition 5"):
                await producer.send(topic, b"x", partition=5)
        producer = AsyncProducer(bootstrap)
        await producer.post(topic, b"x" * 5000)
        with pytest.raises(DeliveryError):
            await producer.close()

    asyncio.run(run())


def test_the_loop_turns_while_a_consumer_waits(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()

    async def run() -> None:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.01)
                turns += 1

        async with AsyncConsumer(topic, None, bootstrap, config=QUICK) as consumer:
            turning = asyncio.create_task(turn())
            assert await consumer.poll(0.5) is None
            turning.cancel()
        assert turns > 3

    asyncio.run(run())


def test_iterating_and_committing(bootstrap: str, make_topic: TopicMaker, group: str) -> None:
    topic = make_topic()
    place = TopicPartition(topic, 0)

    async def run() -> None:
        await fill(bootstrap, topic, 10)
        async with AsyncConsumer(topic, group, bootstrap, config=QUICK) as consumer:
            found = []
            async for message in consumer:
                found.append(int(message.text))
                if message.text == "6":
                    await consumer.commit()
                    break
            assert found == list(range(7))
            assert await consumer.committed() == {place: 7}
            assert await consumer.lag() == {place: 3}
            await consumer.rewind(8)
            assert await consumer.position() == {place: 8}
            again = await consumer.poll(WAIT_S)
            assert again is not None
            assert again.text == "8"
        async with AsyncAdmin(bootstrap) as admin:
            assert (await admin.describe_group(group)).offsets[0].committed == 8

    asyncio.run(run())


def test_cancelling_loses_no_message(bootstrap: str, make_topic: TopicMaker, group: str) -> None:
    topic = make_topic()

    async def run() -> None:
        async with AsyncConsumer(topic, group, bootstrap, config=QUICK) as consumer:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(consumer.poll(), 0.1)
            await fill(bootstrap, topic, 5)
            found: list[int] = []
            deadline = time.monotonic() + WAIT_S
            while len(found) < 5 and time.monotonic() < deadline:
                try:
                    message = await asyncio.wait_for(consumer.poll(), 0.02)
                except TimeoutError:
                    continue
                if message is not None:
                    found.append(int(message.text))
            assert found == [0, 1, 2, 3, 4]

    asyncio.run(run())


def test_what_a_cancelled_task_did_not_see_is_not_committed(
    bootstrap: str, make_topic: TopicMaker, group: str
) -> None:
    topic = make_topic()
    place = TopicPartition(topic, 0)

    async def run() -> None:
        async with AsyncConsumer(topic, group, bootstrap, config=QUICK) as consumer:
            waiting = asyncio.create_task(consumer.poll())
            await asyncio.sleep(0.1)
            waiting.cancel()
            # Nothing comes, and nobody waits for it.
            await asyncio.wait_for(consumer.commit(), WAIT_S)
            await fill(bootstrap, topic, 5)
            first = await consumer.poll(WAIT_S)
            assert first is not None
            assert first.text == "0"
            await consumer.commit()
            task = asyncio.ensure_future(anext(consumer.batches(2)))
            while consumer._coming is None or not consumer._coming.done():
                await asyncio.sleep(0)
            task.cancel()
            await consumer.commit()
            assert await consumer.committed() == {place: 1}
            again = await consumer.poll(WAIT_S)
            assert again is not None
            assert again.text == "1"

    asyncio.run(run())


@pytest.mark.parametrize("in_group", [True, False])
def test_seeking_drops_what_a_cancelled_task_did_not_see(
    bootstrap: str, make_topic: TopicMaker, group: str, in_group: bool
) -> None:
    topic = make_topic()

    async def run() -> None:
        await fill(bootstrap, topic, 10)
        name = group if in_group else None
        async with AsyncConsumer(topic, name, bootstrap, config=QUICK) as consumer:
            task = asyncio.create_task(consumer.poll())
            while consumer._coming is None or not consumer._coming.done():
                await asyncio.sleep(0)
            task.cancel()
            await consumer.seek(topic, 0, 7)
            after = await consumer.poll(WAIT_S)
            assert after is not None
            assert after.text == "7"

    asyncio.run(run())


def test_an_error_is_told_once_and_the_next_call_tries_again(
    bootstrap: str, make_topic: TopicMaker, group: str
) -> None:
    topic = f"{make_topic()}-later"

    async def run() -> None:
        config = QUICK | {"topic.metadata.refresh.interval.ms": 500, "allow.auto.create.topics": 0}
        async with AsyncConsumer(topic, group, bootstrap, config=config) as consumer:
            with pytest.raises(TopicNotFoundError):
                await consumer.poll(WAIT_S)
            async with AsyncAdmin(bootstrap) as admin:
                await admin.create_topic(topic)
            await fill(bootstrap, topic, 1)
            message = await consumer.poll(WAIT_S)
            assert message is not None
            assert message.text == "0"

    asyncio.run(run())


def test_closing_while_somebody_waits(bootstrap: str, make_topic: TopicMaker) -> None:
    topic = make_topic()

    async def run() -> None:
        consumer = AsyncConsumer(topic, None, bootstrap, config=QUICK)
        waiting = asyncio.create_task(consumer.poll())
        await asyncio.sleep(0.05)
        await consumer.close()
        assert await waiting is None

    asyncio.run(run())


def test_batches_and_exactly_once(bootstrap: str, make_topic: TopicMaker, group: str) -> None:
    topic = make_topic()

    async def run() -> None:
        await fill(bootstrap, topic, 6)
        ledger = SqliteLedger(":memory:")
        ledger.connection.execute("CREATE TABLE total (n INTEGER)")
        async with AsyncConsumer(
            topic, group, bootstrap, delivery="exactly-once", ledger=ledger, config=QUICK
        ) as consumer:
            async for batch in consumer.batches(4, linger=1):
                for message in batch:
                    message.transaction.execute(
                        "INSERT INTO total VALUES (?)", (int(message.text),)
                    )
                if batch[-1].text == "5":
                    await consumer.commit()
                    break
        assert ledger.connection.execute("SELECT sum(n), count(*) FROM total").fetchone() == (15, 6)

    asyncio.run(run())


def test_admin(bootstrap: str) -> None:
    async def run() -> None:
        async with AsyncAdmin(bootstrap) as admin:
            name = unique("aio")
            await admin.create_topic(name, 3)
            assert len((await admin.describe_topic(name)).partitions) == 3
            assert name in await admin.list_topics()
            await admin.delete_topic(name)
            with pytest.raises(TopicNotFoundError):
                await admin.describe_topic(name)

    asyncio.run(run())
