"""A cluster at one moment, as a broker tells it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NOBODY: Final = -1
"""As a leader or controller: there is none just now."""


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """A registered broker, and where clients reach it."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """For people."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """Who holds and who leads one partition; the first replica is the preferred leader."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic. Another id under the same name is another topic."""

    id: str
    partitions: Mapping[int, PartitionFacts]


@dataclass(frozen=True, slots=True)
class Moving:
    """A partition whose replicas are on their way to other brokers."""

    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that one broker tells at one moment."""

    cluster_id: str
    controller: int
    brokers: Mapping[int, BrokerFacts]
    topics: Mapping[str, TopicFacts]
    moving: Mapping[Place, Moving] = field(default_factory=dict)
    moves_known: bool = True
    """Only a controller tells of moves; without one `moving` is empty, whatever is under way."""

    def partitions(self) -> Iterator[tuple[Place, PartitionFacts]]:
        """Every partition, in order."""
        for name, topic in sorted(self.topics.items()):
            for number, facts in sorted(topic.partitions.items()):
                yield Place(name, number), facts

    @property
    def dead(self) -> list[int]:
        """Brokers that hold replicas and are not registered."""
        holders = {each for _, facts in self.partitions() for each in facts.replicas}
        return sorted(holders - self.brokers.keys())
