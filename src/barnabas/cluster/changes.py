"""What subscribers are told after a change is stored, and what a decision consists of."""

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
class TopicConfigChanged:
    """A topic's settings were altered, or a broker default under them was."""

    topic: Topic


@dataclass(frozen=True, slots=True)
class BrokerConfigChanged:
    """This broker's effective configuration differs."""

    config: BrokerConfig


Change = TopicCreated | TopicDeleted | PartitionsAdded | TopicConfigChanged | BrokerConfigChanged

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """What to answer, what to store, what is true once that is stored, and whom it concerns."""

    results: list[R]
    image: Image
    operations: list[Op] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
