"""The classic groups of one shard: what members ask, what is read back, and what timers bring."""

from collections.abc import Callable, Sequence

from barnabas.config.group_settings import GroupSettings
from barnabas.coordinator.group.asks import (
    Described,
    Heartbeat,
    Join,
    Joined,
    Leaver,
    Left,
    Sync,
    Synced,
)
from barnabas.coordinator.group.classic import rebalance
from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.classic.joining import Joining, because, forget_pending
from barnabas.coordinator.group.classic.member import SESSION, Member
from barnabas.coordinator.group.classic.rebalance import JOIN, PENDING_MEMBER, PENDING_SYNC
from barnabas.coordinator.group.classic.state import State
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.runtime.turn import PARKED, Parked, TimerKey, Turn, Waiter
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.limits import GROUP_METADATA_BYTES_MAX
from barnabas.ports.entropy import Entropy
from barnabas.wire.stored import GroupMetadata, GroupMetadataValue, Stored


class ClassicGroups:
    """`groups` holds groups of every kind; only the classic ones are touched here."""

    def __init__(
        self,
        groups: dict[str, Group],
        settings: Callable[[], GroupSettings],
        entropy: Entropy,
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._entropy = entropy

    # --- asking --------------------------------------------------------------------------------

    def join(self, turn: Turn[Stored], waiter: Waiter, ask: Join) -> Joined | Parked:
        """JoinGroup: answered at once, or when the next generation begins."""
        _check_name(ask.group_id)
        settings = self._settings()
        if not (
            settings.session_timeout_min_ms
            <= ask.session_timeout_ms
            <= settings.session_timeout_max_ms
        ):
            raise KafkaError(ErrorCode.invalid_session_timeout)
        group = self._groups.get(ask.group_id)
        if not isinstance(group, ClassicGroup):
            group = self._create(turn, ask, group)
        return Joining(turn, waiter, ask, group, settings).decide(self._entropy)

    def _create(self, turn: Turn[Stored], ask: Join, other: Group | None) -> ClassicGroup:
        """A new group, also in the place of an empty one of another kind."""
        if other is not None and not other.is_empty:
            raise KafkaError(
                ErrorCode.inconsistent_group_protocol,
                f"Group {ask.group_id} has members of the consumer protocol, and a group moves "
                "between the protocols only while it is empty: stop its members first.",
            )
        if ask.member_id:
            raise KafkaError(ErrorCode.unknown_member_id)
        if not (ask.protocol_type and ask.protocols):
            raise KafkaError(ErrorCode.inconsistent_group_protocol)
        if other is not None:
            for tombstone in other.tombstones():
                turn.write(tombstone)
            self._groups.pop(ask.group_id, None)
        value = GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=turn.now_ms,
        )
        turn.write(GroupMetadata(ask.group_id, value))
        return self.simple(ask.group_id)

    def sync(self, turn: Turn[Stored], waiter: Waiter, ask: Sync) -> Synced | Parked:
        """SyncGroup: answered when the leader has assigned."""
        _check_name(ask.group_id)
        group = self._joined(ask.group_id)
        member = group.roster.validated(ask.member_id, ask.instance_id)
        _check_generation(group, ask.generation)
        _check_protocol(ask.protocol_type, group.protocol_type)
        _check_protocol(ask.protocol_name, group.protocol_name)
        if group.state is State.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.rebalance_in_progress)
        if sum(map(len, ask.assignments.values())) > GROUP_METADATA_BYTES_MAX:
            # What Kafka makes of a record that its log does not take.
            raise KafkaError(ErrorCode.unknown_server_error, "The assignments are too large.")
        rebalance.has_synced(turn, group, member)
        if group.state is State.STABLE:
            return rebalance.synced(group, member)
        member.park_sync(turn, waiter)
        if group.roster.leader == member.member_id:
            rebalance.assign(turn, group, ask.assignments)
        return PARKED

    def heartbeat(self, turn: Turn[Stored], ask: Heartbeat) -> None:
        """Heartbeat. It is a sign of life also when it is told of a rebalance."""
        _check_name(ask.group_id)
        group = self._joined(ask.group_id)
        member = group.roster.validated(ask.member_id, ask.instance_id)
        _check_generation(group, ask.generation)
        member.touch(turn.monotonic_ms)
        if group.state is State.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.rebalance_in_progress)

    def leave(self, turn: Turn[Stored], group_id: str, leavers: Sequence[Leaver]) -> list[Left]:
        """LeaveGroup, each leaver with its own answer."""
        _check_name(group_id)
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            return [_left(leaver, ErrorCode.unknown_member_id) for leaver in leavers]
        gone: dict[str, str | None] = {}
        answers = [self._leave(turn, group, leaver, gone) for leaver in leavers]
        if gone:
            reasons = {reason for reason in gone.values() if reason}
            reason = because(
                f"{rebalance.some(gone)} left", reasons.pop() if len(reasons) == 1 else None
            )
            rebalance.start_or_go_on(turn, group, self._settings(), reason)
        elif group.state is State.PREPARING_REBALANCE:
            rebalance.complete_if_all_joined(turn, group)
        return answers

    def _leave(
        self,
        turn: Turn[Stored],
        group: ClassicGroup,
        leaver: Leaver,
        gone: dict[str, str | None],
    ) -> Left:
        roster = group.roster
        if leaver.member_id in roster.pending:
            forget_pending(turn, group, leaver.member_id)
            return _left(leaver)
        try:
            member = _leaving(group, leaver)
        except KafkaError as error:
            return _left(leaver, error.code)
        rebalance.drop(turn, group, member)
        gone[member.member_id] = leaver.reason
        return _left(leaver)

    def describe(self, group_id: str) -> Described:
        """DescribeGroups of one group; GROUP_ID_NOT_FOUND if there is none of this kind."""
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group.described()
        what = "not found" if group is None else "is not a classic group"
        raise KafkaError(ErrorCode.group_id_not_found, f"Group {group_id} {what}.")

    def simple(self, group_id: str) -> ClassicGroup:
        """The group, which is made if there is none: offsets may be committed without members."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = ClassicGroup(group_id)
        elif not isinstance(group, ClassicGroup):
            raise KafkaError(
                ErrorCode.group_id_not_found, f"Group {group_id} is not a classic group."
            )
        return group

    def _joined(self, group_id: str) -> ClassicGroup:
        """The group of somebody who says it is a member."""
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.unknown_member_id, f"Group {group_id} not found.")
        return group

    # --- what is stored ------------------------------------------------------------------------

    def apply(self, record: GroupMetadata) -> None:
        """Take over a record; one without a value removes the group."""
        group = self._groups.get(record.group)
        if record.value is not None:
            if not isinstance(group, ClassicGroup):
                group = self._groups[record.group] = ClassicGroup(record.group)
            group.adopt(record.value)
        elif isinstance(group, ClassicGroup):
            del self._groups[record.group]
            group.state = State.DEAD

    def loaded(self, turn: Turn[Stored]) -> None:
        """Members get their whole session to find us. A rebalance that was under way is not
        known: members of the generation before are asked to join again when one of them does."""
        settings = self._settings()
        for group in tuple(self._groups.values()):
            if not isinstance(group, ClassicGroup):
                continue
            for member in group.roster:
                member.watch(turn, group.group_id)
            size = len(group.roster)
            if size > settings.max_size:
                reason = f"{size} members are more than the {settings.max_size} that are allowed"
                rebalance.prepare(turn, group, settings, reason)

    # --- what time brings ----------------------------------------------------------------------

    def fire(self, turn: Turn[Stored], key: TimerKey) -> None:
        """A timer came; for a group or member that is gone it means nothing."""
        group = self._groups.get(key.group)
        if not isinstance(group, ClassicGroup):
            return
        if key.kind == SESSION:
            self._session_timer(turn, group, key.member)
        elif key.kind == JOIN:
            rebalance.join_time_is_over(turn, group, self._settings())
        elif key.kind == PENDING_SYNC:
            rebalance.sync_time_is_over(turn, group, self._settings())
        elif key.kind == PENDING_MEMBER and key.member in group.roster.pending:
            group.roster.pending.discard(key.member)
            self._complete_if_that_was_all(turn, group)

    def _session_timer(self, turn: Turn[Stored], group: ClassicGroup, member_id: str) -> None:
        member = group.roster.members.get(member_id)
        if member is None or not member.is_overdue(turn, group.group_id):
            return
        timeout_s = member.session_timeout_ms / 1000
        rebalance.drop(turn, group, member)
        if group.state is State.PREPARING_REBALANCE:
            self._complete_if_that_was_all(turn, group)
            return
        reason = (
            f"member {member_id} was silent for longer than its session timeout of {timeout_s:g} s"
        )
        rebalance.prepare(turn, group, self._settings(), reason)

    def _complete_if_that_was_all(self, turn: Turn[Stored], group: ClassicGroup) -> None:
        """Somebody was given up. If nobody else is awaited there is no use in waiting longer, not
        even for the delay of a group that was empty."""
        if group.state is State.PREPARING_REBALANCE and group.roster.all_joining:
            rebalance.complete(turn, group)


def _check_name(group_id: str) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.invalid_group_id)


def _check_generation(group: ClassicGroup, generation: int) -> None:
    if generation != group.generation:
        raise KafkaError(ErrorCode.illegal_generation)


def _check_protocol(asked: str | None, current: str | None) -> None:
    """Askers of older versions name none."""
    if asked is not None and current is not None and asked != current:
        raise KafkaError(ErrorCode.inconsistent_group_protocol)


def _leaving(group: ClassicGroup, leaver: Leaver) -> Member:
    """The member that leaves. An administrator names static members by their instance alone."""
    if leaver.member_id or leaver.instance_id is None:
        return group.roster.validated(leaver.member_id, leaver.instance_id)
    member = group.roster.static(leaver.instance_id)
    if member is None:
        raise KafkaError(ErrorCode.unknown_member_id)
    return member


def _left(leaver: Leaver, error: ErrorCode = ErrorCode.none) -> Left:
    return Left(member_id=leaver.member_id, instance_id=leaver.instance_id, error=error)
