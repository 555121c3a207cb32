"""Who is a member of one classic group, who is awaited, who leads, and what all of them support."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from barnabas.coordinator.group.asks import Join
from barnabas.coordinator.group.classic.member import Member, distinct
from barnabas.coordinator.java_hash import java_hash
from barnabas.coordinator.runtime.turn import Turn, Waiter
from barnabas.model.check import require
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.stored import Stored


class Roster:
    """Counts what it is asked for often, so that no event looks at every member."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.pending: set[str] = set()
        """Ids that were given to newcomers who have not come back with them yet."""
        self.unsynced: set[str] = set()
        """Members of this generation that have not asked for their assignment yet."""
        self.leader: str | None = None
        self._member_ids: dict[str, str] = {}
        self.metadata_bytes = 0
        """What the members say of themselves, all together."""
        self._joining = 0
        self._support: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members.values())

    def restore(self, members: Iterable[Member]) -> None:
        """These are the members, as a record names them."""
        self.members.clear()
        self._member_ids.clear()
        self._support.clear()
        self.unsynced.clear()
        self._joining = 0
        self.metadata_bytes = 0
        self.leader = None
        for member in members:
            self.add(member)

    # --- coming and going ----------------------------------------------------------------------

    def add(self, member: Member) -> None:
        """One more member; the first one leads."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._member_ids[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.pending.discard(member.member_id)
        self._count(member.protocols, 1)

    def remove(self, turn: Turn[Stored], member: Member, code: ErrorCode) -> None:
        """No member any more: what it waits for is answered with `code`."""
        del self.members[member.member_id]
        self._count(member.protocols, -1)
        self.refuse_join(turn, member, code)
        member.refuse_sync(turn, code)
        self.unsynced.discard(member.member_id)
        if member.instance_id is not None:
            self._member_ids.pop(member.instance_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, turn: Turn[Stored], old: Member, member_id: str) -> Member:
        """A static member came back under a new id: whoever still waits under the old is fenced."""
        leads, unsynced = self.leader == old.member_id, old.member_id in self.unsynced
        self.remove(turn, old, ErrorCode.fenced_instance_id)
        new = old.successor(member_id)
        self.add(new)
        if leads:
            self.leader = member_id
        if unsynced:
            self.unsynced.add(member_id)
        return new

    def update(self, member: Member, ask: Join) -> None:
        """Take over what a member that joins again says of itself."""
        self._count(member.protocols, -1)
        member.protocols = distinct(ask.protocols)
        self._count(member.protocols, 1)
        member.rebalance_timeout_ms = ask.rebalance_timeout_ms
        member.session_timeout_ms = ask.session_timeout_ms

    def static(self, instance_id: str) -> Member | None:
        """The member with this instance id."""
        member_id = self._member_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def validated(self, member_id: str, instance_id: str | None) -> Member:
        """The member, if it still is the one it says. KafkaError otherwise."""
        if instance_id is not None:
            current = self._member_ids.get(instance_id)
            if current is None:
                raise KafkaError(ErrorCode.unknown_member_id)
            if current != member_id:
                raise KafkaError(ErrorCode.fenced_instance_id)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.unknown_member_id)
        return member

    # --- joining -------------------------------------------------------------------------------

    @property
    def joining(self) -> int:
        """How many members wait for the answer to their JoinGroup."""
        return self._joining

    @property
    def all_joining(self) -> bool:
        """Whether nobody is awaited any more."""
        return self._joining == len(self.members) and not self.pending

    def park_join(self, turn: Turn[Stored], member: Member, waiter: Waiter) -> None:
        """Keep the JoinGroup. An earlier one is sent off, so that nobody waits for ever."""
        self.refuse_join(turn, member, ErrorCode.rebalance_in_progress)
        member.join_waiter = waiter
        self._joining += 1

    def take_join(self, member: Member) -> Waiter | None:
        """The JoinGroup that waits, to be answered now."""
        waiter, member.join_waiter = member.join_waiter, None
        if waiter is not None:
            self._joining -= 1
        return waiter

    def refuse_join(self, turn: Turn[Stored], member: Member, code: ErrorCode) -> None:
        """Answer the JoinGroup that waits, if one does."""
        waiter = self.take_join(member)
        if waiter is not None:
            turn.refuse(waiter, KafkaError(code))

    def elect(self) -> bool:
        """See that somebody who joined leads; false if nobody did."""
        leader = self.members.get(self.leader or "")
        if leader is None or leader.join_waiter is None:
            joined = (member.member_id for member in self if member.join_waiter is not None)
            heir = next(joined, None)
            if heir is None:
                return False
            self.leader = heir
        return True

    def rebalance_timeout_ms(self) -> int:
        """As long as the slowest member asks for."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    # --- protocols -----------------------------------------------------------------------------

    def supports_any(self, names: Iterable[str]) -> bool:
        """Whether every member supports one of these."""
        count = len(self.members)
        return any(self._support.get(name, 0) == count for name in names)

    def vote(self) -> str:
        """The protocol that most members prefer, of those that all of them support."""
        count = len(self.members)
        candidates = {name for name, members in self._support.items() if members == count}
        require(bool(candidates), "members were let in that have no protocol in common")
        votes = Counter(
            next(name for name in member.protocols if name in candidates) for member in self
        )
        return min(votes, key=lambda name: (-votes[name], _bucket(name)))

    def _count(self, protocols: Mapping[str, bytes], change: int) -> None:
        for name, metadata in protocols.items():
            self.metadata_bytes += len(metadata) * change
            count = self._support.get(name, 0) + change
            if count:
                self._support[name] = count
            else:
                # Names come from strangers: those that nobody uses any more are not kept.
                self._support.pop(name, None)


def _bucket(name: str) -> int:
    """Where a Java HashMap of the usual size keeps the name. Kafka breaks even votes by the order
    of such a map, and groups shall not change their protocol when they come from there."""
    value = java_hash(name)
    return (value ^ (value >> 16)) & 15
