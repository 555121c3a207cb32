"""JoinGroup: newcomers, members that come back, and static members under a new id."""

from barnabas.config.group_settings import GroupSettings
from barnabas.coordinator.group.asks import Join, Joined
from barnabas.coordinator.group.classic import rebalance
from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.classic.member import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    Member,
    distinct,
)
from barnabas.coordinator.group.classic.rebalance import PENDING_MEMBER
from barnabas.coordinator.group.classic.state import State
from barnabas.coordinator.runtime.turn import PARKED, Parked, TimerKey, Turn, Waiter
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.limits import GROUP_METADATA_BYTES_MAX, GROUP_PENDING_MEMBERS_MAX
from barnabas.ports.entropy import Entropy
from barnabas.wire.stored import Stored

_ID_PREFIX_MAX = 1_000
"""Characters of a client's or an instance's id that begin a member id: any more could make it
longer than the protocol can carry."""

_REASON_MAX = 255
"""Characters of a client's reason that are kept; Kafka's clients send no more."""


def because(text: str, reason: str | None) -> str:
    """What happened, with the client's own words if it had any."""
    return f"{text}: {reason[:_REASON_MAX]}" if reason else text


class Joining:
    """One JoinGroup to one group that is there."""

    def __init__(
        self,
        turn: Turn[Stored],
        waiter: Waiter,
        ask: Join,
        group: ClassicGroup,
        settings: GroupSettings,
    ) -> None:
        self.turn = turn
        self.waiter = waiter
        self.ask = ask
        self.group = group
        self.settings = settings

    def decide(self, entropy: Entropy) -> Joined | Parked:
        """The answer; KafkaError if there is no place for the asker."""
        ask, group = self.ask, self.group
        self._check_metadata()
        if not self._has_room():
            return self._turn_away()
        if not group.supports(ask.protocol_type, distinct(ask.protocols)):
            raise KafkaError(ErrorCode.inconsistent_group_protocol)
        if ask.member_id:
            return self._known()
        prefix = ask.client.id if ask.instance_id is None else ask.instance_id
        return self._newcomer(f"{prefix[:_ID_PREFIX_MAX]}-{entropy.uuid()}")

    # --- size ----------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        """Whether the asker is in already, or fits in."""
        roster, size_max = self.group.roster, self.settings.max_size
        member = roster.members.get(self.ask.member_id)
        if member is None and not self.ask.member_id and self.ask.instance_id is not None:
            member = roster.static(self.ask.instance_id)
        if self.group.state is State.EMPTY:
            return True
        if self.group.state is State.PREPARING_REBALANCE:
            # Whoever joins first stays: so a group that has grown too large becomes smaller.
            return (member is not None and member.join_waiter is not None) or (
                roster.joining < size_max
            )
        return member is not None or len(roster) < size_max

    def _check_metadata(self) -> None:
        """Whether what the asker says of itself is still within bounds, with all the others'."""
        roster = self.group.roster
        member = roster.members.get(self.ask.member_id)
        said_before = sum(map(len, member.protocols.values())) if member is not None else 0
        said = sum(len(metadata) for _, metadata in self.ask.protocols)
        if roster.metadata_bytes - said_before + said > GROUP_METADATA_BYTES_MAX:
            raise KafkaError(
                ErrorCode.group_max_size_reached,
                f"The metadata of all members may not exceed {GROUP_METADATA_BYTES_MAX} bytes.",
            )

    def _turn_away(self) -> Joined:
        """There is no room: one that had a place, or the promise of one, loses it."""
        roster, member_id = self.group.roster, self.ask.member_id
        if member_id in roster.pending:
            forget_pending(self.turn, self.group, member_id)
        elif member_id in roster.members:
            member = roster.validated(member_id, self.ask.instance_id)
            rebalance.drop(self.turn, self.group, member)
        else:
            raise KafkaError(ErrorCode.group_max_size_reached)
        if self.group.state is State.PREPARING_REBALANCE:
            rebalance.complete_if_all_joined(self.turn, self.group)
        return Joined(member_id="", error=ErrorCode.group_max_size_reached)

    # --- newcomers -----------------------------------------------------------------------------

    def _newcomer(self, member_id: str) -> Joined | Parked:
        ask, roster = self.ask, self.group.roster
        if ask.instance_id is not None:
            old = roster.static(ask.instance_id)
            return self._admit(member_id) if old is None else self._replace(old, member_id)
        if not ask.needs_member_id:
            return self._admit(member_id)
        if len(roster.pending) >= GROUP_PENDING_MEMBERS_MAX:
            raise KafkaError(
                ErrorCode.group_max_size_reached,
                f"{GROUP_PENDING_MEMBERS_MAX} members were given ids and have not come back yet.",
            )
        # It comes back with the id, so one that never hears our answer leaves no member behind.
        roster.pending.add(member_id)
        timer = TimerKey(PENDING_MEMBER, self.group.group_id, member_id)
        self.turn.schedule(timer, ask.session_timeout_ms)
        return Joined(member_id=member_id, error=ErrorCode.member_id_required)

    def _admit(self, member_id: str) -> Parked:
        turn, group = self.turn, self.group
        member = Member.joining(member_id, self.ask)
        if group.initial_delay is not None:
            group.initial_delay.newcomer = True
        group.admit(member, self.ask.protocol_type)
        member.watch(turn, group.group_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        return self._park(member, because(f"member {member_id} joined", self.ask.reason))

    def _replace(self, old: Member, member_id: str) -> Joined | Parked:
        """A static member restarted: nobody else need notice, if the protocol stays the same."""
        turn, group, ask = self.turn, self.group, self.ask
        leader = group.roster.leader or ""
        old.unwatch(turn, group.group_id)
        member = group.roster.replace(turn, old, member_id)
        group.roster.update(member, ask)
        member.watch(turn, group.group_id)
        if group.state is not State.STABLE or group.roster.vote() != group.protocol_name:
            text = f"static member {ask.instance_id} came back as {member_id}"
            return self._park(member, because(text, ask.reason))
        assignments = {one.member_id: one.assignment for one in group.roster}
        turn.write(group.assigned(assignments, turn.now_ms))
        if ask.can_skip_assignment:
            return group.joined(member, skip_assignment=True)
        # It would assign if it knew that it leads; so it is told of its former self.
        return Joined(
            member_id=member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=leader,
        )

    # --- those with an id ----------------------------------------------------------------------

    def _known(self) -> Joined | Parked:
        ask, group = self.ask, self.group
        if ask.member_id in group.roster.pending and ask.instance_id is None:
            self.turn.cancel(TimerKey(PENDING_MEMBER, group.group_id, ask.member_id))
            return self._admit(ask.member_id)
        member = group.roster.validated(ask.member_id, ask.instance_id)
        changed = not member.offers(ask.protocols)
        leads = group.roster.leader == member.member_id
        if group.state is State.PREPARING_REBALANCE:
            text = f"member {member.member_id} joined again"
        elif changed:
            text = f"member {member.member_id} changed its protocols or metadata"
        elif leads and group.state is State.STABLE:
            # The leader sees more than we do, for instance topics that its group reads.
            text = f"leader {member.member_id} joined again"
        else:
            # It did not get our answer, or wants to hear it again.
            return group.joined(member)
        group.roster.update(member, ask)
        return self._park(member, because(text, ask.reason))

    def _park(self, member: Member, reason: str) -> Parked:
        self.group.roster.park_join(self.turn, member, self.waiter)
        rebalance.start_or_go_on(self.turn, self.group, self.settings, reason)
        return PARKED


def forget_pending(turn: Turn[Stored], group: ClassicGroup, member_id: str) -> None:
    """An id that was given is of no use any more."""
    group.roster.pending.discard(member_id)
    turn.cancel(TimerKey(PENDING_MEMBER, group.group_id, member_id))
