"""What much stored data costs: speed beside an empty broker, starts, and many partitions.

Two brokers on one machine. One holds a topic of many gigabytes, the other nothing. Both are
written to and read at the end in turns: the full one in its full topic, the empty one in a topic
that is new for each kind of load. Each pair gives a ratio, and the median counts; whatever else
the machine does hits both.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from barnabas.bench import admin, crew, host, partitions, subject
from barnabas.bench.lives import life
from barnabas.bench.load import Load, Outcome
from barnabas.bench.payload import build_batch
from barnabas.bench.ratio import FETCH_BYTES, Shape
from barnabas.bench.report import Column, Report, median
from barnabas.model.errors import BarnabasError

_GB: Final = 1_000_000_000
_FILL_BATCH_BYTES: Final = 1_000_000
_FILL_S_MAX: Final = 3600.0


SHAPES: Final = (
    Shape("append 100 KB, depth 5", "produce", 100_000, 5),
    Shape("append 8 KB, depth 5", "produce", 8_192, 5),
    Shape("append 1 record, depth 1", "produce", 0, 1),
    Shape("tail read, 1 MB fetches", "consume", 100_000, 5),
)


@dataclass(frozen=True)
class Options:
    """How much is stored, and how thoroughly it is looked at."""

    data: Path
    argv: Sequence[str] = subject.DEFAULT_ARGV
    gigabytes: float = 20.0
    partitions_started: int = 2_000
    partitions_served: int = 10_000
    shapes: tuple[Shape, ...] = SHAPES
    rounds: int = 11
    seconds: float = 0.5
    """Longest time of one round"""
    volume_bytes: int = 100_000_000
    """Most bytes written in one round"""
    keep_awake: bool = True


class Side:
    """One of the two brokers: a topic of it, and where that ends."""

    def __init__(self, server: subject.Subject, topic: str = "", end: int = 0) -> None:
        self._server = server
        self._topic = topic or admin.new_topic_name()
        self._end = end
        if not topic:
            admin.create_topic(server.host, server.port, self._topic)

    def round(self, workers: crew.Crew, shape: Shape, options: Options) -> Outcome:
        """Write at the end, or read what was just written there."""
        size = len(build_batch(shape.batch_bytes).data)
        requests = max(1, options.volume_bytes // size)
        host.warm_memory(min(options.volume_bytes, requests * size) + (8 << 20))
        load = Load(
            self._server.host, self._server.port, self._topic, "produce", shape.batch_bytes,
            requests, options.seconds, shape.depth,
        )  # fmt: skip
        outcome = workers.run(load)
        start, self._end = self._end, self._end + outcome.records
        if shape.kind == "consume":
            reading = replace(
                load, kind="consume", requests_max=requests * 10, depth=1,
                fetch_bytes=FETCH_BYTES // size * size, start_offset=start, end_offset=self._end,
            )  # fmt: skip
            outcome = workers.run(reading)
        return outcome

    def drop(self) -> None:
        """Give the topic's disk space back."""
        admin.delete_topic(self._server.host, self._server.port, self._topic)


def run(options: Options) -> Report:
    """Fill a broker, hold it against an empty one, start it again; then many partitions."""
    _check_room(options)
    with tempfile.TemporaryDirectory(prefix="storage-", dir=options.data) as folder:
        rows = _stored(options, Path(folder))
    for count in (options.partitions_started, options.partitions_served):
        rows += partitions.measure(options.data, count, options.argv)
    return Report("storage", _said(options), COLUMNS, rows, NOTES)


def _check_room(options: Options) -> None:
    if options.rounds < 1 or options.gigabytes <= 0:
        raise BarnabasError("The comparison needs at least one round, and something stored.")
    written = options.rounds * len(options.shapes) * 2 * options.volume_bytes
    needed = options.gigabytes * _GB + written
    free = shutil.disk_usage(options.data).free
    if free < needed * 1.1:
        raise BarnabasError(
            f"{options.data} has {free / _GB:.0f} GB left, and {needed * 1.1 / _GB:.0f} GB are "
            "needed: choose less with --gigabytes, or another place with --data."
        )


