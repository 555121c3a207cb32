"""How many bytes an offset of a partition stands for, as far as that can be known beforehand.

A partition's bytes on disk over the offsets it holds. It is an estimate, for cutting work into
pieces: compaction and transactions leave holes, and records are never all of one size.
"""

import time
from collections.abc import Collection, Mapping
from typing import Final, Protocol

from barnabas.spark.places import Place, Span

ASSUMED_BYTES: Final = 100.0
"""Of an offset about which nothing is known: the classic record of every Kafka benchmark."""

_TRUE_FOR_S: Final = 30.0
"""A topic's records do not change their size from one micro-batch to the next."""


class Logs(Protocol):
    """What a cluster tells about the size of its partitions."""

    def earliest(self, places: Collection[Place]) -> dict[Place, int]:
        """The first offset of each."""

    def latest(self, places: Collection[Place], *, committed: bool) -> dict[Place, int]:
        """The next offset of each."""

    def stored_bytes(self, places: Collection[Place]) -> dict[Place, int]:
        """Bytes on disk, of those that may be asked."""


class Sizes:
    """Bytes per offset, kept for a while."""

    def __init__(self) -> None:
        self._known: dict[Place, float] = {}
        self._asked_at: dict[Place, float] = {}

    def per_offset(self, cluster: Logs, places: Collection[Place]) -> Mapping[Place, float]:
        """An estimate for each; `ASSUMED_BYTES` where there is nothing to estimate from."""
        now = time.monotonic()
        unknown = [
            place
            for place in places
            if now - self._asked_at.get(place, -_TRUE_FOR_S) >= _TRUE_FOR_S
        ]
        if unknown:
            self._known |= estimate(cluster, unknown)
            self._asked_at |= dict.fromkeys(unknown, now)
        return {place: self._known.get(place, ASSUMED_BYTES) for place in places}


def estimate(cluster: Logs, places: Collection[Place]) -> dict[Place, float]:
    """Bytes per offset of those partitions that hold anything and may be asked."""
    stored = {place: size for place, size in cluster.stored_bytes(places).items() if size > 0}
    if not stored:
        return {}
    first = cluster.earliest(stored)
    end = cluster.latest(stored, committed=False)
    return {
        place: size / (end[place] - first[place])
        for place, size in stored.items()
        if end[place] > first[place]
    }


def bytes_of(spans: Collection[Span], per_offset: Mapping[Place, float]) -> float:
    """What the spans come to together."""
    return sum(span.offsets * per_offset[span.place] for span in spans)
