"""Where reading begins and ends: what `startingOffsets` and its relatives say, made into offsets.

The words, the JSON and the order of precedence are those of Spark's Kafka connector.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place, listed
from barnabas.spark.source import texts

LATEST: Final = -1
EARLIEST: Final = -2
_PARTITIONS_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1


class Edge(Enum):
    """Which end of the range is spoken of; the value is how its options begin."""

    START = "starting"
    END = "ending"


@dataclass(frozen=True)
class AtOffsets:
    """An offset for each partition; -1 is the end of its log, -2 the beginning."""

    offsets: tuple[tuple[Place, int], ...]


@dataclass(frozen=True)
class AtTimes:
    """The first record at or after a time (milliseconds) for each partition."""

    times: tuple[tuple[Place, int], ...]


@dataclass(frozen=True)
class AtTime:
    """The first record at or after one time, in every partition."""

    time_ms: int


@dataclass(frozen=True)
class Everywhere:
    """`earliest` or `latest`, for all partitions."""

    offset: int


Position = Everywhere | AtOffsets | AtTimes | AtTime


class Ends(Protocol):
    """What a cluster tells about the ends of its partitions' logs."""

    def earliest(self, places: Collection[Place]) -> dict[Place, int]:
        """The first offset of each."""

    def latest(self, places: Collection[Place], *, committed: bool) -> dict[Place, int]:
        """The next offset of each."""

    def at_time(self, times: Mapping[Place, int]) -> dict[Place, int | None]:
        """The first offset at or after a time; None when there is none."""


def parse_position(edge: Edge, options: Mapping[str, str], default: int) -> Position:
    """The first that is given of `…Timestamp`, `…OffsetsByTimestamp` and `…Offsets`."""
    word = edge.value
    if (text := options.get(f"{word}timestamp")) is not None:
        return AtTime(texts.integer(f"{word}Timestamp", text, least=0))
    if (text := options.get(f"{word}offsetsbytimestamp")) is not None:
        by_place = parse_by_place(f"{word}OffsetsByTimestamp", text, least=0)
        return AtTimes(tuple(sorted(by_place.items())))
    text = options.get(f"{word}offsets")
    match text.strip().lower() if text is not None else None:
        case None:
            return Everywhere(default)
        case "latest":
            return Everywhere(LATEST)
        case "earliest":
            return Everywhere(EARLIEST)
    by_place = parse_by_place(f"{word}Offsets", text or "", least=EARLIEST)
    return AtOffsets(tuple(sorted(by_place.items())))


def parse_by_place(name: str, text: str, *, least: int) -> dict[Place, int]:
    """`{"orders": {"0": 23, "1": -1}}`."""
    example = '{"orders": {"0": 23, "1": 42}}'
    value = _json(name, text, example)
    numbers: dict[Place, int] = {}
    for topic, by_partition in _items(value, name, text, example):
        for partition, number in _items(by_partition, name, text, example):
            number_of = texts.integer(
                f"A partition of {topic} in {name}", partition, least=0, most=_PARTITIONS_MAX
            )
            place = Place(topic, number_of)
            if place in numbers:
                raise _unlike(name, text, example)
            if type(number) is not int or not least <= number <= _LONG_MAX:
                raise SparkJobError(
                    f"{name} says {number!r} for {place}: give a whole number from {least} on"
                    + (", where -1 is the end of the log and -2 its beginning." if least else ".")
                )
            numbers[place] = number
    if not numbers:
        raise SparkJobError(f"{name} is {text!r} and names no partition: expected {example}.")
    return numbers


def parse_assignment(text: str) -> tuple[Place, ...]:
    """`{"orders": [0, 1]}`."""
    example = '{"orders": [0, 1]}'
    places: set[Place] = set()
    for topic, partitions in _items(_json("assign", text, example), "assign", text, example):
        if not isinstance(partitions, list):
            raise _unlike("assign", text, example)
        for partition in partitions:
            if type(partition) is not int or not 0 <= partition <= _PARTITIONS_MAX:
                raise _unlike("assign", text, example)
            places.add(Place(topic, partition))
    if not places:
        raise SparkJobError(f"assign is {text!r} and names no partition: expected {example}.")
    return tuple(sorted(places))


