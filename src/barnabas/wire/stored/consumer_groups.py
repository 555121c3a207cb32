"""A group of the consumer protocol (KIP-848): several kinds of records in `__consumer_offsets`.

Topic ids are 16 bytes.
"""

from dataclasses import dataclass
from typing import NamedTuple

Assignment = tuple[tuple[bytes, tuple[int, ...]], ...]
"""Topic ids, each with partitions."""


class OwnedPartitions(NamedTuple):
    """Partitions of one topic that a member holds, and since which member epoch it holds each.

    Records written before Kafka 4.3 have no epochs.
    """

    topic_id: bytes
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] | None = None


class ClassicProtocol(NamedTuple):
    """A protocol that a member of the classic kind supports."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """What is known of a member that joined a consumer group by the classic protocol."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue:
    """The group's epoch, and a hash of the topics it was last balanced for."""

    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """A consumer group; without a value it is gone."""

    group: str
    value: ConsumerGroupMetadataValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberValue:
    """What a member told of itself: where it is and what it subscribes to."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: ClassicMemberMetadata | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """A member (Kafka: ConsumerGroupMemberMetadata); without a value it has left."""

    group: str
    member_id: str
    value: ConsumerGroupMemberValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentMetadataValue:
    """Of which group epoch the target assignment is, and when it was made."""

    assignment_epoch: int
    assignment_timestamp: int = 0


@dataclass(frozen=True, slots=True)
class TargetAssignmentMetadata:
    """The target assignment as a whole (Kafka: ConsumerGroupTargetAssignmentMetadata)."""

    group: str
    value: TargetAssignmentMetadataValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentMemberValue:
    """What one member shall own."""

    topic_partitions: Assignment


@dataclass(frozen=True, slots=True)
class TargetAssignmentMember:
    """One member's part of the target assignment (Kafka: ConsumerGroupTargetAssignmentMember)."""

    group: str
    member_id: str
    value: TargetAssignmentMemberValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentMemberAssignmentValue:
    """What one member owns now, and where it is on its way to the target."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: tuple[OwnedPartitions, ...] = ()
    partitions_pending_revocation: tuple[OwnedPartitions, ...] = ()


@dataclass(frozen=True, slots=True)
class CurrentMemberAssignment:
    """One member's present assignment (Kafka: ConsumerGroupCurrentMemberAssignment)."""

    group: str
    member_id: str
    value: CurrentMemberAssignmentValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegexValue:
    """The topics an expression stood for, by which version of the metadata, and when."""

    topics: tuple[str, ...]
    version: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegex:
    """A resolved subscription (Kafka: ConsumerGroupRegularExpression)."""

    group: str
    regular_expression: str
    value: ConsumerGroupRegexValue | None