def _stored(options: Options, folder: Path) -> list[dict[str, Any]]:
    full, empty = folder / "full", folder / "empty"
    for each in (full, empty):
        each.mkdir()
    stored = f"{options.gigabytes:g} GB"
    with (
        crew.workers(1) as workers,
        life(full, options.argv) as holder,
        life(empty, options.argv) as other,
    ):
        topic, end = _fill(holder.server, workers, options.gigabytes)
        stored_side = Side(holder.server, topic, end)
        with host.awake(options.keep_awake):
            rows = [
                _compared(stored_side, Side(other.server), workers, shape, options)
                for shape in options.shapes
            ]
        rows.append(holder.stop(f"clean stop, {stored}"))
        other.stop("")
    rows += _starts(options, (empty, "nothing"), (full, stored))
    return rows


def _fill(server: subject.Subject, workers: crew.Crew, gigabytes: float) -> tuple[str, int]:
    topic, end, left = admin.new_topic_name(), 0, int(gigabytes * _GB)
    admin.create_topic(server.host, server.port, topic)
    while left > 0:
        requests = max(1, min(left, _GB) // _FILL_BATCH_BYTES)
        load = Load(
            server.host, server.port, topic, "produce", _FILL_BATCH_BYTES, requests, _FILL_S_MAX, 5
        )
        outcome = workers.run(load)
        end += outcome.records
        left -= outcome.payload_bytes
        rate = outcome.payload_bytes / outcome.seconds / 1e6
        host.progress(f"filling: {max(left, 0) / _GB:.1f} GB left, {rate:.0f} MB/s")
    os.sync()  # What the system writes back later would be in the way of the rounds.
    return topic, end


def _compared(
    full: Side, empty: Side, workers: crew.Crew, shape: Shape, options: Options
) -> dict[str, Any]:
    rates: dict[Side, list[float]] = {full: [], empty: []}
    for number in range(options.rounds):
        for side in (full, empty) if number % 2 == 0 else (empty, full):
            outcome = side.round(workers, shape, options)
            rates[side].append(outcome.records / outcome.seconds)
        host.progress(
            f"{shape.name}: round {number + 1}/{options.rounds}, {rates[full][-1]:,.0f} against "
            f"{rates[empty][-1]:,.0f} records/s with nothing stored"
        )
    empty.drop()
    ratios = [one / other for one, other in zip(rates[full], rates[empty], strict=True)]
    return {
        "what": shape.name,
        "full_records_per_second": median(rates[full]),
        "empty_records_per_second": median(rates[empty]),
        "ratio": median(ratios),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
        "full_rounds_records_per_second": rates[full],
        "empty_rounds_records_per_second": rates[empty],
    }


def _starts(options: Options, *places: tuple[Path, str]) -> list[dict[str, Any]]:
    """Clean starts, in turns; the first of each also warms what all of them read."""
    rows: dict[str, dict[str, Any]] = {}
    for _ in range(2):
        for folder, stored in places:
            with life(folder, options.argv) as again:
                row = again.started(f"clean start, {stored} stored")
                again.stop("")
            rows[stored] = min(row, rows.get(stored, row), key=lambda each: each["seconds"])
            host.progress(f"{row['what']}: {row['seconds']:.2f} s, {row['peak_mib']:.0f} MiB")
    return list(rows.values())


COLUMNS: Final = (
    Column("what", "what"),
    Column("full_records_per_second", "stored rec/s", "{:,.0f}"),
    Column("empty_records_per_second", "empty rec/s", "{:,.0f}"),
    Column("ratio", "ratio", "{:.2f}"),
    Column("ratio_low", "low", "{:.2f}"),
    Column("ratio_high", "high", "{:.2f}"),
    Column("seconds", "seconds", "{:,.2f}"),
    Column("peak_mib", "peak MiB", "{:,.0f}"),
    Column("descriptors", "descriptors", "{:,}"),
)
NOTES: Final = (
    "ratio: the broker that holds the data against the empty one, median of the pairs (low, high).",
    "clean start: from the start of the process to the first acknowledged record (better of two).",
    "peak: the most memory the broker's process has held up to then, without the page cache.",
)


def _said(options: Options) -> dict[str, Any]:
    return {
        "gigabytes": options.gigabytes,
        "partitions_started": options.partitions_started,
        "partitions_served": options.partitions_served,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "volume_bytes": options.volume_bytes,
        "keep_awake": options.keep_awake,
    }
