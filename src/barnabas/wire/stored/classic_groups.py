"""A group of the classic protocol, whole in one record of `__consumer_offsets`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataMember:
    """One member of a stable classic group."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout: int = -1
    session_timeout: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    """A generation of a classic group; without members and protocol when it is empty."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int = -1
    members: tuple[GroupMetadataMember, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A classic group; without a value it is gone."""

    group: str
    value: GroupMetadataValue | None
