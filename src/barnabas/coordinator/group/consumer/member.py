"""One member of a consumer group: what it told of itself, and what it owns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from barnabas.coordinator.group.asks import Assignment, Client, ConsumerHeartbeat
from barnabas.wire.stored import (
    ConsumerGroupMemberValue,
    CurrentMemberAssignmentValue,
    OwnedPartitions,
)

JOINING: Final = 0
"""The member epoch of somebody who wants to become, or become again, a member."""
LEAVING: Final = -1
"""The member epoch of somebody who leaves for good."""
LEAVING_FOR_A_WHILE: Final = -2
"""The member epoch of a static member whose place is kept for its next start."""


class MemberState(IntEnum):
    """Where a member is on its way to the target. The numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It was told to give up partitions and has not confirmed it."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up."""
    UNKNOWN = 127


Epochs = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the member epoch since which it is assigned."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """What a member owns at its epoch. Replaced, never changed in place."""

    epoch: int = JOINING
    previous_epoch: int = LEAVING
    state: MemberState = MemberState.STABLE
    assigned: Epochs = field(default_factory=dict)
    revoking: Epochs = field(default_factory=dict)
    """Still its own, until it confirms that it has given them up."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether nothing is left to do until the target changes."""
        return self.epoch == target_epoch and self.state is MemberState.STABLE


NOTHING_OWNED: Final = Ownership()
NOTHING_TOLD: Final = ConsumerGroupMemberValue(
    client_id="", client_host="", subscribed_topic_regex=""
)


@dataclass(slots=True, eq=False)
class Member:
    """A member. `told` and `owns` are stored; the rest is known only while the shard is loaded."""

    member_id: str
    told: ConsumerGroupMemberValue = NOTHING_TOLD
    owns: Ownership = NOTHING_OWNED
    deadline_ms: int | None = None
    """When its session ends, by the monotonic clock; None before a timer was set."""
    revoking_since_epoch: int | None = None
    """The member epoch it must have left when its rebalance timeout ends."""

    @property
    def regex(self) -> str:
        """The expression it subscribes to, or an empty string."""
        return self.told.subscribed_topic_regex or ""

    @property
    def client(self) -> Client:
        """Who it is, for descriptions."""
        return Client(id=self.told.client_id, host=self.told.client_host)

    @property
    def assignment(self) -> Assignment:
        """What it may use, as it is answered."""
        return sorted_partitions(self.owns.assigned)


def sorted_partitions(*parts: Mapping[bytes, Iterable[int]]) -> dict[bytes, tuple[int, ...]]:
    """All partitions together, by topic id."""
    together: dict[bytes, list[int]] = {}
    for part in parts:
        for topic_id, partitions in part.items():
            together.setdefault(topic_id, []).extend(partitions)
    return {topic_id: tuple(sorted(numbers)) for topic_id, numbers in together.items()}


def tells_news(told: ConsumerGroupMemberValue, ask: ConsumerHeartbeat) -> bool:
    """Whether `ask` may say something that is not known yet. Quick, for every heartbeat."""
    client = ask.client
    return (
        ask.topic_names is not None
        or ask.topic_regex is not None
        or ask.rebalance_timeout_ms != -1
        or ask.server_assignor is not None
        or ask.rack_id is not None
        or ask.instance_id != told.instance_id
        or client.id != told.client_id
        or client.host != told.client_host
        or told.classic_member_metadata is not None
    )


def told_by(told: ConsumerGroupMemberValue, ask: ConsumerHeartbeat) -> ConsumerGroupMemberValue:
    """What is known of a member after `ask`; what it leaves out stays as it was."""
    names, timeout_ms = ask.topic_names, ask.rebalance_timeout_ms
    return ConsumerGroupMemberValue(
        instance_id=told.instance_id if ask.instance_id is None else ask.instance_id,
        rack_id=told.rack_id if ask.rack_id is None else ask.rack_id,
        client_id=ask.client.id,
        client_host=ask.client.host,
        subscribed_topic_names=(
            told.subscribed_topic_names if names is None else tuple(sorted(set(names)))
        ),
        subscribed_topic_regex=(
            told.subscribed_topic_regex if ask.topic_regex is None else ask.topic_regex
        ),
        rebalance_timeout_ms=told.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=(
            told.server_assignor if ask.server_assignor is None else ask.server_assignor
        ),
    )


def stored_ownership(owns: Ownership) -> CurrentMemberAssignmentValue:
    """As it lies in the log."""
    return CurrentMemberAssignmentValue(
        member_epoch=owns.epoch,
        previous_member_epoch=owns.previous_epoch,
        state=owns.state,
        assigned_partitions=_stored_partitions(owns.assigned),
        partitions_pending_revocation=_stored_partitions(owns.revoking),
    )


def ownership_from(value: CurrentMemberAssignmentValue) -> Ownership:
    """As it was read from the log; a state that a later version wrote is UNKNOWN."""
    known = value.state in MemberState._value2member_map_
    return Ownership(
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if known else MemberState.UNKNOWN,
        assigned=_partitions_from(value.assigned_partitions, value.member_epoch),
        revoking=_partitions_from(value.partitions_pending_revocation, value.member_epoch),
    )


def _stored_partitions(owned: Epochs) -> tuple[OwnedPartitions, ...]:
    stored = []
    for topic_id in sorted(owned):
        epochs = owned[topic_id]
        numbers = tuple(sorted(epochs))
        stored.append(OwnedPartitions(topic_id, numbers, tuple(epochs[n] for n in numbers)))
    return tuple(stored)


def _partitions_from(stored: tuple[OwnedPartitions, ...], member_epoch: int) -> Epochs:
    """Without epochs (before Kafka 4.3) the member's own stands for all of its partitions."""
    owned: dict[bytes, dict[int, int]] = {}
    for topic_id, partitions, epochs in stored:
        if epochs is None or len(epochs) != len(partitions):
            owned[topic_id] = dict.fromkeys(partitions, max(member_epoch, 0))
        else:
            owned[topic_id] = dict(zip(partitions, epochs, strict=True))
    return owned
