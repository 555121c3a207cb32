"""Where records lie, as planning and reading speak of it."""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeGuard


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """As people write it: `orders-3`."""
        return f"{self.topic}-{self.partition}"


class Span(NamedTuple):
    """Offsets from `start` up to and without `end` of one partition."""

    place: Place
    start: int
    end: int

    @property
    def offsets(self) -> int:
        """How many offsets it covers; compaction and transactions may leave fewer records."""
        return self.end - self.start


Offsets = dict[str, dict[str, int]]
"""Next offset by topic and partition, as a query's checkpoint holds it.

It is the JSON of Spark's Kafka connector, so that a query can take its checkpoint along.
"""


def offsets_to_json(offsets: dict[Place, int]) -> Offsets:
    """In one order, always: Spark compares offsets as text."""
    ordered: Offsets = {}
    for place in sorted(offsets):
        ordered.setdefault(place.topic, {})[str(place.partition)] = offsets[place]
    return ordered


def offsets_from_json(offsets: Offsets) -> dict[Place, int]:
    """The inverse of `offsets_to_json`."""
    return {
        Place(topic, int(partition)): int(offset)
        for topic, partitions in offsets.items()
        for partition, offset in partitions.items()
    }


def is_offsets(value: Any) -> TypeGuard[Offsets]:
    """Whether JSON out of a checkpoint, which may be any source's, is offsets of topics."""
    return isinstance(value, dict) and all(
        isinstance(topic, str)
        and isinstance(partitions, dict)
        and all(
            isinstance(partition, str)
            and partition.isascii()
            and partition.isdigit()
            and type(offset) is int
            and offset >= 0
            for partition, offset in partitions.items()
        )
        for topic, partitions in value.items()
    )


def listed(places: Iterable[object], most: int = 3) -> str:
    """`orders-0, orders-1`, and how many more, for the middle of a sentence."""
    names = [str(place) for place in places]
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
