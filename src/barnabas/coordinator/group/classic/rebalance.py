"""From one generation to the next: members are awaited, join, and are assigned by their leader."""

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.config.group_settings import GroupSettings
from barnabas.coordinator.group.asks import LastRebalance, Synced
from barnabas.coordinator.group.classic.group import ClassicGroup, InitialDelay
from barnabas.coordinator.group.classic.member import Member
from barnabas.coordinator.group.classic.state import State
from barnabas.coordinator.runtime.turn import TimerKey, Turn
from barnabas.model.errors import ErrorCode
from barnabas.wire.stored import Stored

JOIN: Final = "classic-join"
PENDING_MEMBER: Final = "classic-pending-member"
PENDING_SYNC: Final = "classic-pending-sync"

_JOIN_AGAIN_MS_MIN: Final = 1_000
"""Static members that do not rejoin are waited for again and again until their sessions end; a
rebalance timeout of nothing must not make that a busy loop."""

_NAMED_MAX: Final = 3
"""Of many members that leave at once, so many are named as the reason."""


def some(member_ids: Iterable[str]) -> str:
    """Members, for a person to read."""
    named = list(member_ids)
    text = ("member " if len(named) == 1 else "members ") + ", ".join(named[:_NAMED_MAX])
    more = len(named) - _NAMED_MAX
    return f"{text} and {more} more" if more > 0 else text


def start_or_go_on(
    turn: Turn[Stored], group: ClassicGroup, settings: GroupSettings, reason: str
) -> None:
    """Somebody came, changed or went: begin to rebalance, or see if that was the last one."""
    if group.state is State.PREPARING_REBALANCE:
        complete_if_all_joined(turn, group)
    else:
        prepare(turn, group, settings, reason)


def prepare(turn: Turn[Stored], group: ClassicGroup, settings: GroupSettings, reason: str) -> None:
    """Begin to wait for every member's JoinGroup."""
    if group.state is State.COMPLETING_REBALANCE:
        for member in group.roster:
            member.assignment = b""
            if member.sync_waiter is not None:
                member.refuse_sync(turn, ErrorCode.rebalance_in_progress)
                member.watch(turn, group.group_id)
    group.roster.unsynced.clear()
    turn.cancel(TimerKey(PENDING_SYNC, group.group_id))
    group.last_rebalance = LastRebalance(reason=reason, at_ms=turn.now_ms)
    was_empty = group.state is State.EMPTY
    group.move(State.PREPARING_REBALANCE, turn.now_ms)
    if was_empty:
        delay_ms = settings.initial_rebalance_delay_ms
        remaining_ms = max(group.roster.rebalance_timeout_ms() - delay_ms, 0)
        group.initial_delay = InitialDelay(delay_ms, remaining_ms)
        turn.schedule(TimerKey(JOIN, group.group_id), delay_ms)
    elif group.roster.all_joining:
        complete(turn, group)
    else:
        _await_joins(turn, group)


def complete_if_all_joined(turn: Turn[Stored], group: ClassicGroup) -> None:
    """Go on unless somebody is awaited. A group that was empty always waits its delay."""
    if group.initial_delay is None and group.roster.all_joining:
        complete(turn, group)


def join_time_is_over(turn: Turn[Stored], group: ClassicGroup, settings: GroupSettings) -> None:
    """The timer of the joins came."""
    if group.state is not State.PREPARING_REBALANCE:
        return
    initial = group.initial_delay
    if initial is None or not initial.newcomer or not initial.remaining_ms:
        complete(turn, group)
        return
    # Where one more came there may come others: a rebalance for each of them would take longer.
    delay_ms = min(settings.initial_rebalance_delay_ms, initial.remaining_ms)
    group.initial_delay = InitialDelay(delay_ms, max(initial.remaining_ms - initial.delay_ms, 0))
    turn.schedule(TimerKey(JOIN, group.group_id), delay_ms)


def complete(turn: Turn[Stored], group: ClassicGroup) -> None:
    """Go on with those who joined, and with static members, who may be restarting."""
    turn.cancel(TimerKey(JOIN, group.group_id))
    roster = group.roster
    missing = [one for one in roster if one.join_waiter is None and one.instance_id is None]
    for member in missing:
        drop(turn, group, member)
    if not roster.members:
        group.initial_delay = None
        turn.write(group.emptied(turn.now_ms))
        return
    if not roster.elect():
        _await_joins(turn, group, _JOIN_AGAIN_MS_MIN)
        return
    group.initial_delay = None
    group.begin_generation(turn.now_ms)
    for member in roster:
        member.watch(turn, group.group_id)
        member.is_new = False
        waiter = roster.take_join(member)
        if waiter is not None:
            turn.reply(waiter, group.joined(member))
    turn.schedule(TimerKey(PENDING_SYNC, group.group_id), roster.rebalance_timeout_ms())


def _await_joins(turn: Turn[Stored], group: ClassicGroup, at_least_ms: int = 0) -> None:
    delay_ms = max(group.roster.rebalance_timeout_ms(), at_least_ms)
    turn.schedule(TimerKey(JOIN, group.group_id), delay_ms)


def drop(turn: Turn[Stored], group: ClassicGroup, member: Member) -> None:
    """Somebody is no member any more; what it waits for is answered."""
    group.roster.remove(turn, member, ErrorCode.unknown_member_id)
    member.unwatch(turn, group.group_id)


# --- assigning -----------------------------------------------------------------------------------


def has_synced(turn: Turn[Stored], group: ClassicGroup, member: Member) -> None:
    """A member asked for its assignment in time."""
    group.roster.unsynced.discard(member.member_id)
    if not group.roster.unsynced:
        turn.cancel(TimerKey(PENDING_SYNC, group.group_id))


def assign(turn: Turn[Stored], group: ClassicGroup, assignments: Mapping[str, bytes]) -> None:
    """The leader's word: store it, and answer all who wait for it."""
    turn.write(group.assigned(assignments, turn.now_ms))
    for member in group.roster:
        waiter, member.sync_waiter = member.sync_waiter, None
        if waiter is not None:
            turn.reply(waiter, synced(group, member))
            # Its silence did not count while it waited.
            member.watch(turn, group.group_id)


def synced(group: ClassicGroup, member: Member) -> Synced:
    """The answer to a member of a stable group."""
    return Synced(
        protocol_type=group.protocol_type or "",
        protocol_name=group.protocol_name or "",
        assignment=member.assignment,
    )


def sync_time_is_over(turn: Turn[Stored], group: ClassicGroup, settings: GroupSettings) -> None:
    """Members that joined and never asked for their assignment hold up the others, or partitions:
    they are no members any more."""
    late = [group.roster.members[member_id] for member_id in sorted(group.roster.unsynced)]
    if not late:
        return
    timeout_s = group.roster.rebalance_timeout_ms() / 1000
    for member in late:
        drop(turn, group, member)
    names = some(member.member_id for member in late)
    reason = f"{names} did not sync within the rebalance timeout of {timeout_s:g} s"
    prepare(turn, group, settings, reason)
