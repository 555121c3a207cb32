"""What of the last target assignment still holds."""

from collections.abc import Iterable
from typing import TypeAlias

from barnabas.coordinator.assignors.spec import Assignment, GroupSpec, TopicId

TopicPartitionId: TypeAlias = tuple[TopicId, int]


def claim(
    spec: GroupSpec, topics: Iterable[TopicId]
) -> tuple[dict[str, Assignment], dict[TopicId, set[int]]]:
    """What each member may keep of `topics`, and which of their partitions nobody has.

    A member can not keep what it no longer subscribes to nor what no longer exists, and of two
    that claim the same partition only the first, by member id, has it.
    """
    free = {topic: set(range(spec.partitions[topic])) for topic in topics}
    kept: dict[str, Assignment] = {}
    for member_id in sorted(spec.members):
        member = spec.members[member_id]
        keeps: Assignment = {}
        for topic, partitions in member.assigned.items():
            if topic in free and topic in member.topics:
                valid = partitions & free[topic]
                if valid:
                    free[topic] -= valid
                    keeps[topic] = valid
        kept[member_id] = keeps
    return kept, free