def _items(value: Any, name: str, text: str, example: str) -> Sequence[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise _unlike(name, text, example)
    return list(value.items())


def _json(name: str, text: str, example: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = dict(pairs)
        if len(keys) < len(pairs):
            raise ValueError("a name stands twice")
        return keys

    try:
        return json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as problem:
        raise _unlike(name, text, example) from problem


def _unlike(name: str, text: str, example: str) -> SparkJobError:
    shown = text if len(text) <= 200 else text[:200] + "…"
    return SparkJobError(f"{name} is {shown!r}: expected JSON such as {example}.")


def check_for_batch(start: Position, end: Position) -> None:
    """What can not be, whatever the topics hold."""
    if start == Everywhere(LATEST):
        raise SparkJobError(
            "startingOffsets can not be latest in a batch query, which would have nothing to read: "
            "leave it out, or give offsets, or a startingTimestamp."
        )
    if end == Everywhere(EARLIEST):
        raise SparkJobError("endingOffsets can not be earliest in a batch query: leave it out.")
    for position, offset, name, instead in (
        (start, LATEST, "starting", f"{EARLIEST} for the earliest"),
        (end, EARLIEST, "ending", f"{LATEST} for the latest"),
    ):
        if isinstance(position, AtOffsets):
            for place, wanted in position.offsets:
                if wanted == offset:
                    raise SparkJobError(
                        f"{name}Offsets can not be {offset} for {place} in a batch query: use an "
                        f"offset, or {instead}."
                    )
    if isinstance(start, AtOffsets) and isinstance(end, AtOffsets):
        _check_order("Offsets", dict(start.offsets), dict(end.offsets))
    if isinstance(start, AtTimes) and isinstance(end, AtTimes):
        _check_order("OffsetsByTimestamp", dict(start.times), dict(end.times))


def _check_order(name: str, start: Mapping[Place, int], end: Mapping[Place, int]) -> None:
    odd = sorted(start.keys() ^ end.keys())
    if odd:
        raise SparkJobError(
            f"starting{name} and ending{name} must name the same partitions, and "
            f"{listed(odd, most=5)} stands in one of them only."
        )
    for place, first in start.items():
        # Negative numbers stand for ends that are not known yet.
        if first > end[place] >= 0:
            raise SparkJobError(
                f"starting{name} is {first} for {place}, after ending{name}, which is {end[place]}."
            )


@dataclass(frozen=True)
class Resolved:
    """Offsets, and which of them are nothing but the end the log had a moment ago."""

    offsets: dict[Place, int]
    at_end: frozenset[Place] = frozenset()


def resolve(
    edge: Edge,
    position: Position,
    places: Sequence[Place],
    cluster: Ends,
    *,
    committed: bool,
    late_start: bool = False,
) -> Resolved:
    """An offset for each partition.

    `late_start`: where no record is as young as `startingTimestamp` asks, begin at the end
    (`startingOffsetsByTimestampStrategy=latest`) instead of giving up.
    """
    match position:
        case Everywhere(offset):
            wanted = dict.fromkeys(places, offset)
        case AtOffsets(offsets):
            wanted = dict(offsets)
            advice = "use -1 for latest, -2 for earliest"
            _check_named(f"{edge.value}Offsets", wanted, places, advice)
        case AtTimes(times):
            by_place = dict(times)
            _check_named(f"{edge.value}OffsetsByTimestamp", by_place, places, "give each a time")
            wanted = _at_times(edge, by_place, cluster, committed, late_start)
        case AtTime(time_ms):
            by_place = dict.fromkeys(places, time_ms)
            wanted = _at_times(edge, by_place, cluster, committed, late_start)
    last = [place for place, offset in wanted.items() if offset == LATEST]
    first = [place for place, offset in wanted.items() if offset == EARLIEST]
    if last:
        wanted |= cluster.latest(last, committed=committed)
    if first:
        wanted |= cluster.earliest(first)
    return Resolved(wanted, frozenset(last))


def _check_named(name: str, named: Collection[Place], places: Sequence[Place], advice: str) -> None:
    missing = sorted(set(places) - set(named))
    unknown = sorted(set(named) - set(places))
    if missing:
        raise SparkJobError(
            f"{name} must name every partition that is read, and does not name "
            f"{listed(missing, most=5)}: {advice}."
        )
    if unknown:
        raise SparkJobError(
            f"{name} names {listed(unknown, most=5)}, which this query does not read or which does "
            "not exist: take it out."
        )


def _at_times(
    edge: Edge, times: dict[Place, int], cluster: Ends, committed: bool, late_start: bool
) -> dict[Place, int]:
    found = cluster.at_time(times)
    # A record of a transaction that is open still does not count as there, as for any reader.
    ends = cluster.latest(times, committed=True) if committed else {}
    offsets: dict[Place, int] = {}
    for place, offset in found.items():
        there = offset is not None and (place not in ends or offset < ends[place])
        if not there and edge is Edge.START and not late_start:
            raise SparkJobError(
                f"No record of {place} has a timestamp of {times[place]} or later: start earlier, "
                "or set startingOffsetsByTimestampStrategy to latest."
            )
        offsets[place] = offset if there and offset is not None else LATEST
    return offsets
