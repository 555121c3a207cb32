"""A classic group: its generation, what of it is stored, and what others may do to it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from barnabas.coordinator.group.asks import (
    Described,
    DescribedMember,
    Joined,
    JoinedMember,
    LastRebalance,
    Listing,
)
from barnabas.coordinator.group.classic.member import Member
from barnabas.coordinator.group.classic.roster import Roster
from barnabas.coordinator.group.classic.state import FOLLOWS, State
from barnabas.coordinator.runtime.turn import Turn
from barnabas.model.check import require
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.stored import (
    GroupMetadata,
    GroupMetadataMember,
    GroupMetadataValue,
    Stored,
)

CONSUMER = "consumer"
"""The protocol type of groups whose members say in Kafka's own format what they read."""


@dataclass(slots=True)
class InitialDelay:
    """How an empty group waits for more members than its first."""

    delay_ms: int
    remaining_ms: int
    newcomer: bool = False
    """Somebody came since the timer was set."""


class ClassicGroup:
    """One group. Everything but a generation with its assignments is forgotten with the shard."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.state_since_ms: int | None = None
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation = 0
        self.roster = Roster()
        self.initial_delay: InitialDelay | None = None
        """While PreparingRebalance follows Empty."""
        self.last_rebalance: LastRebalance | None = None
        self._topics: frozenset[str] | None = None
        """What all members read; None while that is not known."""

    # --- changing ------------------------------------------------------------------------------

    def move(self, state: State, now_ms: int) -> None:
        """Come to another state."""
        require(self.state in FOLLOWS[state], f"{state} after {self.state}")
        self.state = state
        self.state_since_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """All that will join have joined."""
        self.generation += 1
        self.protocol_name = self.roster.vote()
        self._topics = self._subscribed()
        self.roster.unsynced = set(self.roster.members)
        self.move(State.COMPLETING_REBALANCE, now_ms)

    def admit(self, member: Member, protocol_type: str) -> None:
        """One more member; the first one says what kind of members the group has."""
        if not self.roster.members:
            self.protocol_type = protocol_type
        self.roster.add(member)

    def adopt(self, value: GroupMetadataValue) -> None:
        """Be what a record says: one just written, or one read back."""
        members = self.roster.members
        if {stored.member_id for stored in value.members} != members.keys():
            name = value.protocol or ""
            self.roster.restore(Member.stored(stored, name) for stored in value.members)
        for stored in value.members:
            members[stored.member_id].assignment = stored.assignment
        if value.leader in members:
            self.roster.leader = value.leader
        self.state = State.STABLE if value.members else State.EMPTY
        self.state_since_ms = (
            None if value.current_state_timestamp == -1 else value.current_state_timestamp
        )
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = (value.protocol or "") if value.members else None
        self._topics = self._subscribed()

    # --- the record ----------------------------------------------------------------------------

    def assigned(self, assignments: Mapping[str, bytes], now_ms: int) -> GroupMetadata:
        """The record of this generation with these assignments; none for those not named."""
        protocol = self.protocol_name or ""
        members = tuple(
            GroupMetadataMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client.id,
                client_host=member.client.host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.protocols[protocol],
                assignment=assignments.get(member.member_id, b""),
            )
            for member in self.roster
        )
        return self._record(now_ms, self.generation, members)

    def emptied(self, now_ms: int) -> GroupMetadata:
        """The record of the next generation, which has no members."""
        return self._record(now_ms, self.generation + 1, ())

    def _record(
        self, now_ms: int, generation: int, members: tuple[GroupMetadataMember, ...]
    ) -> GroupMetadata:
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=generation,
            protocol=self.protocol_name if members else None,
            leader=self.roster.leader if members else None,
            current_state_timestamp=now_ms,
            members=members,
        )
        return GroupMetadata(self.group_id, value)

    # --- answering -----------------------------------------------------------------------------

    def joined(self, member: Member, *, skip_assignment: bool = False) -> Joined:
        """The answer to a member of this generation. Only the leader learns of the others."""
        leads = self.roster.leader == member.member_id
        return Joined(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.roster.leader or "",
            skip_assignment=skip_assignment and leads,
            members=self._joined_members() if leads else (),
        )

    def _joined_members(self) -> tuple[JoinedMember, ...]:
        protocol = self.protocol_name or ""
        return tuple(
            JoinedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                metadata=member.protocols[protocol],
            )
            for member in self.roster
        )

    def described(self) -> Described:
        """DescribeGroups. What members say of themselves is told only while it counts."""
        protocol = (self.protocol_name or "") if self.state is State.STABLE else None
        members = (
            DescribedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client=member.client,
                metadata=b"" if protocol is None else member.protocols.get(protocol, b""),
                assignment=member.assignment,
            )
            for member in self.roster
        )
        return Described(
            group_id=self.group_id,
            state=self.state.value,
            protocol_type=self.protocol_type or "",
            protocol=protocol or "",
            members=tuple(members),
            last_rebalance=self.last_rebalance,
        )

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether somebody with these protocols fits to those who are there."""
        if self.state is State.EMPTY:
            return bool(protocol_type and names)
        return protocol_type == self.protocol_type and self.roster.supports_any(names)

    # --- as any kind of group ------------------------------------------------------------------

    @property
    def listing(self) -> Listing:
        """How ListGroups shows it."""
        return Listing(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            state=self.state.value,
            kind="classic",
        )

    @property
    def is_empty(self) -> bool:
        """Whether nobody is a member, or was given an id to become one."""
        return self.state is State.EMPTY and not self.roster.pending

    def check_commit(
        self,
        turn: Turn[Stored],
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        knows_epochs: bool,  # noqa: ARG002 - epochs are a matter of consumer groups
        partitions: Iterable[tuple[bytes, int]] = (),  # noqa: ARG002 - so is who owns what
    ) -> None:
        """A member of this generation may commit, and anybody while there are no members."""
        if self.state is State.DEAD:
            raise KafkaError(ErrorCode.coordinator_not_available)
        if self.state is State.EMPTY and generation < 0:
            return
        # A commit without member and generation is none of a member's: it finds none named "".
        member = self.roster.validated(member_id, instance_id)
        if generation != self.generation:
            raise KafkaError(ErrorCode.illegal_generation)
        if self.state is State.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.rebalance_in_progress)
        member.touch(turn.monotonic_ms)

    def check_txn_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        partitions: Iterable[tuple[bytes, int]] = (),  # noqa: ARG002 - classic groups do not know
    ) -> None:
        """A member of this generation, in whatever state the group is, or nobody in particular."""
        if self.state is State.DEAD:
            raise KafkaError(ErrorCode.coordinator_not_available)
        names_nobody = not member_id and instance_id is None
        if generation < 0 and (names_nobody or self.state is State.EMPTY):
            return
        self.roster.validated(member_id, instance_id)
        if generation != self.generation:
            raise KafkaError(ErrorCode.illegal_generation)

    def check_fetch(self, member_id: str, member_epoch: int) -> None:  # noqa: ARG002
        """Anybody may ask how far a classic group has got."""
        self._check_alive()

    def check_delete(self) -> None:
        """Only a group without members can be deleted."""
        self._check_alive()
        if self.state is not State.EMPTY:
            raise KafkaError(ErrorCode.non_empty_group)

    def check_offset_delete(self) -> None:
        """While there are members it must be known what they read."""
        self._check_alive()
        if self.state is not State.EMPTY and self.protocol_type != CONSUMER:
            raise KafkaError(ErrorCode.non_empty_group)

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads the topic. Consumers whose subscriptions can not be read, or are
        not known yet, may read anything."""
        if self._topics is None:
            return self.protocol_type == CONSUMER
        return topic in self._topics

    def offsets_unused_since_ms(self, committed_ms: int) -> int | None:
        """Offsets of an empty group age from when its last member went; those of topics that
        nobody reads, and those of groups without members ever, from their commit."""
        if self.protocol_type is None:
            return committed_ms
        if self.state is State.EMPTY:
            return committed_ms if self.state_since_ms is None else self.state_since_ms
        known = self.protocol_type == CONSUMER and self._topics is not None
        return committed_ms if known and self.state is State.STABLE else None

    def tombstones(self) -> Iterable[Stored]:
        """What removes the group from the log."""
        return (GroupMetadata(self.group_id, None),)

    def _check_alive(self) -> None:
        if self.state is State.DEAD:
            raise KafkaError(ErrorCode.group_id_not_found, f"Group {self.group_id} is dead.")

    def _subscribed(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER:
            return None
        topics: set[str] = set()
        for member in self.roster:
            its = member.topics(self.protocol_name or "")
            if its is None:
                return None
            topics |= its
        return frozenset(topics)
