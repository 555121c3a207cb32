"""The records that groups are changed with, several of which belong together."""

from dataclasses import replace

from barnabas.coordinator.group.asks import LastRebalance
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import (
    JOINING,
    LEAVING_FOR_A_WHILE,
    Member,
    Ownership,
    stored_ownership,
)
from barnabas.coordinator.group.consumer.target import metadata_hash, stored_target
from barnabas.coordinator.runtime.turn import Turn
from barnabas.wire.stored import (
    ConsumerGroupMember,
    ConsumerGroupMetadata,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegex,
    CurrentMemberAssignment,
    Stored,
    TargetAssignmentMember,
)


def write_owned(turn: Turn[Stored], group: ConsumerGroup, member_id: str, owns: Ownership) -> None:
    """A member owns something else than before."""
    turn.write(CurrentMemberAssignment(group.group_id, member_id, stored_ownership(owns)))


def write_gone(turn: Turn[Stored], group: ConsumerGroup, member_id: str) -> None:
    """A member is removed, whatever it owned."""
    group_id = group.group_id
    turn.write(CurrentMemberAssignment(group_id, member_id, None))
    turn.write(TargetAssignmentMember(group_id, member_id, None))
    turn.write(ConsumerGroupMember(group_id, member_id, None))


def write_replaced(
    turn: Turn[Stored], group: ConsumerGroup, leaver: Member, member_id: str
) -> None:
    """A static member is back under another member id: it gets all that it had."""
    told, target = leaver.told, group.target(leaver.member_id)
    owns = replace(leaver.owns, epoch=JOINING, previous_epoch=JOINING)
    write_gone(turn, group, leaver.member_id)
    turn.write(ConsumerGroupMember(group.group_id, member_id, told))
    turn.write(TargetAssignmentMember(group.group_id, member_id, stored_target(target)))
    write_owned(turn, group, member_id, owns)


def write_left_for_a_while(turn: Turn[Stored], group: ConsumerGroup, member: Member) -> None:
    """A static member's partitions stay with it until its session ends, except those it was
    giving up. Whoever comes back may commit for them with any epoch: they are assigned since 0.
    """
    owns = member.owns
    assigned = {each: dict.fromkeys(numbers, 0) for each, numbers in owns.assigned.items()}
    then = replace(owns, epoch=LEAVING_FOR_A_WHILE, assigned=assigned, revoking={})
    write_owned(turn, group, member.member_id, then)


def drop_unused_regex(turn: Turn[Stored], group: ConsumerGroup, regex: str) -> None:
    """Forget what an expression stands for, when the last who used it is gone."""
    if regex not in group.regex_users and regex in group.regexes:
        turn.write(ConsumerGroupRegex(group.group_id, regex, None))


def raise_epoch(turn: Turn[Stored], group: ConsumerGroup, reason: str) -> None:
    """The group is to be balanced anew; the target follows with the next heartbeat."""
    value = ConsumerGroupMetadataValue(
        epoch=group.epoch + 1, metadata_hash=metadata_hash(group, turn.image)
    )
    turn.write(ConsumerGroupMetadata(group.group_id, value))
    group.metadata_is_stale = False
    group.stale_because = ""
    group.last_rebalance = LastRebalance(reason=reason, at_ms=turn.now_ms)


def refresh(turn: Turn[Stored], group: ConsumerGroup) -> None:
    """Raise the epoch if the topics that the group reads are not those it was balanced for."""
    if metadata_hash(group, turn.image) != group.metadata_hash:
        raise_epoch(turn, group, group.stale_because or "its topics changed")
    group.metadata_is_stale = False
    group.stale_because = ""
