"""Who leads a partition and who counts as in sync: pure steps from one state to the next.

What holds of every state: the leader is in the ISR or there is none; the ISR is never empty and
holds only replicas; `eligible` holds replicas outside the ISR, and only while the ISR is smaller
than `min.insync.replicas` (then nothing is committed, so those who left still have all that was);
`emptied` holds replicas that have lost everything, and only while there is no leader.
The leader epoch rises with every change of the leader, when a leader begins anew after a restart,
and when a replica is quarantined; never otherwise. Each step is one write, so the partition epoch
rises by one.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from barnabas.cluster.image import NO_LEADER, PartitionState


def with_isr(state: PartitionState, isr: Collection[int], min_isr: int) -> PartitionState:
    """The state with other in-sync replicas, and those who may lead besides them (KIP-966)."""
    members = _in_order(state, isr)
    left = (*state.eligible, *state.isr) if len(members) < needed(state, min_isr) else ()
    return replace(
        state,
        isr=members,
        eligible=_in_order(state, (each for each in left if each not in members)),
        emptied=(),
        partition_epoch=state.partition_epoch + 1,
    )


def elect(
    state: PartitionState,
    alive: Collection[int],
    *,
    unclean: bool,
    min_isr: int,
    leaving: Collection[int] = (),
) -> PartitionState | None:
    """The state after brokers came, went or announced that they leave; None: it stays as it is.

    A leader that lives and stays is kept. Dead and leaving brokers go out of the ISR as long as
    somebody is left in it; where nobody can lead, it is kept as it was, for whoever returns first.
    Who has lost everything does not lead, also if it is `unclean`, as long as others have not.
    """
    known = trusted(state, min_isr)
    leader = _next_leader(known, alive, leaving)
    if leader is None and unclean:
        leader = _first(_least_lost_first(state), alive, leaving)
        if leader is not None:
            return _new_leader(replace(state, isr=(leader,), eligible=(), emptied=()), leader)
    if leader is None:
        return None if state.leader == NO_LEADER else _new_leader(known, NO_LEADER)
    after = with_isr(known, _staying(known, leader, alive, leaving), min_isr)
    if leader == state.leader:
        # No election: followers that are gone are left out, and the epoch stays.
        same = (set(after.isr), after.eligible) == (set(state.isr), state.eligible)
        return None if same else after
    return replace(after, leader=leader, leader_epoch=state.leader_epoch + 1)


def prefer_first(
    state: PartitionState, alive: Collection[int], *, min_isr: int, leaving: Collection[int] = ()
) -> PartitionState | None:
    """The state with its first replica as leader; None: it leads already, or can not."""
    first = state.replicas[0]
    usable = first in able(state) and first in alive and first not in leaving
    if not usable or state.leader == first:
        return None
    after = with_isr(state, _staying(state, first, alive, leaving), min_isr)
    return replace(after, leader=first, leader_epoch=state.leader_epoch + 1)


def without(state: PartitionState, broker: int, min_isr: int) -> PartitionState | None:
    """The state once `broker` may have lost records that it had: it counts as in sync no more,
    and waits to be elected by nobody, unless no other replica is any better.

    None: it did not count anyway.
    """
    if broker not in state.isr and broker not in state.eligible:
        return None
    eligible = tuple(each for each in state.eligible if each != broker)
    others = tuple(each for each in state.isr if each != broker)
    if state.isr == (broker,) and not eligible:
        return begun_anew(state, broker)
    if not others:
        # Those who were eligible have everything that was committed, and it may have not.
        others, eligible = eligible, ()
    remaining = replace(state, isr=others, eligible=eligible)
    if len(others) >= needed(state, min_isr):
        remaining = replace(remaining, eligible=())
    if state.leader == broker:
        return _new_leader(remaining, NO_LEADER)
    return replace(remaining, partition_epoch=state.partition_epoch + 1)


def quarantined(
    state: PartitionState, broker: int, min_isr: int, trusted: Collection[int]
) -> PartitionState | None:
    """The state once the log of `broker` is known to be damaged and is to be copied anew: it does
    not count, and does not lead.

    None: none of the `trusted` brokers has all that is committed, so nobody could take over from
    it. The epoch rises also where another leads and goes on to: what `broker` has told of its log
    until now, and is still under way, is of an older one, and must not bring it back in sync.
    """
    others = {*state.isr, *state.eligible} - {broker}
    if others.isdisjoint(trusted):
        return None
    after = without(state, broker, min_isr)
    if after is None:
        after = replace(state, partition_epoch=state.partition_epoch + 1)
    return replace(after, leader_epoch=state.leader_epoch + 1)


def emptied(state: PartitionState, broker: int, min_isr: int) -> PartitionState | None:
    """The state once nothing is left of the log of `broker`: it counts no more, and does not lead.

    Where nobody else has all that is committed, nobody leads, and it stays in the ISR, which tells
    that nobody else does: the others keep what they have, until it has its log again (`found`), or
    one of them is elected all the same. None: it did not count, and there is a leader whom it
    follows; or it is noted already; or there are no others, so that there is nothing to keep.
    """
    if broker in state.emptied or len(state.replicas) == 1:
        return None
    if broker not in state.isr and broker not in state.eligible:
        after = replace(state, partition_epoch=state.partition_epoch + 1)
    else:
        after = quarantined(state, broker, min_isr, state.replicas) or _new_leader(state, NO_LEADER)
    if after.leader == NO_LEADER:
        return replace(after, emptied=_in_order(state, (*state.emptied, broker)))
    return after if after.leader_epoch > state.leader_epoch else None


def found(state: PartitionState, broker: int) -> PartitionState | None:
    """The state once a log of `broker` that was gone is there again; None: it was not missed."""
    if broker not in state.emptied:
        return None
    return replace(
        state,
        emptied=tuple(each for each in state.emptied if each != broker),
        partition_epoch=state.partition_epoch + 1,
    )


def begun_anew(state: PartitionState, broker: int) -> PartitionState | None:
    """The state in which a restarted `broker` leads what it led before; None: it leads nothing.

    The new epoch tells clients that the tail they saw may be gone (KIP-320), and makes whatever
    the former life of the broker had sent, and is still under way, too late.
    """
    return _new_leader(state, broker) if state.leader == broker else None


def trusted(state: PartitionState, min_isr: int) -> PartitionState:
    """Without those who are eligible no more: `min.insync.replicas` was lowered, and the leader
    may have committed without them since. (Where there is no leader, nobody did.)"""
    enough = len(state.isr) >= needed(state, min_isr)
    return replace(state, eligible=()) if enough and state.leader != NO_LEADER else state


def able(state: PartitionState) -> tuple[int, ...]:
    """The members of the ISR who may lead."""
    return tuple(each for each in state.isr if each not in state.emptied)


def needed(state: PartitionState, min_isr: int) -> int:
    """More in-sync replicas than there are replicas can not be asked for. (Those that are being
    added are none yet: nobody must wait for them before they are there.)"""
    return min(min_isr, len(state.settled))


def _new_leader(state: PartitionState, leader: int) -> PartitionState:
    return replace(
        state,
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        partition_epoch=state.partition_epoch + 1,
    )


def _next_leader(
    state: PartitionState, alive: Collection[int], leaving: Collection[int]
) -> int | None:
    """Who can lead without loss: who does, then who is in sync, then who is eligible."""
    in_sync = [each for each in _in_order(state, able(state)) if each in alive]
    staying = [each for each in in_sync if each not in leaving]
    if state.leader in staying:
        return state.leader
    if staying:
        return staying[0]
    if state.leader in in_sync:
        return state.leader
    return in_sync[0] if in_sync else _first(state.eligible, alive, leaving)


def _first(
    candidates: Iterable[int], alive: Collection[int], leaving: Collection[int]
) -> int | None:
    present = [each for each in candidates if each in alive]
    staying = [each for each in present if each not in leaving]
    return next(iter(staying or present), None)


def _least_lost_first(state: PartitionState) -> list[int]:
    """Who is only being added may have next to nothing. Who is known to have nothing is waited out,
    unless nobody has anything."""
    left = [each for each in state.replicas if each not in state.emptied]
    return sorted(left or state.replicas, key=lambda each: each in state.adding)


def _staying(
    state: PartitionState, leader: int, alive: Collection[int], leaving: Collection[int]
) -> list[int]:
    stay = [each for each in state.isr if each in alive and each not in leaving]
    return stay if leader in stay else [leader, *stay]


def _in_order(state: PartitionState, members: Iterable[int]) -> tuple[int, ...]:
    """As the replicas are listed, so that equal sets are equal tuples."""
    chosen = frozenset(members)
    return tuple(each for each in state.replicas if each in chosen)
