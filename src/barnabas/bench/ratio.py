"""How near the broker comes to the limit server: the same bytes to both, in turns.

A round is one short, bounded load on one server. Rounds alternate between broker and limit, so
that what the machine does besides hits both; each pair gives one ratio, and the median of the
pairs counts. On few cores the generator competes with the server, so next to the ratio of wall
time stands the ratio of CPU time per request, which does not depend on who else was running.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from barnabas.bench import admin, crew, frames, host, subject
from barnabas.bench.load import Load, Outcome
from barnabas.bench.payload import build_batch
from barnabas.bench.report import Column, Report, median, spread
from barnabas.model.errors import BarnabasError

FETCH_BYTES: Final = 1 << 20


class Shape(NamedTuple):
    """One kind of load."""

    name: str
    kind: str
    batch_bytes: int
    depth: int


SHAPES: Final = (
    Shape("produce 1 MB, depth 5", "produce", 1_000_000, 5),
    Shape("produce 100 KB, depth 5", "produce", 100_000, 5),
    Shape("produce 8 KB, depth 5", "produce", 8_192, 5),
    Shape("produce 1 record, depth 1", "produce", 0, 1),
    Shape("produce 1 record, depth 5", "produce", 0, 5),
    Shape("consume 1 MB fetches", "consume", 100_000, 1),
)


@dataclass(frozen=True)
class Options:
    """What to compare, and how thoroughly."""

    data: Path
    """Broker and limit server keep their files below this directory"""
    argv: Sequence[str] = subject.DEFAULT_ARGV
    bootstrap: str | None = None
    shapes: tuple[Shape, ...] = SHAPES
    rounds: int = 7
    seconds: float = 0.5
    """Longest time of one round"""
    volume_bytes: int = 200_000_000
    """Most bytes written in one round"""
    acks: int = -1
    connections: int = 1
    processes: int = 1
    keep_awake: bool = True
    topic_configs: dict[str, str] = field(default_factory=dict)


class Target(Protocol):
    """A server that rounds are run against."""

    server: subject.Subject
    offsets_are_bytes: bool

    def fresh(self) -> str:
        """An empty topic."""

    def drop(self, topic: str) -> None:
        """Give its disk space back."""


class BrokerTarget:
    """The broker: a new topic for every round."""

    offsets_are_bytes = False

    def __init__(self, server: subject.Subject, configs: dict[str, str]) -> None:
        self.server = server
        self._configs = configs

    def fresh(self) -> str:
        """An empty topic."""
        topic = admin.new_topic_name()
        admin.create_topic(self.server.host, self.server.port, topic, self._configs)
        return topic

    def drop(self, topic: str) -> None:
        """Delete the topic."""
        admin.delete_topic(self.server.host, self.server.port, topic)


class LimitTarget:
    """The limit server: one file, emptied after every round."""

    offsets_are_bytes = True

    def __init__(self, server: subject.Subject) -> None:
        self.server = server

    def fresh(self) -> str:
        """A name of the right length is all it needs."""
        return admin.new_topic_name()

    def drop(self, topic: str) -> None:
        """Empty the file."""
        admin.exchange(self.server.host, self.server.port, frames.delete_topic(topic))


class Round(NamedTuple):
    """One load on one server."""

    outcome: Outcome
    server_cpu_seconds: float | None

    @property
    def records_per_second(self) -> float:
        """Acknowledged (or read) records a second."""
        return self.outcome.records / self.outcome.seconds

    @property
    def cpu_us_per_request(self) -> float | None:
        """CPU time the server spent on one request."""
        if self.server_cpu_seconds is None:
            return None
        return self.server_cpu_seconds / self.outcome.requests * 1e6


def run_round(target: Target, workers: crew.Crew, shape: Shape, options: Options) -> Round:
    """Prepare a topic, run one load on it, drop it."""
    batch = build_batch(shape.batch_bytes)
    size, server = len(batch.data), target.server
    requests = max(1, options.volume_bytes // size)
    topic = target.fresh()
    host.warm_memory(min(options.volume_bytes, requests * size) + (8 << 20))
    write = Load(
        server.host, server.port, topic, "produce", shape.batch_bytes,
        requests, options.seconds, shape.depth, options.connections, options.acks,
    )  # fmt: skip
    load = write
    if shape.kind == "consume":
        written = workers.run(write)
        end = written.payload_bytes if target.offsets_are_bytes else written.records
        load = Load(
            server.host, server.port, topic, "consume", shape.batch_bytes, requests * 10,
            options.seconds, connections=options.connections,
            fetch_bytes=FETCH_BYTES // size * size, end_offset=end,
            offsets_are_bytes=target.offsets_are_bytes,
        )  # fmt: skip
    before = server.cpu_seconds()
    outcome = workers.run(load)
    after = server.cpu_seconds()
    target.drop(topic)
    return Round(outcome, None if before is None or after is None else after - before)


def summarize(shape: Shape, pairs: Sequence[tuple[Round, Round]]) -> dict[str, Any]:
    """Medians, ratios and spread of (broker, limit) pairs; 1.0 means: as fast as the limit."""
    ratios = [broker.records_per_second / limit.records_per_second for broker, limit in pairs]
    cpu_ratios = [
        limit.cpu_us_per_request / broker.cpu_us_per_request
        for broker, limit in pairs
        if broker.cpu_us_per_request and limit.cpu_us_per_request
    ]
    rows: dict[str, Any] = {"shape": shape.name}
    for name, rounds in zip(("broker", "limit"), zip(*pairs, strict=True), strict=True):
        rows |= _side(name, rounds)
    rows["ratio"] = median(ratios)
    rows["ratio_low"], rows["ratio_high"] = min(ratios), max(ratios)
    rows["cpu_ratio"] = median(cpu_ratios) if cpu_ratios else None
    return rows


def _side(name: str, rounds: Sequence[Round]) -> dict[str, Any]:
    rates = [each.records_per_second for each in rounds]
    cpus = [each.cpu_us_per_request for each in rounds if each.cpu_us_per_request is not None]
    return {
        f"{name}_records_per_second": median(rates),
        f"{name}_requests_per_second": median(
            [each.outcome.requests / each.outcome.seconds for each in rounds]
        ),
        f"{name}_spread": spread(rates),
        f"{name}_cpu_us_per_request": median(cpus) if cpus else None,
        f"{name}_generator_load": median(
            [each.outcome.cpu_seconds / each.outcome.seconds for each in rounds]
        ),
        f"{name}_rounds_records_per_second": rates,
    }


COLUMNS: Final = (
    Column("shape", "shape"),
    Column("broker_records_per_second", "broker rec/s", "{:,.0f}"),
    Column("limit_records_per_second", "limit rec/s", "{:,.0f}"),
    Column("ratio", "ratio", "{:.2f}"),
    Column("ratio_low", "low", "{:.2f}"),
    Column("ratio_high", "high", "{:.2f}"),
    Column("broker_cpu_us_per_request", "broker µs/req", "{:,.1f}"),
    Column("limit_cpu_us_per_request", "limit µs/req", "{:,.1f}"),
    Column("cpu_ratio", "CPU ratio", "{:.2f}"),
    Column("broker_spread", "spread", "{:.0%}"),
    Column("limit_generator_load", "generator", "{:.0%}"),
)
NOTES: Final = (
    "ratio: broker/limit in acknowledged records per second, median of the pairs (low, high).",
    "CPU ratio: CPU time per request of the limit divided by the broker's.",
    "generator: how busy the load generator was against the limit (near 100%: it held it up).",
)


CALIBRATED: Final = "Both sides are the limit server: every ratio should be 1.0."


def compare(first: Target, second: Target, options: Options) -> list[dict[str, Any]]:
    """Alternate rounds on two servers, shape by shape (which goes first alternates too)."""
    if options.rounds < 1:
        raise BarnabasError("A comparison needs at least one round.")
    rows = []
    with host.awake(options.keep_awake), crew.workers(options.processes) as workers:
        for shape in options.shapes:
            pairs: list[tuple[Round, Round]] = []
            for number in range(options.rounds):
                order = (first, second) if number % 2 == 0 else (second, first)
                done = [run_round(target, workers, shape, options) for target in order]
                pairs.append((done[0], done[1]) if number % 2 == 0 else (done[1], done[0]))
                host.progress(
                    f"{shape.name}: round {number + 1}/{options.rounds}, "
                    f"{pairs[-1][0].records_per_second:,.0f} against "
                    f"{pairs[-1][1].records_per_second:,.0f} records/s"
                )
            rows.append(summarize(shape, pairs))
    return rows


def run(options: Options) -> Report:
    """Compare the broker with the limit server."""
    with (
        tempfile.TemporaryDirectory(prefix="ratio-", dir=options.data) as folder,
        crew.limit_server(Path(folder)) as limit,
        subject.running(Path(folder), options.argv, options.bootstrap) as broker,
    ):
        rows = compare(BrokerTarget(broker, options.topic_configs), LimitTarget(limit), options)
    return Report("ratio", _said(options), COLUMNS, rows, NOTES)


def calibrate(options: Options) -> Report:
    """Compare the limit server with itself: how far from 1.0 this machine's noise leads."""
    with (
        tempfile.TemporaryDirectory(prefix="first-", dir=options.data) as first,
        tempfile.TemporaryDirectory(prefix="second-", dir=options.data) as second,
        crew.limit_server(Path(first)) as one,
        crew.limit_server(Path(second)) as other,
    ):
        rows = compare(LimitTarget(one), LimitTarget(other), options)
    return Report("calibrate", _said(options), COLUMNS, rows, (CALIBRATED, *NOTES))


def _said(options: Options) -> dict[str, Any]:
    return {
        "rounds": options.rounds,
        "seconds": options.seconds,
        "volume_bytes": options.volume_bytes,
        "acks": options.acks,
        "connections": options.connections,
        "processes": options.processes,
        "keep_awake": options.keep_awake,
        "topic_configs": options.topic_configs,
    }
