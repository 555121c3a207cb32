"""All consumer groups of one shard: heartbeats in; records, answers and timers out."""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.cluster.image import Image, Topic
from barnabas.config.group_settings import GroupSettings
from barnabas.coordinator.group.asks import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    DescribedConsumerGroup,
    Leaver,
    Left,
)
from barnabas.coordinator.group.consumer.apply import apply
from barnabas.coordinator.group.consumer.checks import (
    check_epoch,
    check_heartbeat,
    check_new_regex,
    check_released,
    check_room,
    known_static_member,
    leaving_member,
)
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import (
    JOINING,
    LEAVING_FOR_A_WHILE,
    NOTHING_TOLD,
    Member,
    MemberState,
    tells_news,
    told_by,
)
from barnabas.coordinator.group.consumer.reconcile import Step, next_ownership
from barnabas.coordinator.group.consumer.regexes import resolve, wants_refresh
from barnabas.coordinator.group.consumer.target import (
    make_target,
    may_assign,
    subscription,
)
from barnabas.coordinator.group.consumer.writes import (
    drop_unused_regex,
    raise_epoch,
    refresh,
    write_gone,
    write_left_for_a_while,
    write_owned,
    write_replaced,
)
from barnabas.coordinator.runtime.turn import TimerKey, Turn
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.entropy import Entropy
from barnabas.wire.stored import (
    ConsumerGroupMember,
    Stored,
)

