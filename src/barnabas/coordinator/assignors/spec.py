"""What a server-side assignor is told about a group, and what it answers (KIP-848)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

TopicId: TypeAlias = bytes  # 16 bytes, big-endian
Partitions: TypeAlias = Mapping[TopicId, frozenset[int]]
Assignment: TypeAlias = dict[TopicId, frozenset[int]]


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member: what it wants, and what its last target assignment gave it.

    `topics` are the subscribed topics that exist. `assigned` may be out of date: topics and
    partitions that no longer exist, or are no longer subscribed to, are dropped by the assignor.
    """

    instance_id: str | None
    rack_id: str | None
    topics: frozenset[TopicId]
    assigned: Partitions


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A whole group: its members by member id, and the partition count of each topic."""

    members: Mapping[str, MemberSpec]
    partitions: Mapping[TopicId, int]


class Assignor(Protocol):
    """A pure function from a group to a new target assignment.

    The answer has an entry for every member (empty when it gets nothing), and in it no topic
    without partitions. The same group gives the same answer, in whatever order the members,
    topics and partitions come. A topic that is missing from `GroupSpec.partitions` is passed over.
    """

    @property
    def name(self) -> str:
        """The name a member asks for in `ServerAssignor`."""

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Compute the group's new target assignment."""
