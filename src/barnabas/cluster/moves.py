"""Replicas of a partition are exchanged for others (KIP-455): pure steps from a state to the next.

A move begins by making those who shall be replicas followers, beside those who are: nobody's word
counts less than before. When every replica that shall be one is in sync, those who shall not go,
in one write, and if the leader is among them another takes over in the same write. Until then the
move can be taken back, or aimed elsewhere, and the replicas are what they were.

What holds of every step besides what `elections` says: whoever is in `replicas` is in the target,
in `original`, or both. No step leaves fewer than `min.insync.replicas` who have all that is
committed, if there were more: one of them may just have died, and nobody knows it yet. The leader
epoch rises with each step that takes a replica away: what that one has told of its log until then,
and is still under way, must not count if it comes back.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from barnabas.cluster.elections import able, needed, trusted
from barnabas.cluster.image import NO_LEADER, PartitionState
from barnabas.model.errors import ErrorCode, KafkaError


def begun(
    state: PartitionState, target: Sequence[int], staying: Collection[int], min_isr: int
) -> PartitionState | None:
    """The state in which the partition is on its way to other replicas, or there already; None: it
    is as it stays. `staying` are the brokers who are there, and not about to leave.

    A move that is under way is replaced: whoever it had begun to add, and is not wanted now, goes
    at once. INVALID_REPLICA_ASSIGNMENT: too few others have all that is committed.
    """
    original = state.settled
    removing = tuple(each for each in original if each not in target)
    adding = tuple(each for each in target if each not in original)
    is_moving = bool(adding or removing)
    moving = replace(
        trusted(state, min_isr),
        replicas=(*target, *removing),
        adding=adding,
        removing=removing,
        original=original if is_moving else (),
    )
    _check_enough_stay(moving, min_isr)
    placed = _with_members(moving, staying)
    return _step(state, _arrived(placed, staying) or placed)


def taken_back(
    state: PartitionState, staying: Collection[int], min_isr: int
) -> PartitionState | None:
    """The state with the replicas that the partition had before it was moved, in their order; None:
    it is not being moved. INVALID_REPLICA_ASSIGNMENT: as in `begun`."""
    return begun(state, state.original, staying, min_isr) if state.is_moving else None


def completed(state: PartitionState, staying: Collection[int]) -> PartitionState | None:
    """The state with the replicas it was to get, and no others; None: not all of them are in sync,
    or it is not being moved."""
    arrived = _arrived(state, staying)
    return None if arrived is None else _step(state, arrived)


def _arrived(state: PartitionState, staying: Collection[int]) -> PartitionState | None:
    target = state.target
    if not state.is_moving or not set(target) <= set(state.isr):
        return None
    leader: int | None = state.leader
    if leader not in target:
        leader = next((each for each in target if each in staying and each in able(state)), None)
    if leader is None or leader == NO_LEADER:
        return None  # Those it waits for were in sync, and are not there at the moment.
    return replace(
        state,
        leader=leader,
        replicas=target,
        isr=target,
        eligible=(),
        emptied=(),
        adding=(),
        removing=(),
        original=(),
    )


def _check_enough_stay(state: PartitionState, min_isr: int) -> None:
    """Refuse to let replicas go that are counted on, where too few others have all that is
    committed. (Where the ISR is too small, those who are eligible have it as well.)"""
    counted_on = {*state.isr, *state.eligible}
    going = counted_on - set(state.replicas)
    left = len(counted_on) - len(going)
    if going and left < needed(state, min_isr):
        names = ", ".join(map(str, sorted(going)))
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            f"Without the replicas that are being added ({names}) there would be only {left} that "
            f"have all that is committed, and min.insync.replicas asks for "
            f"{needed(state, min_isr)}.",
        )


def _with_members(state: PartitionState, staying: Collection[int]) -> PartitionState:
    """The state with nobody in sync, eligible or leading who is no replica of it."""
    isr = tuple(each for each in state.replicas if each in state.isr)
    eligible = tuple(each for each in state.replicas if each in state.eligible)
    if not isr:
        isr, eligible = eligible, ()
    after = replace(state, isr=isr, eligible=eligible)
    if state.leader in isr:
        return after
    leader = next((each for each in able(after) if each in staying), NO_LEADER)
    left = () if leader != NO_LEADER else [each for each in state.replicas if each in state.emptied]
    return replace(after, leader=leader, emptied=tuple(left))


def _step(before: PartitionState, after: PartitionState) -> PartitionState | None:
    """One write, whatever happened in it."""
    if after == before:
        return None
    is_anew = after.leader != before.leader or not set(before.replicas) <= set(after.replicas)
    return replace(
        after,
        leader_epoch=before.leader_epoch + is_anew,
        partition_epoch=before.partition_epoch + 1,
    )
