"""A leader's change of its in-sync replicas: one commit that holds only for what it was made on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from barnabas.cluster import layout
from barnabas.cluster.announcements import Announcement
from barnabas.cluster.elections import with_isr
from barnabas.cluster.errors import StateChangedError
from barnabas.cluster.image import Image, PartitionState, Topic
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.coordination import (
    BadVersionError,
    Check,
    Coordination,
    NoNodeError,
    Op,
    SetData,
)


@dataclass(frozen=True, slots=True)
class IsrChange:
    """From one state to the next; who joins must be in the life in which it had caught up.

    Otherwise a broker could lose its records, come back, and be counted as in sync for what it
    held before (KIP-903).
    """

    topic: Topic
    number: int
    before: PartitionState
    after: PartitionState
    lives: tuple[tuple[int, int | None], ...]
    """Who joins, and in which of its lives; None: it is not alive as the one that caught up."""
    controller_epoch: int

    @staticmethod
    def of(
        image: Image,
        topic: Topic,
        number: int,
        state: PartitionState,
        isr: tuple[int, ...],
        fetched_as: Mapping[int, int],
    ) -> "IsrChange":
        """The change of `state` to `isr`, as it would be stored."""
        current = image.topics.get(topic.name, topic)
        lives: list[tuple[int, int | None]] = []
        for broker in sorted(set(isr) - set(state.isr)):
            node = image.brokers.get(broker)
            if node is None or node.leaving or fetched_as.get(broker, node.epoch) != node.epoch:
                lives.append((broker, None))
            else:
                lives.append((broker, node.life))
        after = with_isr(state, isr, current.config.min_insync_replicas)
        return IsrChange(topic, number, state, after, tuple(lives), image.controller_epoch)

    async def commit(self, coordination: Coordination, mark: str) -> PartitionState:
        """Store it; the new state."""
        lives = [(broker, life) for broker, life in self.lives if life is not None]
        try:
            if len(lives) < len(self.lives):
                raise BadVersionError
            await coordination.commit(*self._operations(lives, mark))
        except NoNodeError as error:
            raise KafkaError(ErrorCode.unknown_topic_or_partition) from error
        except BadVersionError:
            await coordination.sync()
            actual = await self._stored(coordination)
            if actual.partition_epoch != self.before.partition_epoch:
                raise StateChangedError(actual) from None
            raise KafkaError(
                ErrorCode.ineligible_replica,
                f"One of the brokers {[broker for broker, _ in self.lives]} is not alive, or not "
                "as the one that had caught up.",
            ) from None
        return self.after

    def _operations(self, lives: Sequence[tuple[int, int]], mark: str) -> list[Op]:
        name, number = self.topic.name, self.number
        told = Announcement(partitions={name: frozenset({number})}, by=mark)
        return [
            Check(layout.topic_id_path(self.topic.id), 0),
            *(Check(layout.life_path(broker), life) for broker, life in lives),
            SetData(
                layout.state_path(name, number),
                layout.encode_state(self.after, self.controller_epoch),
                self.before.partition_epoch,
            ),
            told.operation(),
        ]

    async def _stored(self, coordination: Coordination) -> PartitionState:
        path = layout.state_path(self.topic.name, self.number)
        node = await coordination.get(path)
        still_there = await coordination.get(layout.topic_id_path(self.topic.id))
        if node is None or still_there is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition)
        return layout.decode_state(path, node.data, self.before.replicas, node.version)
