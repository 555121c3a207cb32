"""Partitions of which not even a folder is left when a broker starts."""

import uuid
from collections.abc import Iterable

from barnabas.broker.healing import Healing
from barnabas.cluster.image import PartitionState, Topic
from barnabas.config.topic_config import TopicConfig
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.sim.loop import SimLoop, run

STATE = PartitionState(1, 0, (1, 2), (1, 2))


class Store:
    """The cluster and the replicas of broker 2, which has nothing of any partition."""

    node_id = 2

    def __init__(self, *gone: str) -> None:
        self._gone = gone
        self.left: list[str] = []

    def on_unopened(self, _told: object) -> None:
        """Nothing is opened here."""

    async def lost(self, topics: Iterable[Topic]) -> list[tuple[Topic, int]]:
        return [(topic, 0) for topic in topics]

    async def quarantine(self, topic: Topic, _number: int, *, present_only: bool) -> PartitionState:
        assert not present_only
        if topic.name in self._gone:
            raise KafkaError(ErrorCode.unknown_topic_or_partition)
        self.left.append(topic.name)
        return STATE


def test_a_topic_that_is_deleted_as_the_broker_starts_keeps_it_from_nothing() -> None:
    async def main(_loop: SimLoop) -> None:
        store = Store("deleted")
        healing = Healing(store, store, None)  # type: ignore[arg-type]
        topics = [
            Topic(name, uuid.UUID(int=number), (STATE,), {}, TopicConfig())
            for number, name in enumerate(["deleted", "kept"])
        ]
        await healing.leave_lost(topics)
        assert store.left == ["kept"]

    run(main, 0)
