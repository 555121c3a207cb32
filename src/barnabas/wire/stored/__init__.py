"""The records that Kafka keeps in `__consumer_offsets` and `__transaction_state`, and what
members of groups tell each other.

Knows how each kind lies in the key and the value of a record, in every version that occurs in
logs. Does not know what a group or a transaction does, which record comes when, or where the log
is.
"""

from barnabas.wire.stored.classic_groups import (
    GroupMetadata,
    GroupMetadataMember,
    GroupMetadataValue,
)
from barnabas.wire.stored.codec import Ignored, Stored, decode, encode
from barnabas.wire.stored.consumer_groups import (
    Assignment,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMember,
    ConsumerGroupMemberValue,
    ConsumerGroupMetadata,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegex,
    ConsumerGroupRegexValue,
    CurrentMemberAssignment,
    CurrentMemberAssignmentValue,
    OwnedPartitions,
    TargetAssignmentMember,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadata,
    TargetAssignmentMetadataValue,
)
from barnabas.wire.stored.offsets import OffsetCommit, OffsetValue

__all__ = [
    "Assignment",
    "ClassicMemberMetadata",
    "ClassicProtocol",
    "ConsumerGroupMember",
    "ConsumerGroupMemberValue",
    "ConsumerGroupMetadata",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupRegex",
    "ConsumerGroupRegexValue",
    "CurrentMemberAssignment",
    "CurrentMemberAssignmentValue",
    "GroupMetadata",
    "GroupMetadataMember",
    "GroupMetadataValue",
    "Ignored",
    "OffsetCommit",
    "OffsetValue",
    "OwnedPartitions",
    "Stored",
    "TargetAssignmentMember",
    "TargetAssignmentMemberValue",
    "TargetAssignmentMetadata",
    "TargetAssignmentMetadataValue",
    "decode",
    "encode",
]
