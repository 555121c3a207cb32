"""What `Admin` tells about topics, settings and groups, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.model.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; None leaves the choice to the broker's defaults."""

    name: str
    partitions: int | None = None
    replication: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition; `leader` is None while there is none."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic."""

    name: str
    id: str
    internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a topic or broker; `value` is None when it is secret."""

    name: str
    value: str | None
    source: str
    default: bool
    read_only: bool
    sensitive: bool


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group, in short. `protocol` is "classic" or "consumer"."""

    group: str
    state: str
    protocol: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One consumer of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """How far a group is in one partition."""

    place: TopicPartition
    committed: int | None
    start_offset: int
    end_offset: int
    metadata: str

    @property
    def lag(self) -> int:
        """How many offsets lie before the group; all of them when it has committed nothing."""
        at = self.start_offset if self.committed is None else self.committed
        return max(0, self.end_offset - max(at, self.start_offset))


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group: who is in it, and how far it is."""

    group: str
    state: str
    protocol: str
    assignor: str
    coordinator: int | None
    members: tuple[GroupMember, ...]
    offsets: tuple[GroupOffset, ...]

    @property
    def lag(self) -> int:
        """Of all partitions together."""
        return sum(offset.lag for offset in self.offsets)


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """Where a group stood in a partition, and where it stands now (or would)."""

    place: TopicPartition
    before: int | None
    after: int
