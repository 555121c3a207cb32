"""What members of groups were answered, and which promises that breaks.

Whatever an answer takes back is noted before the request is sent, and whatever it gives is noted
after the answer came: so two members that are noted as owners at once were owners at once.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from tests.chaos.group_asks import Committed, Description
from tests.chaos.journal import Journal
from tests.chaos.talk import Place

Spot = tuple[str, Place]
"""A group and a partition it reads."""

_NAMED_MAX: Final = 5
"""Offsets that a complaint names; the rest would only make it long."""


class GroupJournal(Journal):
    """Written by every member, by the watcher and by whoever restarts the broker."""

    def __init__(self) -> None:
        super().__init__()
        self._mutex = threading.RLock()
        self.counts: Counter[str] = Counter()
        self._acknowledged: dict[Spot, int] = {}
        self._tried: dict[Spot, int] = {}
        self._fetched: dict[Spot, int] = {}
        self._consumed: defaultdict[Spot, set[int]] = defaultdict(set)
        self._covered: dict[Spot, int] = {}
        """Up to where consumption is known to be complete."""
        self._generations: dict[str, int] = {}
        """The newest generation of which somebody has got its share."""
        self._shares: defaultdict[tuple[str, int], dict[str, frozenset[Place]]] = defaultdict(dict)
        self._owners: dict[Spot, str] = {}
        self._member_epochs: dict[tuple[str, str], int] = {}
        self._group_epochs: dict[str, int] = {}

    def complain(self, problem: str) -> None:
        """Something that must not be; what is seen again and again is told once."""
        if problem not in self.problems:
            super().complain(problem)

    # --- records and offsets -------------------------------------------------------------------

    def consume(self, group: str, place: Place, offset: int) -> None:
        """A member of the group has a record in hand."""
        with self._mutex:
            self._consumed[group, place].add(offset)
            self.counts["records consumed"] += 1

    def try_commit(self, group: str, offsets: Mapping[Place, int]) -> None:
        """A commit is about to be sent."""
        with self._mutex:
            for place, offset in offsets.items():
                spot = group, place
                self._tried[spot] = max(offset, self._tried.get(spot, -1))

    def commit(
        self, group: str, offsets: Mapping[Place, int], generation: int = -1, newest: int = -1
    ) -> None:
        """A commit was acknowledged; `newest` is what was the newest generation before it."""
        with self._mutex:
            self.counts["commits acknowledged"] += 1
            for place, offset in offsets.items():
                spot = group, place
                self._acknowledged[spot] = max(offset, self._acknowledged.get(spot, -1))
        if generation < newest:
            self.complain(f"{group}: generation {generation} committed after {newest} had begun")

    def floors(self, group: str) -> dict[Place, int]:
        """What has been acknowledged or fetched so far: it must not go back."""
        with self._mutex:
            known = self._acknowledged.keys() | self._fetched.keys()
            return {
                place: max(
                    self._acknowledged.get((name, place), -1), self._fetched.get((name, place), -1)
                )
                for name, place in known
                if name == group
            }

    def fetch(
        self, group: str, floors: Mapping[Place, int], found: Mapping[Place, Committed]
    ) -> None:
        """OffsetFetch was answered; `floors` were known before it was asked."""
        for place, floor in floors.items():
            offset = found[place].offset if place in found else -1
            if offset < floor:
                self.complain(f"{group} {place}: {floor} was committed, {offset} is there")
        with self._mutex:
            self.counts["offsets checked"] += len(floors)
            for place, (offset, metadata) in found.items():
                spot = group, place
                self._fetched[spot] = max(offset, self._fetched.get(spot, -1))
                if metadata != str(offset) or offset > self._tried.get(spot, -1):
                    self.complain(f"{group} {place}: nobody committed {offset} {metadata!r}")

    def unanswered(self, group: str, found: Mapping[Place, Committed]) -> int:
        """How many of the offsets are there although nobody was told so."""
        with self._mutex:
            return sum(
                told.offset > self._acknowledged.get((group, place), -1)
                for place, told in found.items()
            )

    def cover(self, group: str, found: Mapping[Place, Committed]) -> None:
        """Every record below a committed offset has been in a member's hands."""
        for place, (end, _) in found.items():
            spot = group, place
            with self._mutex:
                start = self._covered.get(spot, 0)
                missing = sorted(set(range(start, end)) - self._consumed[spot])
                self._covered[spot] = max(start, end)
                self._consumed[spot] = {each for each in self._consumed[spot] if each >= end}
                self.counts["records covered"] += max(0, end - start)
            if missing:
                named = missing[:_NAMED_MAX]
                self.complain(f"{group} {place}: {len(missing)} records skipped, like {named}")

    def begin_at(self, group: str, found: Mapping[Place, Committed]) -> None:
        """What an earlier run has seen to is not looked at again."""
        with self._mutex:
            for place, (offset, _) in found.items():
                self._covered[group, place] = offset
                self._tried[group, place] = offset
                self._acknowledged[group, place] = offset

    # --- classic groups ------------------------------------------------------------------------

    def newest_generation(self, group: str) -> int:
        """Of which somebody has got its share."""
        with self._mutex:
            return self._generations.get(group, -1)

    def join(self, group: str, generation: int, newest: int) -> None:
        """JoinGroup was answered; `newest` is what was the newest generation before it."""
        with self._mutex:
            self.counts["generations checked"] += 1
        if generation < newest:
            self.complain(f"{group}: generation {generation} came after {newest}")

    def sync(self, group: str, generation: int, member: str, share: frozenset[Place]) -> None:
        """SyncGroup was answered."""
        with self._mutex:
            shares = self._shares[group, generation]
            if not shares:
                self.counts["generations"] += 1
            before = shares.setdefault(member, share)
            if before != share:
                self.complain(f"{group} {generation}: {member} got {before}, then {share}")
            for other, theirs in shares.items():
                twice = share & theirs
                if other != member and twice:
                    text = f"{sorted(twice)} is owned by {other} and by {member}"
                    self.complain(f"{group} generation {generation}: {text}")
            self._generations[group] = max(generation, self._generations.get(group, -1))
            self.counts["shares checked"] += 1

    # --- groups of the consumer protocol -------------------------------------------------------

    def keep(self, group: str, member: str, owned: Collection[Place]) -> None:
        """The member is about to say that it owns nothing but this."""
        with self._mutex:
            for (name, place), owner in tuple(self._owners.items()):
                if name == group and owner == member and place not in owned:
                    del self._owners[name, place]

    def own(self, group: str, member: str, epoch: int, places: Collection[Place]) -> None:
        """An answer has given this to the member."""
        with self._mutex:
            self.counts["shares checked"] += 1
            for place in places:
                owner = self._owners.setdefault((group, place), member)
                if owner != member:
                    text = f"{place} is given to {member} while {owner} owns it"
                    self.complain(f"{group} epoch {epoch}: {text}")

    def member_epoch(self, group: str, member: str, epoch: int) -> None:
        """An answer has told a member its epoch."""
        with self._mutex:
            self.counts["generations checked"] += 1
            before = self._member_epochs.get((group, member), 0)
            self._member_epochs[group, member] = epoch
        if epoch < before:
            self.complain(f"{group}: {member} went from epoch {before} to {epoch}")

    def describe(self, group: str, told: Description) -> None:
        """A group of either kind was described. (By one watcher: its answers have an order.)"""
        holders = Counter(place for share in told.shares.values() for place in share)
        twice = sorted(place for place, count in holders.items() if count > 1)
        if twice:
            self.complain(f"{group} is {told.state} with {twice} owned twice")
        self.count("shares checked")
        if told.epoch >= 0:
            self._group_epoch(group, told.epoch)

    def _group_epoch(self, group: str, epoch: int) -> None:
        with self._mutex:
            self.counts["generations checked"] += 1
            before = self._group_epochs.get(group, 0)
            self._group_epochs[group] = epoch
            self.counts["epochs"] += max(0, epoch - before)
        if epoch < before:
            self.complain(f"{group} went from epoch {before} to {epoch}")

    def count(self, what: str, many: int = 1) -> None:
        """Something worth telling has happened."""
        with self._mutex:
            self.counts[what] += many

    # --- from run to run -----------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """What must still be true when a later run goes on."""
        with self._mutex:
            return {
                "counts": dict(self.counts),
                "generations": dict(self._generations),
                "group_epochs": dict(self._group_epochs),
                "offsets": [[*spot[:1], *spot[1], offset] for spot, offset in self._known()],
            }

    def _known(self) -> Iterator[tuple[Spot, int]]:
        for spot in self._acknowledged.keys() | self._fetched.keys():
            yield spot, max(self._acknowledged.get(spot, -1), self._fetched.get(spot, -1))

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Take up what an earlier run has left."""
        self.counts.update(saved["counts"])
        self._generations.update(saved["generations"])
        self._group_epochs.update(saved["group_epochs"])
        for group, topic, partition, offset in saved["offsets"]:
            self._fetched[group, (topic, partition)] = offset
