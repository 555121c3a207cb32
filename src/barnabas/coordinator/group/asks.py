"""What groups are asked, and what they answer, free of any API version.

Errors are raised as KafkaError before anything is changed, or handed to a parked asker.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.log.verification import VerificationGuard
from barnabas.model.errors import ErrorCode
from barnabas.model.transactions import ProducerIdentity

NO_GENERATION = -1
"""The generation (or member epoch) of somebody who commits without being a member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who asks, as descriptions of a group show it."""

    id: str
    host: str
    """In Kafka's form, with a leading slash: "/127.0.0.1"."""


# --- classic groups ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """JoinGroup."""

    group_id: str
    member_id: str
    instance_id: str | None
    client: Client
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """Name and metadata, the most wanted first."""
    reason: str | None = None
    needs_member_id: bool = True
    """v4+: a newcomer is sent away with a member id, and comes back with it (KIP-394)."""
    can_skip_assignment: bool = True
    """v9+: a returning static leader may be told that nothing is to be assigned (KIP-814)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member, as the leader gets to know it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to Join; with an error for those that come with a member id
    (MEMBER_ID_REQUIRED); other errors are raised."""

    member_id: str
    error: ErrorCode = ErrorCode.none
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """SyncGroup."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The answer to Sync."""

    protocol_type: str
    protocol_name: str
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Heartbeat; there is nothing to answer but an error."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """One of those who leave, by member id or by static instance id."""

    member_id: str
    instance_id: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What became of one who leaves."""

    member_id: str
    instance_id: str | None
    error: ErrorCode = ErrorCode.none


# --- consumer groups (KIP-848) -------------------------------------------------------------------

Assignment = Mapping[bytes, tuple[int, ...]]
"""Partitions, sorted, by topic id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """ConsumerGroupHeartbeat; None means: as I said before."""

    group_id: str
    member_id: str
    member_epoch: int
    client: Client
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Assignment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatAnswer:
    """`assignment` is None when the member knows it already."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: Assignment | None = None


# --- offsets -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """How far a group has got in one partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: bytes = bytes(16)
    """Of the topic it was committed for; 16 zero bytes where that is not known."""
    is_stable: bool = True
    """Whether no transaction may change it any moment; looked at only for those who ask."""


UNSTABLE = CommittedOffset(offset=-1, is_stable=False)
"""What those are told who want to know only what no open transaction may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPartition:
    """One partition of an OffsetCommit. `topic_id` is 16 zero bytes where none is known."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """OffsetCommit, without the partitions that the caller refused already (unknown ones)."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    """Of a classic group; the member epoch of a consumer group."""
    knows_epochs: bool
    """v9+: the asker can be told STALE_MEMBER_EPOCH."""
    partitions: tuple[CommitPartition, ...]
    retention_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets:
    """OffsetFetch, about one group."""

    group_id: str
    member_id: str = ""
    member_epoch: int = NO_GENERATION
    partitions: tuple[tuple[str, int], ...] | None
    """Topic and partition of each; None: of all that have an offset."""
    require_stable: bool = False
    """Tell of no offset that an open transaction may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnCommit:
    """TxnOffsetCommit, without the partitions that the caller refused already (unknown ones)."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    """Of a classic group; the member epoch of a consumer group. The producer may not know it, nor
    a member id, nor an instance id; then nobody asks about them."""
    producer: ProducerIdentity
    partitions: tuple[CommitPartition, ...]
    guard: VerificationGuard | None = None
    """What the partition of `__consumer_offsets` gave out before the transaction's coordinator
    was asked about it; None where the transaction is open there already."""


# --- looking at groups ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A group in ListGroups."""

    group_id: str
    protocol_type: str
    state: str
    kind: str
    """"classic" or "consumer"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRebalance:
    """Why, and when by the wall clock, a group was last rebalanced; as far as remembered."""

    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member of a classic group; metadata and assignment are empty unless it is Stable."""

    member_id: str
    instance_id: str | None
    client: Client
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """DescribeGroups."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]
    last_rebalance: LastRebalance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumer:
    """A member of a consumer group."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client: Client
    topic_names: tuple[str, ...]
    topic_regex: str | None
    assignment: Assignment
    target: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    """ConsumerGroupDescribe."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedConsumer, ...]
    last_rebalance: LastRebalance | None = None
