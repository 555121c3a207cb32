"""The numbers by which keys of `__consumer_offsets` begin."""

from typing import Final

LEGACY_OFFSET_COMMIT: Final = 0
"""A commit as Kafka 0.8 wrote it; the same fields as today's."""
OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2
CONSUMER_GROUP_METADATA: Final = 3
CONSUMER_GROUP_PARTITION_METADATA: Final = 4
"""Gone since Kafka 4.1 (KIP-1101): the group's metadata hash has taken its place."""
CONSUMER_GROUP_MEMBER_METADATA: Final = 5
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: Final = 6
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: Final = 7
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: Final = 8
CONSUMER_GROUP_REGULAR_EXPRESSION: Final = 16
