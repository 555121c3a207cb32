"""Shares as even as can be for members that subscribe to different topics.

First every member keeps what still holds. Then each topic's free partitions go to its least
loaded subscribers. Last, topic by topic, partitions move from its most to its least loaded
subscribers until they differ by at most one, over and over until nothing moves any more.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Final

from barnabas.coordinator.assignors.claims import claim
from barnabas.coordinator.assignors.order import topic_order
from barnabas.coordinator.assignors.spec import Assignment, GroupSpec, TopicId

BALANCE_ROUNDS_MAX: Final = 16
"""Kafka's bound. Chains of overlapping subscriptions can pass one partition along for long; every
round about halves what is left to even out."""


def assign_heterogeneous(spec: GroupSpec) -> dict[str, Assignment]:
    """Even out the members' shares as far as their subscriptions allow."""
    shares = _Shares(spec)
    kept, free = claim(spec, shares.topics)
    shares.keep(kept)
    for topic in shares.topics:
        if free[topic]:
            shares.hand_out(topic, sorted(free[topic]))
    shares.balance()
    return shares.assignment()


class _Shares:
    """The assignment in the making. A member goes by its place in the order of member ids."""

    def __init__(self, spec: GroupSpec) -> None:
        self._members = sorted(spec.members)
        self._groups, self._subscribers = _subscribers(spec, self._members)
        self._sizes = [0] * len(self._members)
        self._even_groups: set[_Group] = set()
        # The topics whose partitions weigh heaviest on their few subscribers come first: those
        # that many can take are left to fill the gaps.
        self.topics = sorted(self._groups, key=lambda topic: self._weight(topic, spec))
        self._owned: dict[TopicId, dict[int, set[int]]] = {topic: {} for topic in self.topics}

    def _weight(self, topic: TopicId, spec: GroupSpec) -> tuple[float, int, tuple[int, int]]:
        count = len(self._subscribers[self._groups[topic]])
        return -(spec.partitions[topic] / count), count, topic_order(topic)

    def keep(self, kept: Mapping[str, Assignment]) -> None:
        """Let each member have what it may keep."""
        for member, name in enumerate(self._members):
            for topic, partitions in kept[name].items():
                self._owned[topic][member] = set(partitions)
                self._sizes[member] += len(partitions)

    def hand_out(self, topic: TopicId, free: Sequence[int]) -> None:
        """Give partitions that nobody has to the topic's least loaded subscribers."""
        subscribers = self._subscribers[self._groups[topic]]
        takers = nsmallest(len(free), subscribers, key=self._sizes.__getitem__)
        for partition, (taker, _) in zip(free, _takers(takers, self._sizes), strict=False):
            self._give(topic, partition, taker)

    def _give(self, topic: TopicId, partition: int, taker: int) -> None:
        self._owned[topic].setdefault(taker, set()).add(partition)
        self._sizes[taker] += 1

    def balance(self) -> None:
        """Even out topic after topic until a whole round has changed nothing."""
        shared = [t for t in self.topics if len(self._subscribers[self._groups[t]]) > 1]
        last_changed: TopicId | None = None
        for _ in range(BALANCE_ROUNDS_MAX):
            for topic in shared:
                if topic == last_changed:
                    return
                if self._even_out(topic) or last_changed is None:
                    last_changed = topic

    def _even_out(self, topic: TopicId) -> bool:
        """Move partitions of `topic` off its most loaded subscribers; whether any moved."""
        group = self._groups[topic]
        if group in self._even_groups:
            return False
        subscribers = self._subscribers[group]
        loads = [self._sizes[member] for member in subscribers]
        if max(loads) - min(loads) <= 1:
            self._even_groups.add(group)
            return False
        ranked = sorted(subscribers, key=self._sizes.__getitem__)
        owned = self._owned[topic]
        spare = {owner: sorted(partitions) for owner, partitions in owned.items()}
        takers = _takers(ranked, self._sizes)
        moved = False
        for giver, high in _givers(ranked[::-1], self._sizes, spare):
            taker, low = next(takers)
            if high - low <= 1:
                break
            partition = spare[giver].pop()
            owned[giver].remove(partition)
            self._sizes[giver] -= 1
            self._give(topic, partition, taker)
            moved = True
        if moved:
            self._even_groups.clear()
        return moved

    def assignment(self) -> dict[str, Assignment]:
        """The shares, by member id."""
        result: dict[str, Assignment] = {name: {} for name in self._members}
        for topic, owned in self._owned.items():
            for member, partitions in owned.items():
                if partitions:
                    result[self._members[member]][topic] = frozenset(partitions)
        return result


_Group = tuple[int, ...]  # which of the distinct subscriptions hold a topic


def _subscribers(
    spec: GroupSpec, members: Sequence[str]
) -> tuple[dict[TopicId, _Group], dict[_Group, list[int]]]:
    """The group of subscribers of each topic that exists, and the members in each group.

    Distinct subscriptions are few where members are many, so topics share their lists.
    """
    by_subscription: dict[frozenset[TopicId], list[int]] = {}
    for member, name in enumerate(members):
        by_subscription.setdefault(spec.members[name].topics, []).append(member)
    holders: dict[TopicId, list[int]] = {}
    for number, topics in enumerate(by_subscription):
        for topic in topics:
            if topic in spec.partitions:
                holders.setdefault(topic, []).append(number)
    places = list(by_subscription.values())
    groups = {topic: tuple(numbers) for topic, numbers in holders.items()}
    return groups, {
        group: sorted(member for number in group for member in places[number])
        for group in set(groups.values())
    }


def _takers(ranked: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Who gets the next partition, and how many it has; without end, from the least loaded up.

    All at the lowest level get one in turn; then the level has risen by one, and takes in those
    that already stood there. `sizes` must have counted one gift before the next is asked for.
    """
    level = sizes[ranked[0]]
    end = 0
    while True:
        while end < len(ranked) and sizes[ranked[end]] == level:
            end += 1
        for member in ranked[:end]:
            yield member, level
        level += 1


def _givers(
    ranked: Iterable[int], sizes: Sequence[int], spare: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, int]]:
    """Who gives the next partition, and how many it has; from the most loaded (`ranked`) down.

    The mirror image of `_takers`, except that a member with nothing to spare falls out: the first
    in line takes its place, which is the order in which Kafka asks.
    """
    line = list(ranked)
    level = first = cursor = end = 0
    while True:
        if cursor >= end:
            level = level - 1 if first < end or end == len(line) else sizes[line[end]]
            while end < len(line) and sizes[line[end]] == level:
                end += 1
            cursor = first
        if cursor >= len(line):
            return
        member = line[cursor]
        if spare.get(member):
            yield member, level
        else:
            line[cursor] = line[first]
            first += 1
        cursor += 1
