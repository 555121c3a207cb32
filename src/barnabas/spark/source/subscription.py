"""Which partitions a query reads: topics by name, topics by a pattern, or single partitions."""

import re
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from barnabas.spark.errors import SparkJobError, UnknownTopicError
from barnabas.spark.places import Place, listed


class Topics(Protocol):
    """What a cluster tells about its topics."""

    def topic_names(self, *, internal: bool = ...) -> list[str]:
        """All there are; those that Kafka keeps for itself only when asked for."""

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """How many partitions each has; UnknownTopicError for those that do not exist."""


@dataclass(frozen=True)
class Subscription:
    """One of the three: exactly one of its fields is set."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: tuple[Place, ...] = ()

    def covers(self, place: Place) -> bool:
        """Whether it asks for the partition, be that there or not."""
        if self.topics:
            return place.topic in self.topics
        if self.assigned:
            return place in self.assigned
        return compile_pattern(self.pattern).search(place.topic) is not None

    def places(self, cluster: Topics) -> tuple[Place, ...]:
        """The partitions there are now; UnknownTopicError for what is named and is not there."""
        if self.pattern:
            found = compile_pattern(self.pattern)
            names = [name for name in cluster.topic_names(internal=False) if found.search(name)]
            return _places_of(_counts_left(cluster, names))
        if self.topics:
            return _places_of(cluster.partition_counts(self.topics))
        counts = cluster.partition_counts({place.topic for place in self.assigned})
        missing = [place for place in self.assigned if place.partition >= counts[place.topic]]
        if missing:
            raise UnknownTopicError(
                f"assign names {listed(missing, most=5)}, which does not exist: the topic has "
                f"{counts[missing[0].topic]} partition(s), numbered from 0."
            )
        return tuple(sorted(self.assigned))

    def is_whole(self, places: Collection[Place]) -> bool:
        """Whether nothing that is named is missing."""
        if self.topics:
            return {place.topic for place in places}.issuperset(self.topics)
        return set(places).issuperset(self.assigned)

    def places_left(self, cluster: Topics) -> tuple[Place, ...]:
        """Like `places`, but what has been deleted is left out: the caller knows what it misses.

        It asks for the list of topics first: asking for one that is gone takes a second, because
        it might be one that is only just being made.
        """
        if self.pattern:
            return self.places(cluster)
        there = set(cluster.topic_names(internal=True))
        wanted = self.topics or tuple({place.topic for place in self.assigned})
        counts = _counts_left(cluster, [topic for topic in wanted if topic in there])
        return tuple(place for place in _places_of(counts) if self.covers(place))


def _places_of(counts: dict[str, int]) -> tuple[Place, ...]:
    return tuple(
        Place(topic, partition) for topic in sorted(counts) for partition in range(counts[topic])
    )


def _counts_left(cluster: Topics, names: Collection[str]) -> dict[str, int]:
    """Of those that still exist: a topic may go between being listed and being described."""
    while names:
        try:
            return cluster.partition_counts(names)
        except UnknownTopicError:
            there = set(cluster.topic_names(internal=True))
            left = [name for name in names if name in there]
            if len(left) == len(names):
                raise
            names = left
    return {}


@lru_cache(maxsize=8)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    r"""`subscribePattern`: a topic is read when the pattern is found anywhere in its name.

    Found, not matched from end to end: that is how Spark's connector has taken it ever since it
    asks by an admin client; `^…$` says otherwise. The language is Python's, and Java's wherever
    both have a thing (ASCII's `\w` and `\d`, lookaround, possessive quantifiers, inline flags in
    front). What only Java has is refused rather than understood differently: `\p{…}`, `\Q…\E`,
    `(?<name>…)`, and sets in sets (`[a-z&&[^b]]`), which Python warns of.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return re.compile(pattern, re.ASCII)
        except (re.error, Warning, OverflowError, RecursionError) as problem:
            raise SparkJobError(
                f"subscribePattern is {pattern!r}, which is not understood ({problem}): write it "
                r"without Java's own \p{…}, \Q…\E, (?<name>…) and [a&&b], or list the topics "
                "with subscribe."
            ) from problem
