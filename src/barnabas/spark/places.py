"""Where records lie, as planning and reading speak of it."""

from typing import NamedTuple


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
