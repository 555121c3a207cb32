"""What subscribers are told after a change, and what a decision consists of."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from barnabas.cluster.image import Image, Topic
from barnabas.config.broker_config import BrokerConfig
from barnabas.ports.coordination import Op


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic with all of its partitions is new."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic is gone; `topic` is what it was."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """The partitions of `topic` from number `first_new` on are new."""

    topic: Topic
    first_new: int


@dataclass(frozen=True, slots=True)
class PartitionsChanged:
    """Partitions that were there before have another state."""

    topic: Topic
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicConfigChanged:
    """A topic's settings were altered, or a broker default under them was."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class BrokerConfigChanged:
    """This broker's effective configuration differs."""

    config: BrokerConfig


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """Brokers came, went, are leaving, or another one is the controller."""


Change = (
    TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | PartitionsChanged
    | TopicConfigChanged
    | BrokerConfigChanged
    | BrokersChanged
)


def changes_between(before: Image, after: Image) -> list[Change]:
    """What has to be told to whoever knew `before`; topics that went come before new ones."""
    changes: list[Change] = []
    if (before.brokers, before.controller_id) != (after.brokers, after.controller_id):
        changes.append(BrokersChanged())
    if before.config != after.config:
        changes.append(BrokerConfigChanged(after.config))
    for name, old in before.topics.items():
        now = after.topics.get(name)
        if now is None or now.id != old.id:
            changes.append(TopicDeleted(old))
    for name, topic in after.topics.items():
        known = before.topics.get(name)
        if known is None or known.id != topic.id:
            changes.append(TopicCreated(topic))
        elif known is not topic:
            changes += _changes_of_topic(known, topic)
    return changes


def _changes_of_topic(before: Topic, after: Topic) -> Iterable[Change]:
    first_new = len(before.partitions)
    if first_new < len(after.partitions):
        yield PartitionsAdded(after, first_new)
    pairs = zip(before.partitions, after.partitions, strict=False)
    changed = tuple(number for number, (old, new) in enumerate(pairs) if old != new)
    if changed:
        yield PartitionsChanged(after, changed)
    if before.config != after.config or before.overrides != after.overrides:
        yield TopicConfigChanged(after)


@dataclass(frozen=True, slots=True)
class Write:
    """What is stored for one topic, partition or resource: others see all of `seen`, or nothing.

    `before` and `after` prepare and tidy up: nobody notices how much of them is done. The rest
    says what brokers have to read again.
    """

    seen: list[Op]
    before: list[Op] = field(default_factory=list)
    after: list[Op] = field(default_factory=list)
    topic: str | None = None
    partitions: tuple[int, ...] | None = None
    """None: the whole topic."""
    config: str | None = None


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """What to answer, what to store, and what is true once that is stored."""

    results: list[R]
    image: Image
    writes: list[Write] = field(default_factory=list)

    @property
    def operations(self) -> list[Op]:
        """Everything that is to be stored, in order."""
        return [
            op
            for each in self.writes
            for part in (each.before, each.seen, each.after)
            for op in part
        ]
