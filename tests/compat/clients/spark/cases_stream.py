"""Streaming jobs that both connectors do: equal rows, in equal micro-batches."""

import json
import shutil
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tests.compat.clients.spark.harness import (
    FORMATS,
    OFFICIAL,
    OURS,
    Bench,
    Options,
    Trigger,
    differences,
)
from tests.compat.clients.spark.topics import BORN_MS, Topics

Between = Callable[[Topics], None]


class StreamCase(NamedTuple):
    """A query; with `between`, it is stopped, something happens, and it goes on."""

    name: str
    options: Options
    between: Between | None = None


EARLIEST: Final = {"startingOffsets": "earliest"}
PLAIN: Final = {"subscribe": "plain"} | EARLIEST
COMMITTED: Final = {"kafka.isolation.level": "read_committed"}


def _grow(topics: Topics) -> None:
    topics.add_plain("grows", range(40, 60), 1)
    topics.extend("grows", 3)
    topics.add_plain("grows", range(60, 100), 3)


def _one_more_topic(topics: Topics) -> None:
    topics.fill_plain("family-2", partitions=2, records=30)


def _add_to_tail(topics: Topics) -> None:
    topics.add_plain("tail", range(20, 50), 2)


def _lose_some(topics: Topics) -> None:
    topics.add_plain("loses", range(20, 60), 1)
    topics.delete_records("loses", 30)


CASES: Final = (
    StreamCase("everything", PLAIN),
    StreamCase("headers", PLAIN | {"includeHeaders": "true"}),
    StreamCase("limited", PLAIN | {"maxOffsetsPerTrigger": "64"}),
    StreamCase(
        "limited to one", {"subscribe": "pattern-a"} | EARLIEST | {"maxOffsetsPerTrigger": "3"}
    ),
    StreamCase(
        "limited, topics of unlike size",
        {"subscribePattern": "pattern-a|plain", "maxOffsetsPerTrigger": "100"} | EARLIEST,
    ),
    StreamCase("at least some", PLAIN | {"minOffsetsPerTrigger": "10"}),
    StreamCase(
        "at least and at most", PLAIN | {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "90"}
    ),
    StreamCase("assign", {"assign": json.dumps({"plain": [1, 2]})} | EARLIEST),
    StreamCase("from latest", {"subscribe": "plain", "startingOffsets": "latest"}),
    StreamCase(
        "from offsets",
        {
            "subscribe": "plain",
            "startingOffsets": json.dumps({"plain": {"0": 100, "1": -2, "2": -1}}),
        },
    ),
    StreamCase("from a time", {"subscribe": "plain", "startingTimestamp": str(BORN_MS + 250_000)}),
    StreamCase(
        "from times of partitions",
        {
            "subscribe": "plain",
            "startingOffsetsByTimestamp": json.dumps(
                {"plain": {"0": BORN_MS + 9_000, "1": BORN_MS + 100_000, "2": BORN_MS + 9_999_000}}
            ),
            "startingOffsetsByTimestampStrategy": "latest",
        },
    ),
    StreamCase("compressed", {"subscribe": "codec-zstd", "maxOffsetsPerTrigger": "170"} | EARLIEST),
    StreamCase("minPartitions", PLAIN | {"minPartitions": "7"}),
    StreamCase("transactions", {"subscribe": "transactions"} | EARLIEST | COMMITTED),
    StreamCase(
        "transactions, limited",
        {"subscribe": "transactions", "maxOffsetsPerTrigger": "30"} | EARLIEST | COMMITTED,
    ),
    StreamCase("an open transaction", {"subscribe": "open"} | EARLIEST | COMMITTED),
    StreamCase(
        "compacted, limited",
        {"subscribe": "compacted", "maxOffsetsPerTrigger": "150"} | EARLIEST,
    ),
    StreamCase("the broker's time", {"subscribe": "stamped"} | EARLIEST),
    StreamCase("goes on from latest", {"subscribe": "tail"}, _add_to_tail),
    StreamCase("new partitions", {"subscribe": "grows"} | EARLIEST, _grow),
    StreamCase("a new topic", {"subscribePattern": "family-.*"} | EARLIEST, _one_more_topic),
    StreamCase(
        "records lost, allowed",
        {"subscribe": "loses", "failOnDataLoss": "false"} | EARLIEST,
        _lose_some,
    ),
)


def fill(topics: Topics) -> None:
    """The topics that change between two runs; the others are the batch jobs'."""
    topics.fill_plain("grows", partitions=1, records=40)
    topics.fill_plain("family-1", partitions=1, records=25)
    topics.fill_plain("loses", partitions=1, records=20)
    topics.fill_plain("tail", partitions=2, records=20)
    topics.fill_plain("moves", partitions=2, records=40)


def compare(bench: Bench, case: StreamCase) -> Iterator[str]:
    """What the two connectors do differently in one query."""
    runs: dict[str, list[Trigger]] = {}
    for name in FORMATS:
        runs[name] = bench.stream(name, case.options, _checkpoint(case.name, name))
    yield from _compared(case.name, runs[OFFICIAL], runs[OURS])
    if case.between is None:
        return
    case.between(bench.topics)
    for name in FORMATS:
        runs[name] = bench.stream(name, case.options, _checkpoint(case.name, name))
    if not runs[OFFICIAL]:
        raise AssertionError(f"{case.name}: the official connector did not go on")
    yield from _compared(f"{case.name}, continued", runs[OFFICIAL], runs[OURS])


def change_connectors(bench: Bench, first: str, second: str) -> tuple[list[Trigger], list[Trigger]]:
    """A query on one connector, stopped and continued on the other; both runs.

    What it must bring is what the first connector brings when it goes on itself: that is run too,
    from a copy of the same checkpoint, and returned as what is expected.
    """
    options = {"subscribe": "moves", "maxOffsetsPerTrigger": "25"} | EARLIEST
    moved, stayed = f"move-{first}-{second}", f"stay-{first}-{second}"
    bench.stream(first, options, moved)
    shutil.copytree(bench.home / moved, bench.home / stayed)
    bench.topics.add_plain("moves", range(40, 70), 2)
    expected = bench.stream(first, options, stayed)
    return expected, bench.stream(second, options, moved)


def _checkpoint(case: str, format_name: str) -> str:
    return f"{case.replace(' ', '-').replace(',', '')}-{format_name}"


def _compared(name: str, official: list[Trigger], ours: list[Trigger]) -> Iterator[str]:
    ends = [[(each.batch, each.end) for each in run] for run in (official, ours)]
    for line in differences(*ends):
        yield f"stream, {name}: batches: {line}"
    rows = [
        sorted((row for each in run for row in each.rows), key=repr) for run in (official, ours)
    ]
    for line in differences(*rows):
        yield f"stream, {name}: {line}"
    if ends[0] == ends[1]:
        sizes = [[len(each.rows) for each in run] for run in (official, ours)]
        for line in differences(*sizes):
            yield f"stream, {name}: rows of batches: {line}"
