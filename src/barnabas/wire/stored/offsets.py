"""A committed offset, as it lies in `__consumer_offsets`."""

from dataclasses import dataclass
from typing import Final

NO_TOPIC_ID: Final = bytes(16)
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetValue:
    """Where a group is in a partition, and what it noted there."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp: int
    expire_timestamp: int = NO_TIMESTAMP
    """Set only for commits that asked for a retention time of their own (OffsetCommit 2 to 4)."""
    topic_id: bytes = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """A group's offset in one partition; without a value it is forgotten."""

    group: str
    topic: str
    partition: int
    value: OffsetValue | None
