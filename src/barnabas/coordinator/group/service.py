"""The group coordinator, as the APIs ask it: finds the shard, and has it decide.

Every method answers at once, or with a future when the answer has to wait; either raises
KafkaError.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from barnabas.cluster.image import Topic
from barnabas.cluster.service import Cluster
from barnabas.cluster.topics import NewTopic
from barnabas.config.group_settings import GroupSettings
from barnabas.coordinator.group.asks import (
    Commit,
    CommittedOffset,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    Described,
    DescribedConsumerGroup,
    FetchOffsets,
    Heartbeat,
    Join,
    Joined,
    Leaver,
    Left,
    Listing,
    Sync,
    Synced,
    TxnCommit,
)
from barnabas.coordinator.java_hash import partition_of
from barnabas.coordinator.runtime.log import ShardLog
from barnabas.coordinator.runtime.runtime import Runtime
from barnabas.coordinator.runtime.topic import InternalTopic, replicas_to_ask_for
from barnabas.coordinator.runtime.turn import Answer, Parked, Waiter
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import CONSUMER_OFFSETS
from barnabas.model.transactions import Marker
from barnabas.ports.clock import Clock
from barnabas.ports.entropy import Entropy
from barnabas.wire.stored import Ignored, Stored, decode, encode

if TYPE_CHECKING:
    from barnabas.coordinator.group.shard import GroupShard, GroupTurn

T = TypeVar("T")


class StoredCodec:
    """Records of `__consumer_offsets`; those of kinds not served here stay where they are."""

    def encode(self, record: Stored) -> tuple[bytes, bytes | None]:
        """Key and value."""
        return encode(record)

    def decode(self, key: bytes, value: bytes | None) -> Stored | None:
        """The record, or None."""
        record = decode(key, value)
        return None if isinstance(record, Ignored) else record


class GroupCoordinator:
    """Every group whose shard is in office at this broker."""

    def __init__(self, cluster: Cluster, clock: Clock, entropy: Entropy) -> None:
        self._cluster = cluster
        self._entropy = entropy
        self._topic = InternalTopic(cluster, CONSUMER_OFFSETS, self._new_topic)
        self._runtime: Runtime[Stored, GroupShard] = Runtime(
            CONSUMER_OFFSETS,
            self._new_shard,
            StoredCodec(),
            clock,
            lambda: cluster.image,
        )

    def _settings(self) -> GroupSettings:
        return self._cluster.image.config.groups

    def _new_shard(self) -> "GroupShard":
        # Imported when there are groups to load: a broker without any starts quicker.
        from barnabas.coordinator.group.shard import GroupShard

        return GroupShard(self._settings, self._entropy)

    # --- office --------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Make sure there is a topic to keep groups in."""
        await self._topic.ready()

    def _new_topic(self) -> NewTopic:
        settings = self._settings()
        replicas = replicas_to_ask_for(self._cluster.image, settings.offsets_replication_factor)
        return NewTopic(
            CONSUMER_OFFSETS,
            settings.offsets_partitions,
            replicas,
            configs={
                # As transactions have it: a commit that one broker alone had would go with it.
                "min.insync.replicas": str(min(2, replicas)),
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(settings.offsets_segment_bytes),
            },
        )

    def elect(self, partition: int, log: ShardLog) -> None:
        """This broker leads a partition of `__consumer_offsets`."""
        self._runtime.elect(partition, log)

    def resign(self, partition: int) -> None:
        """It does so no more."""
        self._runtime.resign(partition)

    def topics_changed(self, topics: Collection[Topic]) -> None:
        """Topics came, or got other partitions."""
        self._runtime.topics_changed(topics)

    def topics_deleted(self, topics: Collection[Topic]) -> None:
        """Topics are gone."""
        self._runtime.topics_deleted(topics)

    def close(self) -> None:
        """Nobody is coordinated here any more: those who wait are told."""
        self._runtime.close()

    def _ask(
        self, group_id: str, decide: "Callable[[GroupShard, GroupTurn, Waiter], T | Parked]"
    ) -> Answer[T]:
        return self._runtime.ask(self.partition_of(group_id), decide)

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that the group lives in."""
        topic = self._cluster.image.topics.get(CONSUMER_OFFSETS)
        if topic is None:
            raise KafkaError(ErrorCode.not_coordinator)
        return partition_of(group_id, len(topic.partitions))

    # --- classic groups ------------------------------------------------------------------------

    def join(self, ask: Join) -> Answer[Joined]:
        """JoinGroup."""
        return self._ask(ask.group_id, lambda shard, turn, who: shard.classic.join(turn, who, ask))

    def sync(self, ask: Sync) -> Answer[Synced]:
        """SyncGroup."""
        return self._ask(ask.group_id, lambda shard, turn, who: shard.classic.sync(turn, who, ask))

    def heartbeat(self, ask: Heartbeat) -> Answer[None]:
        """Heartbeat."""
        return self._ask(ask.group_id, lambda shard, turn, _: shard.classic.heartbeat(turn, ask))

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> Answer[list[Left]]:
        """LeaveGroup."""
        return self._ask(group_id, lambda shard, turn, _: shard.leave(turn, group_id, leavers))

    # --- consumer groups -----------------------------------------------------------------------

    def consumer_heartbeat(self, ask: ConsumerHeartbeat) -> Answer[ConsumerHeartbeatAnswer]:
        """ConsumerGroupHeartbeat."""
        return self._ask(ask.group_id, lambda shard, turn, _: shard.consumer.heartbeat(turn, ask))

    # --- offsets -------------------------------------------------------------------------------

    def commit(self, ask: Commit) -> Answer[list[ErrorCode]]:
        """OffsetCommit: one result for each partition."""
        return self._ask(ask.group_id, lambda shard, turn, _: shard.commit(turn, ask))

    def txn_commit(self, ask: TxnCommit) -> Answer[list[ErrorCode]]:
        """TxnOffsetCommit: one result for each partition. It is for the caller to verify that the
        transaction is one, and that it reaches into this group's partition."""
        return self._ask(ask.group_id, lambda shard, turn, _: shard.txn_commit(turn, ask))

    def write_marker(self, partition: int, marker: Marker) -> Answer[None]:
        """Write the end of a transaction into a partition of `__consumer_offsets`; what was
        committed within it is seen from then on, or forgotten."""
        return self._runtime.end_transaction(partition, marker)

    def fetch_offsets(self, ask: FetchOffsets) -> Answer[Mapping[tuple[str, int], CommittedOffset]]:
        """OffsetFetch: those of the partitions that have an offset."""
        return self._ask(ask.group_id, lambda shard, *_: shard.fetch_offsets(ask))

    def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[str, int]]
    ) -> Answer[list[ErrorCode]]:
        """OffsetDelete: one result for each partition."""
        return self._ask(
            group_id, lambda shard, turn, _: shard.delete_offsets(turn, group_id, partitions)
        )

    # --- groups as such ------------------------------------------------------------------------

    def list_groups(self) -> Answer[list[Listing]]:
        """ListGroups: every group of every shard in office."""
        lists = [
            self._runtime.ask(partition, lambda shard, *_: shard.list_groups())
            for partition in self._runtime.partitions()
        ]
        if any(isinstance(each, asyncio.Future) for each in lists):
            return asyncio.ensure_future(_joined(lists))
        return [listing for each in lists if isinstance(each, list) for listing in each]

    def describe(self, group_id: str) -> Answer[Described]:
        """DescribeGroups."""
        return self._ask(group_id, lambda shard, *_: shard.classic.describe(group_id))

    def describe_consumer(self, group_id: str) -> Answer[DescribedConsumerGroup]:
        """ConsumerGroupDescribe."""
        return self._ask(
            group_id, lambda shard, turn, _: shard.consumer.describe(group_id, turn.image)
        )

    def delete_group(self, group_id: str) -> Answer[None]:
        """DeleteGroups."""
        return self._ask(group_id, lambda shard, turn, _: shard.delete_group(turn, group_id))


async def _joined(lists: list[Answer[list[Listing]]]) -> list[Listing]:
    found: list[Listing] = []
    for each in lists:
        found += await each if isinstance(each, asyncio.Future) else each
    return found
