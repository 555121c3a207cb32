"""The cluster as one broker sees it: a value that is replaced, never changed in place."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.topic_config import TopicConfig

NO_LEADER = -1
NO_CONTROLLER = -1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who holds and who leads one partition. `partition_epoch` counts the changes of it.

    `eligible` are replicas that left the in-sync ones when those became fewer than
    `min.insync.replicas`: nothing was committed without them since, so they may lead (KIP-966).

    While the partition is moved (KIP-455) `replicas` are those it shall have, in their order, and
    then those that are to go; `original` is what they were before.

    `emptied` are replicas of which nothing is left, while nobody leads: whoever followed one of
    them would throw away what he has.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    eligible: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    original: tuple[int, ...] = ()
    emptied: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding or self.removing)

    @property
    def settled(self) -> tuple[int, ...]:
        """The replicas that count where numbers of replicas do: while the partition is moved, those
        it had before. One that is added counts for nothing until it is there, and one that is
        removed for everything until all others are."""
        return self.original if self.is_moving else self.replicas

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas it shall have."""
        return tuple(each for each in self.replicas if each not in self.removing)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its partitions by number, and its configuration."""

    name: str
    id: uuid.UUID
    partitions: tuple[PartitionState, ...]
    overrides: Mapping[str, str]
    config: TopicConfig
    id_bytes: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id_bytes", self.id.bytes)

    @property
    def replication_factor(self) -> int:
        """Replicas of each partition, as the first has them, or shall have."""
        return len(self.partitions[0].target)


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A live broker and the address clients reach it by.

    `epoch` rises with each registration. `life` counts the registrations of this broker alone:
    what is committed about one of its lives can be made to fail in the next.
    """

    id: int
    host: str
    port: int
    rack: str | None = None
    epoch: int = 0
    leaving: bool = False
    life: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Everything that is agreed on. Lookups are dict lookups, because every request does some."""

    cluster_id: str
    controller_id: int
    """-1 while nobody holds that office."""
    brokers: Mapping[int, BrokerNode]
    config: BrokerConfig
    """This broker's configuration with what was set at run time."""
    broker_overrides: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What was set at run time for one broker (by its number) or for all (`DEFAULT_BROKER`)."""
    controller_epoch: int = 0
    """How often the office was taken."""
    topics: dict[str, Topic] = field(default_factory=dict)
    topics_by_id: dict[bytes, Topic] = field(default_factory=dict)

    def are_staying(self, brokers: Iterable[int]) -> bool:
        """Whether these are all alive, and none of them is about to leave."""
        return all(each in self.brokers and not self.brokers[each].leaving for each in brokers)

    def with_topics(self, changed: Iterable[Topic]) -> Self:
        """The image with these topics added or replaced."""
        topics, by_id = dict(self.topics), dict(self.topics_by_id)
        for topic in changed:
            before = topics.get(topic.name)
            if before is not None and before.id_bytes != topic.id_bytes:
                del by_id[before.id_bytes]
            topics[topic.name] = topic
            by_id[topic.id_bytes] = topic
        return replace(self, topics=topics, topics_by_id=by_id)

    def without_topics(self, gone: Iterable[Topic]) -> Self:
        """The image without these topics."""
        topics, by_id = dict(self.topics), dict(self.topics_by_id)
        for topic in gone:
            del topics[topic.name]
            del by_id[topic.id_bytes]
        return replace(self, topics=topics, topics_by_id=by_id)
