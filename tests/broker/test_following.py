"""What changes while a broker opens its logs is followed when they are open, in its order."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from tests.api.conftest import House

from barnabas.broker.following import Following
from barnabas.cluster.changes import PartitionsChanged, TopicCreated, TopicDeleted
from barnabas.cluster.image import PartitionState, Topic
from barnabas.config.topic_config import TopicConfig


def topic(name: str, number: int, leader: int = 1, epoch: int = 0) -> Topic:
    states = (PartitionState(leader, epoch, (1, 2), (1, 2), epoch),)
    return Topic(name, uuid.UUID(int=number), states, {}, TopicConfig())


@pytest.fixture
def house() -> Any:
    house = House({})
    yield house
    house.close()


def test_changes_wait_until_the_logs_are_open(house: House) -> None:
    following = Following(house.replicas, house.coordinators, house.replication, pytest.fail)
    told: list[str] = []

    async def main() -> None:
        starting = asyncio.ensure_future(following.start([topic("old", 1), topic("gone", 2)]))
        await asyncio.sleep(0)
        for name, change in (
            ("changed", PartitionsChanged(topic("old", 1, leader=2, epoch=1), (0,))),
            ("deleted", TopicDeleted(topic("gone", 2))),
            ("created", TopicCreated(topic("new", 3))),
        ):
            done = following.follow(change)
            assert done is not None
            asyncio.ensure_future(done).add_done_callback(_note(told, name))
        assert not told
        await starting
        while len(told) < 3:
            await asyncio.sleep(0.001)

    house.run(main())
    assert sorted(house.replicas.by_name) == ["new", "old"]
    assert not house.partition("old").leads
    assert house.partition("new").leads
    assert told[0] == "changed"


def _note(told: list[str], name: str) -> Callable[[object], None]:
    return lambda _: told.append(name)
