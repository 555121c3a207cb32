"""Somebody who reads every answer of a classic group and remembers what must not be broken.

It knows only what members see and what is written, and says which promise an answer breaks.
"""

from collections import defaultdict
from typing import Any

from tests.coordinator.classic.stage import Ask, Stage

from barnabas.coordinator.group.asks import Heartbeat, Join, Joined, Left, Sync, Synced
from barnabas.model.errors import ErrorCode as Code
from barnabas.wire.stored import GroupMetadata, GroupMetadataValue

GONE = {
    Code.unknown_member_id,
    Code.fenced_instance_id,
    Code.group_max_size_reached,
    Code.inconsistent_group_protocol,
    Code.not_coordinator,
}
"""What somebody may hear who is no member."""


class Witness:
    """One group, through every life of its shard."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.life = 0
        self.records_seen = 0
        self.instances: dict[str, str | None] = {}
        """By member id, the instance it is a member as."""
        self.owner: dict[str, str] = {}
        """By instance, the newest member id."""
        self.dead: set[str] = set()
        self.dead_on_record: set[str] = set()
        self.given: dict[int, dict[str, bytes]] = {}
        """By generation, what its leader gave to whom."""
        self.synced: list[tuple[Sync, Synced]] = []
        """Answers that were not yet held against the log."""
        self.led: defaultdict[tuple[int, int], set[tuple[str, str | None]]] = defaultdict(set)
        self.listed: dict[tuple[int, int], set[str]] = {}
        self.answered: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
        self.generation = 0

    def same(self, member_id: str) -> str:
        """A name that stays the same when a static member returns under another id."""
        instance_id = self.instances.get(member_id)
        return member_id if instance_id is None else f"static {instance_id}"

    # --- answers -------------------------------------------------------------------------------

    def hears(self, ask: Ask) -> None:
        """An answer came."""
        if isinstance(ask.what, list):
            for one in ask.value if isinstance(ask.value, list) else ():
                self._left(one)
            return
        if not isinstance(ask.what, Join | Sync | Heartbeat):
            return
        member_id = ask.what.member_id
        self.the_dead_are_refused(member_id, ask.code)
        if isinstance(ask.what, Join) and isinstance(ask.value, Joined) and ask.code is Code.none:
            self._joined(ask.what, ask.value)
        elif isinstance(ask.what, Sync) and isinstance(ask.value, Synced):
            self.synced.append((ask.what, ask.value))
        own = member_id and self.instances.get(member_id) == ask.what.instance_id
        if member_id not in self.instances and not isinstance(ask.what, Join):
            return  # An id that was given is good for a join, and for nothing else before it.
        lost = {Code.unknown_member_id, Code.fenced_instance_id, Code.group_max_size_reached}
        if own and ask.code in lost:
            self.dead.add(member_id)

    def _left(self, left: Left) -> None:
        member_id = left.member_id or self.owner.get(left.instance_id or "", "")
        if left.error is Code.none and member_id:
            self.dead.add(member_id)

    def _joined(self, ask: Join, joined: Joined) -> None:
        self.instances[joined.member_id] = ask.instance_id
        if ask.instance_id is not None:
            old = self.owner.get(ask.instance_id)
            if old is not None and old != joined.member_id:
                self.dead.add(old)
            self.owner[ask.instance_id] = joined.member_id
        at = (self.life, joined.generation)
        self.answered[at].add(self.same(joined.member_id))
        self.generations_never_go_back(joined.generation)
        self.led[at].add((joined.leader, joined.protocol_name))
        self.only_the_leader_sees_the_members(at, joined)

    def replaced(self, instance_id: str) -> None:
        """A join without an id was let in for this instance: whoever had it is fenced."""
        old = self.owner.pop(instance_id, None)
        if old is not None:
            self.dead.add(old)

    # --- records -------------------------------------------------------------------------------

    def reads_the_log(self, doing: Any = None) -> None:
        """Look at what was written while `doing` was decided."""
        for record in self.stage.records[self.records_seen :]:
            assert isinstance(record, GroupMetadata)
            assert record.value is not None
            self.generations_never_go_back(record.value.generation)
            if record.value.members:
                self._stored(record.value, doing)
        if self.records_seen != len(self.stage.records):
            self.dead_on_record = set(self.dead)
        self.records_seen = len(self.stage.records)
        while self.synced:
            self.everybody_gets_what_the_leader_gave(*self.synced.pop())

    def _stored(self, value: GroupMetadataValue, doing: Any) -> None:
        stored = {member.member_id: member.assignment for member in value.members}
        if isinstance(doing, Sync):
            self.a_generation_is_assigned_once(value, stored, doing)
            self.given[value.generation] = stored
            return
        # Otherwise a static member took its own place.
        assert isinstance(doing, Join)
        assert doing.instance_id is not None
        before = self.given[value.generation]
        assert sorted(before.values()) == sorted(stored.values())
        assert len(stored.keys() - before.keys()) == 1
        self.given[value.generation] = stored

    def reloaded(self) -> None:
        """The shard was dropped; what was not stored is forgotten."""
        self.life += 1
        self.dead = set(self.dead_on_record)
        for instance_id, member_id in list(self.owner.items()):
            if member_id not in self.dead:
                # Which of two ids the record has, the next answers will tell.
                del self.owner[instance_id]
        last = self.stage.records[-1] if self.stage.records else None
        value = last.value if isinstance(last, GroupMetadata) else None
        self.generation = value.generation if value is not None else 0

    # --- promises ------------------------------------------------------------------------------

    def everybody_gets_what_the_leader_gave(self, ask: Sync, synced: Synced) -> None:
        """ONE ASSIGNMENT: every SyncGroup of a generation that is answered brings exactly what the
        leader of that generation gave to that member, before and after the shard was reloaded."""
        assert synced.assignment == self.given[ask.generation].get(ask.member_id, b"")

    def a_generation_is_assigned_once(
        self, value: GroupMetadataValue, stored: dict[str, bytes], ask: Sync
    ) -> None:
        """ASSIGNED ONCE: no generation is ever stored with two different assignments, and the one
        that is stored is its leader's."""
        assert value.generation not in self.given
        assert value.generation == ask.generation
        assert ask.member_id == value.leader
        assert stored == {member_id: ask.assignments.get(member_id, b"") for member_id in stored}

    def generations_never_go_back(self, generation: int) -> None:
        """FORWARD: generations only grow while a shard lives; a reloaded one goes on from the last
        that was stored, so no generation in which somebody was assigned something comes again."""
        assert generation >= self.generation
        self.generation = generation

    def a_generation_has_one_leader_and_one_protocol(self) -> None:
        """ONE LEADER: all who join a generation hear of the same leader and the same protocol."""
        for said in self.led.values():
            assert len({(self.same(leader), protocol) for leader, protocol in said}) == 1

    def only_the_leader_sees_the_members(self, at: tuple[int, int], joined: Joined) -> None:
        """THE LEADER KNOWS: only the leader gets the list of members, and it has all of them."""
        if joined.members:
            assert joined.leader == joined.member_id
            names = {
                member.member_id if member.instance_id is None else f"static {member.instance_id}"
                for member in joined.members
            }
            assert self.listed.setdefault(at, names) == names

    def everybody_who_joined_is_listed(self) -> None:
        """THE LEADER KNOWS, seen from the others: nobody joins a generation that is not listed."""
        for at, names in self.listed.items():
            assert self.answered[at] <= names

    def groups_stay_small(self, size_max: int) -> None:
        """BOUNDED: no generation lets in more members than `group.max.size`."""
        for names in self.answered.values():
            assert len(names) <= size_max

    def the_dead_are_refused(self, member_id: str, code: Code) -> None:
        """FENCED: whoever left, was fenced, or was told that it is unknown, is never served."""
        assert member_id not in self.dead or code in GONE
