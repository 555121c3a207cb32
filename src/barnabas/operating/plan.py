"""Who shall hold what: replica lists before and after, and what that moves."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from barnabas.operating.snapshot import PartitionFacts, Place, Snapshot

Layout = dict[Place, tuple[int, ...]]
"""The replicas of each partition, the preferred leader first."""


@dataclass(frozen=True, slots=True)
class Change:
    """One partition whose list of replicas becomes another."""

    place: Place
    before: tuple[int, ...]
    after: tuple[int, ...]
    size: int
    """Bytes of one replica, as far as they are known."""

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a copy."""
        return tuple(each for each in self.after if each not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that give theirs up."""
        return tuple(each for each in self.before if each not in self.after)

    @property
    def bytes(self) -> int:
        """What has to be copied."""
        return self.size * len(self.adding)


def layout_of(snapshot: Snapshot) -> Layout:
    """As it is; where replicas are on their way, as it will be."""
    return {place: target_of(snapshot, place, facts) for place, facts in snapshot.partitions()}


def target_of(snapshot: Snapshot, place: Place, facts: PartitionFacts) -> tuple[int, ...]:
    """The replicas that a partition has, or will have when its move has ended."""
    moving = snapshot.moving.get(place)
    going = set(moving.removing) if moving else set()
    return tuple(each for each in facts.replicas if each not in going)


def under_way(snapshot: Snapshot, sizes: Mapping[Place, int]) -> list[Change]:
    """The moves that somebody has begun."""
    found = []
    for place, facts in snapshot.partitions():
        moving = snapshot.moving.get(place)
        if moving is not None:
            before = tuple(each for each in facts.replicas if each not in moving.adding)
            after = target_of(snapshot, place, facts)
            found.append(Change(place, before, after, sizes.get(place, 0)))
    return found


def plan_of(before: Layout, after: Layout, sizes: Mapping[Place, int]) -> list[Change]:
    """The partitions that differ, in order."""
    return [
        Change(place, before[place], replicas, sizes.get(place, 0))
        for place, replicas in sorted(after.items())
        if replicas != before[place]
    ]


def next_to_begin(
    waiting: Collection[Change], begun: Collection[Change], each_at_most: int
) -> list[Change]:
    """Those of `waiting` that can begin now: a broker takes in so many replicas at a time.

    Changes of order alone copy nothing, and wait for nobody.
    """
    busy = Counter(each for change in begun for each in change.adding)
    found = []
    for change in waiting:
        if all(busy[each] < each_at_most for each in change.adding):
            found.append(change)
            busy.update(change.adding)
    return found
