"""The target assignment of a group, and the hash that tells when it may have to be made anew."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from barnabas.cluster.image import Image
from barnabas.coordinator.assignors import ASSIGNORS, GroupSpec, MemberSpec, Partitions
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import Member
from barnabas.coordinator.runtime.turn import Turn
from barnabas.wire.stored import (
    Stored,
    TargetAssignmentMember,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadata,
    TargetAssignmentMetadataValue,
)

ASSIGNED_AT_ONCE_MEMBERS: Final = 100
"""Up to this size a group's target is made whenever its epoch changed."""
ASSIGNMENT_INTERVAL_MS_MAX: Final = 1_000
"""Kafka's group.consumer.assignment.interval.ms."""


def may_assign(group: ConsumerGroup, now_ms: int) -> bool:
    """Whether the target may be made anew already.

    Ten thousand members that join one after the other would each have it made for all: so in a
    large group a target lives for a millisecond a member, at most for a second (Kafka lets every
    target live for a second). The members hear of the next by a later heartbeat.
    """
    size = len(group.members)
    if size <= ASSIGNED_AT_ONCE_MEMBERS or group.assigned_at_ms is None:
        return True
    return now_ms >= group.assigned_at_ms + min(size, ASSIGNMENT_INTERVAL_MS_MAX)


def make_target(turn: Turn[Stored], group: ConsumerGroup, assignor: str) -> None:
    """Write the target assignment of the group's epoch: only what it changes."""
    targets = ASSIGNORS[assignor].assign(_spec(group, turn.image))
    group_id = group.group_id
    for member_id, target in targets.items():
        if target != group.targets.get(member_id):
            turn.write(TargetAssignmentMember(group_id, member_id, stored_target(target)))
    made = TargetAssignmentMetadataValue(
        assignment_epoch=group.epoch, assignment_timestamp=turn.now_ms
    )
    turn.write(TargetAssignmentMetadata(group_id, made))
    group.assigned_at_ms = turn.monotonic_ms


def stored_target(target: Partitions) -> TargetAssignmentMemberValue:
    """One member's part, as it lies in the log."""
    return TargetAssignmentMemberValue(
        topic_partitions=tuple(
            (topic_id, tuple(sorted(target[topic_id]))) for topic_id in sorted(target)
        )
    )


def subscription(group: ConsumerGroup, member: Member, image: Image) -> Callable[[bytes], bool]:
    """Whether a member reads the topic of an id. An unresolved expression stands for nothing."""
    names = _subscribed_names(group, member.told.subscribed_topic_names, member.regex)
    by_id = image.topics_by_id

    def subscribes(topic_id: bytes) -> bool:
        topic = by_id.get(topic_id)
        return topic is not None and topic.name in names

    return subscribes


def metadata_hash(group: ConsumerGroup, image: Image) -> int:
    """64 bits that change with the ids and partition counts of the topics subscribed to.

    Kafka hashes the same (and racks) with XXH3. Nobody else reads the number, so any stable hash
    does: after a change of coordinators between the two a group is balanced once more, no worse.
    """
    digest = blake2b(digest_size=8)
    found = False
    for name in sorted(group.topics):
        topic = image.topics.get(name)
        if topic is not None:
            found = True
            digest.update(b"%b/%d/" % (topic.id_bytes, len(topic.partitions)))
            digest.update(name.encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0


def _spec(group: ConsumerGroup, image: Image) -> GroupSpec:
    """Members with the same subscription share one set of topics."""
    topic_ids: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
    members: dict[str, MemberSpec] = {}
    for member_id, member in group.members.items():
        told = member.told
        key = (told.subscribed_topic_names, member.regex)
        ids = topic_ids.get(key)
        if ids is None:
            names = _subscribed_names(group, *key)
            ids = frozenset(image.topics[each].id_bytes for each in names if each in image.topics)
            topic_ids[key] = ids
        members[member_id] = MemberSpec(
            instance_id=told.instance_id,
            rack_id=told.rack_id,
            topics=ids,
            assigned=group.target(member_id),
        )
    used = frozenset[bytes]().union(*topic_ids.values())
    return GroupSpec(
        members, {each: len(image.topics_by_id[each].partitions) for each in sorted(used)}
    )


def _subscribed_names(group: ConsumerGroup, names: tuple[str, ...], regex: str) -> set[str]:
    resolved = group.regexes.get(regex)
    return {*names, *resolved.topics} if resolved else set(names)
