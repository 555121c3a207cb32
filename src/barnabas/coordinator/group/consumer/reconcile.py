"""The next step of one member towards its target assignment.

A member first gives up what it shall not keep; only then it moves to the target's epoch and gets
what others have released. So at no time two members may use one partition.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from barnabas.coordinator.assignors.spec import Partitions
from barnabas.coordinator.group.asks import Assignment
from barnabas.coordinator.group.consumer.member import Epochs, MemberState, Ownership


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is known when a member heartbeats."""

    target_epoch: int
    target: Partitions
    owned: Assignment | None
    """What the member says it owns; None when it says nothing."""
    subscription_changed: bool
    subscribes: Callable[[bytes], bool]
    """Whether the member reads the topic of this id, and the topic exists."""
    free: Callable[[bytes, int], bool]
    """Whether no other member owns this partition."""


def next_ownership(owns: Ownership, step: Step) -> Ownership:
    """What the member owns from now on; the same value when nothing changes."""
    match owns.state:
        case MemberState.STABLE:
            if owns.epoch != step.target_epoch:
                return _towards_target(owns, step)
            return _without_unsubscribed(owns, step) if step.subscription_changed else owns
        case MemberState.UNREVOKED_PARTITIONS:
            if not _still_uses(owns.revoking, step.owned):
                return _towards_target(owns, step)
            return _without_unsubscribed(owns, step) if step.subscription_changed else owns
        case MemberState.UNRELEASED_PARTITIONS:
            return _towards_target(owns, step)
        case MemberState.UNKNOWN:
            # Such a member starts over: it got here only because it owns nothing (`check_epoch`).
            return _towards_target(owns, step)


def _still_uses(revoking: Epochs, owned: Assignment | None) -> bool:
    """Whether the member may still use what it was told to give up. Silence means yes."""
    if owned is None:
        return True
    return any(
        partition in revoking[topic_id]
        for topic_id, partitions in owned.items()
        if topic_id in revoking
        for partition in partitions
    )


def _without_unsubscribed(owns: Ownership, step: Step) -> Ownership:
    """The target is the same, but topics the member no longer reads must go at once."""
    gone = [topic_id for topic_id in owns.assigned if not step.subscribes(topic_id)]
    if not gone:
        return owns
    kept = {each: owns.assigned[each] for each in owns.assigned if step.subscribes(each)}
    revoking: dict[bytes, Mapping[int, int]] = dict(owns.revoking)
    for topic_id in gone:
        revoking[topic_id] = {**revoking.get(topic_id, {}), **owns.assigned[topic_id]}
    if _still_uses(revoking, step.owned):
        state = MemberState.UNREVOKED_PARTITIONS
        return Ownership(owns.epoch, owns.epoch, state, kept, revoking)
    return Ownership(owns.epoch, owns.epoch, owns.state, kept, owns.revoking)


def _towards_target(owns: Ownership, step: Step) -> Ownership:
    kept: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    wanted: dict[bytes, list[int]] = {}
    waits = False
    for topic_id in {**owns.assigned, **step.target}:
        has = owns.assigned.get(topic_id, {})
        target = step.target.get(topic_id, frozenset())
        if not step.subscribes(topic_id):
            target = frozenset()
        for partition, epoch in has.items():
            part = kept if partition in target else revoking
            part.setdefault(topic_id, {})[partition] = epoch
        for partition in target:
            if partition in has:
                continue
            # What it owns itself because it was giving it up needs no other's release.
            if step.free(topic_id, partition):
                wanted.setdefault(topic_id, []).append(partition)
            else:
                waits = True
    if revoking and _still_uses(revoking, step.owned):
        return Ownership(owns.epoch, owns.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    for topic_id, partitions in wanted.items():
        kept.setdefault(topic_id, {}).update(dict.fromkeys(partitions, step.target_epoch))
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return Ownership(step.target_epoch, owns.epoch, state, kept)