SESSION: Final = "consumer-session"
REBALANCE: Final = "consumer-rebalance"
REGEX: Final = "consumer-regex"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a heartbeat belongs; found before anything is changed."""

    group: ConsumerGroup
    member_id: str
    member: Member | None
    """The member as it is; None when it is new to the group."""
    leaver: Member | None
    """The static member whose place the new one takes."""


class ConsumerGroups:
    """`groups` holds the groups of every kind, by their ids, and belongs to the shard."""

    def __init__(
        self, groups: dict[str, Any], settings: Callable[[], GroupSettings], entropy: Entropy
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._entropy = entropy
        self._topic_changes = 0

    # --- asked by clients ------------------------------------------------------------------------

    def heartbeat(self, turn: Turn[Stored], ask: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
        """ConsumerGroupHeartbeat: joining, staying, leaving."""
        settings = self._settings()
        check_heartbeat(ask, settings.consumer_assignors)
        if ask.member_epoch < JOINING:
            return self._leave(turn, ask)
        group = self._groups.get(ask.group_id)
        if isinstance(group, ConsumerGroup):
            member = group.members.get(ask.member_id)
            if member is not None and self._is_steady(turn, group, member, ask, settings):
                member.deadline_ms = turn.monotonic_ms + settings.consumer_session_timeout_ms
                return ConsumerHeartbeatAnswer(
                    member_id=member.member_id,
                    member_epoch=member.owns.epoch,
                    heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
                )
        return self._change(turn, ask, settings)

    def describe(self, group_id: str, image: Image) -> DescribedConsumerGroup:
        """ConsumerGroupDescribe; GROUP_ID_NOT_FOUND for what is no consumer group."""
        return self._known(group_id).described(self._settings().consumer_assignors, image)

    # --- told by the runtime ---------------------------------------------------------------------

    def apply(self, record: Stored) -> None:
        """Take over one record of a consumer group."""
        apply(self._groups, record)

    def loaded(self, turn: Turn[Stored]) -> None:
        """Everybody has its whole time again: nobody could be heard while the shard was away."""
        session_ms = self._settings().consumer_session_timeout_ms
        for group in self._consumer_groups():
            for member in group.members.values():
                self._keep_alive(turn, group, member, session_ms)
                if member.owns.state is MemberState.UNREVOKED_PARTITIONS:
                    self._await_revocation(turn, group, member)

    def fire(self, turn: Turn[Stored], key: TimerKey) -> None:
        """A session, a rebalance or a look at expressions is due."""
        group = self._groups.get(key.group)
        if not isinstance(group, ConsumerGroup):
            return
        if key.kind == REGEX:
            self._resolve(turn, group)
            return
        member = group.members.get(key.member)
        if member is None:
            return
        if key.kind == SESSION:
            self._end_session(turn, group, member)
        elif key.kind == REBALANCE:
            self._end_revocation(turn, group, member)

    def topics_changed(self, turn: Turn[Stored], topics: Collection[Topic]) -> None:  # noqa: ARG002
        """Groups that read these topics are balanced by the next heartbeat of a member."""
        self._topic_changes += 1
        self._mark_stale({topic.name: f"topic {topic.name} got partitions" for topic in topics})

    def topics_deleted(self, turn: Turn[Stored], topics: Collection[Topic]) -> None:  # noqa: ARG002
        """Likewise. Expressions forget these topics when they are resolved the next time."""
        self._mark_stale({topic.name: f"topic {topic.name} was deleted" for topic in topics})

    # --- heartbeats that change something --------------------------------------------------------

    def _is_steady(
        self,
        turn: Turn[Stored],
        group: ConsumerGroup,
        member: Member,
        ask: ConsumerHeartbeat,
        settings: GroupSettings,
    ) -> bool:
        """Whether there is nothing to do but to note that the member lives."""
        epoch = group.assignment_epoch
        return (
            ask.member_epoch == epoch
            and member.owns.is_reconciled_to(epoch)
            and group.epoch <= epoch
            and not group.metadata_is_stale
            and not tells_news(member.told, ask)
            and not self._wants_regexes(turn, group, settings)
        )

    def _change(
        self, turn: Turn[Stored], ask: ConsumerHeartbeat, settings: GroupSettings
    ) -> ConsumerHeartbeatAnswer:
        place = self._place(ask, settings)
        known = place.member or place.leaver
        old_told, had = (known.told, known.owns.assigned) if known else (NOTHING_TOLD, {})
        told = told_by(old_told, ask)
        regex = told.subscribed_topic_regex or ""
        if regex and regex not in place.group.regex_users:
            check_new_regex(place.group, regex)
        # From here on nothing is refused.
        group = self._settle(turn, place)
        member_id = place.member_id
        if told != old_told:
            turn.write(ConsumerGroupMember(group.group_id, member_id, told))
        member = group.members[member_id]
        names_changed = told.subscribed_topic_names != old_told.subscribed_topic_names
        regex_changed = regex != (old_told.subscribed_topic_regex or "")
        balance = names_changed
        if regex_changed:
            balance |= self._change_regex(turn, group, old_told.subscribed_topic_regex, regex)
        verb = "changed its subscription" if place.member else "joined"
        if balance:
            raise_epoch(turn, group, f"member {member_id} {verb}")
        elif group.metadata_is_stale:
            refresh(turn, group)
        if self._wants_regexes(turn, group, settings):
            group.regexes_due = True
            turn.schedule(TimerKey(REGEX, group.group_id), 0)
        if group.assignment_epoch < group.epoch and may_assign(group, turn.monotonic_ms):
            make_target(turn, group, group.assignor(settings.consumer_assignors))
        self._reconcile(turn, group, member, ask, names_changed or regex_changed)
        self._keep_alive(turn, group, member, settings.consumer_session_timeout_ms)
        shows = _is_full(ask) or member.owns.assigned != had
        return ConsumerHeartbeatAnswer(
            member_id=member_id,
            member_epoch=member.owns.epoch,
            heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
            assignment=member.assignment if shows else None,
        )

    def _place(self, ask: ConsumerHeartbeat, settings: GroupSettings) -> _Place:
        """Find group and member, or refuse."""
        group = self._group_for(ask)
        check_room(group, ask, settings.consumer_max_size)
        member: Member | None
        if ask.member_epoch != JOINING:
            if ask.instance_id is None:
                member = group.member(ask.member_id)
            else:
                member = known_static_member(group, ask)
            check_epoch(member, ask)
            return _Place(group, ask.member_id, member, None)
        member_id = ask.member_id or self._new_member_id()
        holder = None if ask.instance_id is None else group.static_member(ask.instance_id)
        if holder is not None:
            check_released(holder, ask)
            return _Place(group, member_id, None, holder)
        return _Place(group, member_id, group.members.get(member_id), None)

    def _group_for(self, ask: ConsumerHeartbeat) -> ConsumerGroup:
        """The group that is or will be; an empty classic one makes room for it."""
        group = self._groups.get(ask.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if ask.member_epoch != JOINING:
            raise self._no_consumer_group(ask.group_id, "Consumer group")
        if group is not None and not group.is_empty:
            raise KafkaError(
                ErrorCode.group_id_not_found,
                f"Cannot upgrade classic group {ask.group_id} to consumer group because online "
                "upgrade is disabled.",
            )
        return ConsumerGroup(ask.group_id)

    def _settle(self, turn: Turn[Stored], place: _Place) -> ConsumerGroup:
        """Make room for a new group and for one who takes a static member's place."""
        group = place.group
        there = self._groups.get(group.group_id)
        if there is not group:
            if there is not None:
                for record in tuple(there.tombstones()):
                    turn.write(record)
            self._groups[group.group_id] = group
        if place.leaver is not None:
            turn.cancel(TimerKey(SESSION, group.group_id, place.leaver.member_id))
            write_replaced(turn, group, place.leaver, place.member_id)
        return group

    def _change_regex(
        self, turn: Turn[Stored], group: ConsumerGroup, old: str | None, new: str
    ) -> bool:
        """A member has another expression. Whether the group is to be balanced at once: not
        while it is unknown what the expression stands for."""
        if old:
            drop_unused_regex(turn, group, old)
        return new in group.regexes if new else True

    def _reconcile(
        self,
        turn: Turn[Stored],
        group: ConsumerGroup,
        member: Member,
        ask: ConsumerHeartbeat,
        subscription_changed: bool,
    ) -> None:
        owns, member_id = member.owns, member.member_id
        if not subscription_changed and owns.is_reconciled_to(group.assignment_epoch):
            return
        step = Step(
            target_epoch=group.assignment_epoch,
            target=group.target(member_id),
            owned=ask.owned,
            subscription_changed=subscription_changed,
            subscribes=subscription(group, member, turn.image),
            free=lambda topic_id, number: group.owner(topic_id, number) in (None, member_id),
        )
        then = next_ownership(owns, step)
        if then == owns:
            return
        write_owned(turn, group, member_id, then)
        if then.state is MemberState.UNREVOKED_PARTITIONS:
            self._await_revocation(turn, group, member)
        else:
            self._revoked(turn, group, member)

    # --- leaving ---------------------------------------------------------------------------------

    def _leave(self, turn: Turn[Stored], ask: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
        group = self._known(ask.group_id)
        if ask.instance_id is None:
            member = group.member(ask.member_id)
        else:
            member = known_static_member(group, ask)
        if ask.member_epoch == LEAVING_FOR_A_WHILE:
            write_left_for_a_while(turn, group, member)
            self._revoked(turn, group, member)
        else:
            self._fence(turn, group, f"member {member.member_id} left", member)
        return ConsumerHeartbeatAnswer(
            member_id=ask.member_id, member_epoch=ask.member_epoch, heartbeat_interval_ms=0
        )

    def remove(self, turn: Turn[Stored], group_id: str, leavers: Sequence[Leaver]) -> list[Left]:
        """LeaveGroup: an administrator sends members away."""
        group = self._known(group_id)
        gone: dict[str, Member] = {}
        answers = []
        for leaver in leavers:
            error = ErrorCode.none
            try:
                member = leaving_member(group, leaver)
                gone[member.member_id] = member
            except KafkaError as refusal:
                error = refusal.code
            answers.append(
                Left(member_id=leaver.member_id, instance_id=leaver.instance_id, error=error)
            )
        if gone:
            who = (
                f"member {next(iter(gone))} was" if len(gone) == 1 else f"{len(gone)} members were"
            )
            self._fence(turn, group, f"{who} sent away", *gone.values())
        return answers

    def _fence(
        self, turn: Turn[Stored], group: ConsumerGroup, reason: str, *members: Member
    ) -> None:
        """Remove members, whatever they owned; the others get that by their next heartbeats."""
        for member in members:
            regex = member.regex
            write_gone(turn, group, member.member_id)
            if regex:
                drop_unused_regex(turn, group, regex)
            turn.cancel(TimerKey(SESSION, group.group_id, member.member_id))
            self._revoked(turn, group, member)
        raise_epoch(turn, group, reason)

    # --- timers ----------------------------------------------------------------------------------

    def _keep_alive(
        self, turn: Turn[Stored], group: ConsumerGroup, member: Member, session_ms: int
    ) -> None:
        """Move the end of the session; its one timer looks at it when it fires."""
        if member.deadline_ms is None:
            turn.schedule(TimerKey(SESSION, group.group_id, member.member_id), session_ms)
        member.deadline_ms = turn.monotonic_ms + session_ms

    def _end_session(self, turn: Turn[Stored], group: ConsumerGroup, member: Member) -> None:
        left_ms = (member.deadline_ms or 0) - turn.monotonic_ms
        if left_ms > 0:
            turn.schedule(TimerKey(SESSION, group.group_id, member.member_id), left_ms)
            return
        seconds = self._settings().consumer_session_timeout_ms / 1000
        reason = (
            f"member {member.member_id} was silent for longer than its session timeout of "
            f"{seconds:g} s"
        )
        self._fence(turn, group, reason, member)

    def _await_revocation(self, turn: Turn[Stored], group: ConsumerGroup, member: Member) -> None:
        member.revoking_since_epoch = member.owns.epoch
        key = TimerKey(REBALANCE, group.group_id, member.member_id)
        turn.schedule(key, max(member.told.rebalance_timeout_ms, 0))

    def _revoked(self, turn: Turn[Stored], group: ConsumerGroup, member: Member) -> None:
        if member.revoking_since_epoch is not None:
            member.revoking_since_epoch = None
            turn.cancel(TimerKey(REBALANCE, group.group_id, member.member_id))

    def _end_revocation(self, turn: Turn[Stored], group: ConsumerGroup, member: Member) -> None:
        if member.revoking_since_epoch != member.owns.epoch:
            return
        seconds = member.told.rebalance_timeout_ms / 1000
        reason = (
            f"member {member.member_id} did not give up partitions within its rebalance timeout "
            f"of {seconds:g} s"
        )
        self._fence(turn, group, reason, member)

    # --- topics and expressions ------------------------------------------------------------------

    def _wants_regexes(
        self, turn: Turn[Stored], group: ConsumerGroup, settings: GroupSettings
    ) -> bool:
        return bool(group.regex_users) and wants_refresh(
            group,
            turn.monotonic_ms,
            self._topic_changes,
            settings.consumer_regex_refresh_interval_ms,
        )

    def _resolve(self, turn: Turn[Stored], group: ConsumerGroup) -> None:
        if not resolve(turn, group, self._topic_changes):
            turn.schedule(TimerKey(REGEX, group.group_id), 0)
            return
        reason, group.regexes_because = group.regexes_because, ""
        if reason:
            raise_epoch(turn, group, reason)
        else:
            refresh(turn, group)

    def _mark_stale(self, reasons: dict[str, str]) -> None:
        for group in self._consumer_groups():
            for topic, reason in reasons.items():
                if group.subscribes_to(topic):
                    group.metadata_is_stale = True
                    group.stale_because = reason
                    break

    # --- finding groups --------------------------------------------------------------------------

    def _consumer_groups(self) -> list[ConsumerGroup]:
        return [each for each in self._groups.values() if isinstance(each, ConsumerGroup)]

    def _known(self, group_id: str) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        raise self._no_consumer_group(group_id)

    def _no_consumer_group(self, group_id: str, missing: str = "Group") -> KafkaError:
        message = f"{missing} {group_id} not found."
        if group_id in self._groups:
            message = f"Group {group_id} is not a consumer group."
        return KafkaError(ErrorCode.group_id_not_found, message)

    def _new_member_id(self) -> str:
        """As Kafka writes its own; one that starts with a dash would be a nuisance in a shell."""
        while True:
            text = urlsafe_b64encode(self._entropy.uuid().bytes).decode().rstrip("=")
            if not text.startswith("-"):
                return text


def _is_full(ask: ConsumerHeartbeat) -> bool:
    """Whether the member tells all, as when it joins or has missed an answer."""
    return ask.member_epoch == JOINING or (
        ask.rebalance_timeout_ms != -1
        and (ask.topic_names is not None or ask.topic_regex is not None)
        and ask.owned is not None
    )
