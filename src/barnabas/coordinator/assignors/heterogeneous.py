"""Shares as even as can be for members that subscribe to different topics.

First every member keeps what still holds. Then each topic's free partitions go to its least
loaded subscribers. Last, topic by topic, partitions move from its most to its least loaded
subscribers until they differ by at most one, over and over until nothing moves any more.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Final

from barnabas.coordinator.assignors.claims import claim
from barnabas.coordinator.assignors.order import topic_order
from barnabas.coordinator.assignors.spec import Assignment, GroupSpec, TopicId
from barnabas.coordinator.assignors.subscribers import Audience, audiences

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
        self._audiences, self._readers = audiences(spec, self._members)
        self._sizes = [0] * len(self._members)
        self._even: set[Audience] = set()
        # The topics whose partitions weigh heaviest on their few subscribers come first: those
        # that many can take are left to fill the gaps.
        self.topics = sorted(self._audiences, key=lambda topic: self._weight(topic, spec))
        self._owned: dict[TopicId, dict[int, set[int]]] = {topic: {} for topic in self.topics}

    def _weight(self, topic: TopicId, spec: GroupSpec) -> tuple[float, int, tuple[int, int]]:
        count = len(self._readers[self._audiences[topic]])
        return -(spec.partitions[topic] / count), count, topic_order(topic)

    def keep(self, kept: Mapping[str, Assignment]) -> None:
        """Let each member have what it may keep."""
        for member, name in enumerate(self._members):
            for topic, partitions in kept[name].items():
                self._owned[topic][member] = set(partitions)
                self._sizes[member] += len(partitions)

    def hand_out(self, topic: TopicId, free: Sequence[int]) -> None:
        """Give partitions that nobody has to the topic's least loaded subscribers."""
        readers = self._readers[self._audiences[topic]]
        takers = nsmallest(len(free), readers, key=self._sizes.__getitem__)
        for partition, (taker, _) in zip(free, _takers(takers, self._sizes), strict=False):
            self._give(topic, partition, taker)

    def _give(self, topic: TopicId, partition: int, taker: int) -> None:
        self._owned[topic].setdefault(taker, set()).add(partition)
        self._sizes[taker] += 1

    def balance(self) -> None:
        """Even out topic after topic until a whole round has changed nothing."""
        shared = [t for t in self.topics if len(self._readers[self._audiences[t]]) > 1]
        last_changed: TopicId | None = None
        for _ in range(BALANCE_ROUNDS_MAX):
            for topic in shared:
                if topic == last_changed:
                    return
                if self._even_out(topic) or last_changed is None:
                    last_changed = topic

    def _even_out(self, topic: TopicId) -> bool:
        """Move partitions of `topic` off its most loaded subscribers; whether any moved."""
        audience = self._audiences[topic]
        if audience in self._even:
            return False
        sizes = self._sizes
        readers = self._readers[audience]
        loads = [sizes[reader] for reader in readers]
        lowest = min(loads)
        if max(loads) - lowest <= 1:
            self._even.add(audience)
            return False
        spare = {owner: sorted(parts) for owner, parts in self._owned[topic].items() if parts}
        if max((sizes[owner] for owner in spare), default=0) - lowest <= 1:
            return False
        self._move(topic, readers, spare)
        self._even.clear()
        return True

    def _move(self, topic: TopicId, readers: Sequence[int], spare: Mapping[int, list[int]]) -> None:
        """Move what is to `spare` until the topic's readers are as even as that makes them."""
        ranked = sorted(readers, key=self._sizes.__getitem__)
        takers = _takers(ranked, self._sizes)
        # Without rivals, a single owner need not be looked for among thousands of readers.
        line = ranked[::-1] if len(spare) > 1 else list(spare)
        for giver, high in _givers(line, self._sizes, spare):
            taker, low = next(takers)
            if high - low <= 1:
                return
            partition = spare[giver].pop()
            self._owned[topic][giver].remove(partition)
            self._sizes[giver] -= 1
            self._give(topic, partition, taker)

    def assignment(self) -> dict[str, Assignment]:
        """The shares, by member id."""
        result: dict[str, Assignment] = {name: {} for name in self._members}
        for topic, owned in self._owned.items():
            for member, partitions in owned.items():
                if partitions:
                    result[self._members[member]][topic] = frozenset(partitions)
        return result


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
    line: list[int], sizes: Sequence[int], spare: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, int]]:
    """Who gives the next partition, and how many it has; `line` begins with the most loaded.

    The mirror image of `_takers`, except that a member with nothing to spare falls out: the first
    in line takes its place, which is the order in which Kafka asks.
    """
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
