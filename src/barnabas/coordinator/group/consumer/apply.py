"""What each record of a consumer group changes: just written, or read back while loading."""

from typing import Any

from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import ownership_from
from barnabas.coordinator.group.consumer.state import FIRST_EPOCH
from barnabas.wire.stored import (
    ConsumerGroupMember,
    ConsumerGroupMetadata,
    ConsumerGroupRegex,
    CurrentMemberAssignment,
    Stored,
    TargetAssignmentMember,
    TargetAssignmentMetadata,
)


def apply(groups: dict[str, Any], record: Stored) -> None:
    """Take over one record; those of other kinds are passed over."""
    match record:
        case ConsumerGroupMetadata():
            _apply_group(groups, record)
        case ConsumerGroupMember(_, member_id, value):
            if (group := _group(groups, record.group, value)) is None:
                return
            if value is None:
                group.drop_member(member_id)
            else:
                group.put_told(member_id, value)
        case CurrentMemberAssignment(_, member_id, value):
            if (group := _group(groups, record.group, value)) is None:
                return
            if value is None:
                group.drop_owned(member_id)
            else:
                group.put_owned(member_id, ownership_from(value))
        case TargetAssignmentMember(_, member_id, value):
            if (group := _group(groups, record.group, value)) is None:
                return
            if value is None:
                group.targets.pop(member_id, None)
            else:
                group.targets[member_id] = {
                    topic_id: frozenset(numbers) for topic_id, numbers in value.topic_partitions
                }
        case TargetAssignmentMetadata(_, value):
            if (group := _group(groups, record.group, value)) is not None:
                group.assignment_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
        case ConsumerGroupRegex(_, regex, value):
            if (group := _group(groups, record.group, value)) is not None:
                group.put_regex(regex, value)


def _apply_group(groups: dict[str, Any], record: ConsumerGroupMetadata) -> None:
    group = _group(groups, record.group, record.value)
    if group is None:
        return
    if record.value is None:
        del groups[record.group]
        return
    group.epoch = record.value.epoch
    group.metadata_hash = record.value.metadata_hash


def _group(groups: dict[str, Any], group_id: str, value: object) -> ConsumerGroup | None:
    """The group a record is of. One that says more than "gone" brings it into being, also in the
    place of another kind: what was there only held offsets, or its tombstone came before."""
    group = groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if value is None:
        return None
    group = groups[group_id] = ConsumerGroup(group_id)
    return group
