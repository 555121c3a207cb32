"""What three replicas cost: the same load on a broker alone, on a partition of one replica in a
cluster of three, and on one of three replicas.

Rounds go in turns, in every order. All brokers, ZooKeeper and the load generator share one machine:
where its cores are fewer than those processes, a replicated record is written three times by the
same cores. How much of the speed of one broker that leaves is no secret once CPU time is known, so
each row says it twice: `ideal`, if a replica cost exactly what a broker alone costs and sending
nothing at all; and `possible`, with the CPU time that leader and followers have really used.
"""

import itertools
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from barnabas.bench import cluster, crew, host
from barnabas.bench.load import WAIT_S_MAX, Load, Outcome
from barnabas.bench.payload import build_batch
from barnabas.bench.ratio import Shape
from barnabas.bench.report import Column, Report, median

SHAPES: Final = (
    Shape("produce 1 MB, depth 5", "produce", 1_000_000, 5),
    Shape("produce 64 KB, depth 5", "produce", 65_536, 5),
    Shape("produce 8 KB, depth 5", "produce", 8_192, 5),
)
_ALL: Final = -1
ACKS: Final = (1, _ALL)
ALONE, ONE, THREE = "alone", "one", "three"
COLUMNS: Final = (
    Column("shape", "shape"),
    Column("acks", "acks"),
    Column("three_records_per_second", "three rec/s", "{:,.0f}"),
    Column("one_records_per_second", "one rec/s", "{:,.0f}"),
    Column("alone_records_per_second", "alone rec/s", "{:,.0f}"),
    Column("ratio", "ratio", "{:.2f}"),
    Column("ratio_low", "low", "{:.2f}"),
    Column("ratio_high", "high", "{:.2f}"),
    Column("ratio_to_one", "to one", "{:.2f}"),
    Column("ratio_everywhere", "everywhere", "{:.2f}"),
    Column("possible", "possible", "{:.2f}"),
    Column("ideal", "ideal", "{:.2f}"),
    Column("alone_cpu_s_per_gb", "alone s/GB", "{:.2f}"),
    Column("leader_cpu_s_per_gb", "leader s/GB", "{:.2f}"),
    Column("follower_cpu_s_per_gb", "follower s/GB", "{:.2f}"),
    Column("generator_cpu_s_per_gb", "generator s/GB", "{:.2f}"),
)
NOTES: Final = (
    "three: RF 3, min.insync.replicas 2; one: RF 1 in the same cluster; alone: a broker by itself.",
    "ratio: three / alone in acknowledged records per second, median of the rounds (low, high);",
    "  to one: three / one; everywhere: as ratio, but until every replica has all of it.",
    "s/GB: seconds of CPU for a gigabyte of batches; a follower's is the mean of the two.",
    "possible: the ratio if the cores were busy with nothing but the CPU time on the right;",
    "ideal: the same if leader and followers each needed what the broker alone needs, and no more.",
    "idle: so many partitions beside, in all three places, that nobody writes to.",
)


@dataclass(frozen=True)
class Options:
    """How thoroughly."""

    data: Path
    rounds: int = 6
    seconds: float = 1.0
    """Longest time of one round"""
    volume_bytes: int = 200_000_000
    """Most bytes of batches in one round"""
    shapes: tuple[Shape, ...] = SHAPES
    acks: tuple[int, ...] = ACKS
    idle: int = 100
    """Partitions beside, of as many replicas, that nobody writes to: for one more shape"""
    keep_awake: bool = True


class Round(NamedTuple):
    """One load on one place."""

    outcome: Outcome
    seconds_everywhere: float
    """Until every replica had everything."""
    cpu_seconds: Sequence[float]
    """Of each broker, the leader first."""

    @property
    def records_per_second(self) -> float:
        """Acknowledged records a second."""
        return self.outcome.records / self.outcome.seconds

    @property
    def records_per_second_everywhere(self) -> float:
        """Records a second, counted until they were on every replica."""
        return self.outcome.records / self.seconds_everywhere

    def per_gb(self, seconds: float) -> float:
        """So many seconds, for each gigabyte of this round."""
        return seconds / self.outcome.payload_bytes * 1e9


Rounds = dict[str, list[Round]]


def run_round(
    place: cluster.Replicated, workers: crew.Crew, shape: Shape, acks: int, options: Options
) -> Round:
    """Prepare a topic, run one load on it, wait for the last replica, drop it."""
    size = len(build_batch(shape.batch_bytes).data)
    requests = max(1, options.volume_bytes // size)
    server, members = place.members.leader, place.members
    topic = place.fresh()
    host.warm_memory(place.copies * requests * size + (8 << 20))
    load = Load(
        server.host, server.port, topic, "produce", shape.batch_bytes,
        requests, options.seconds, shape.depth, 1, acks,
    )  # fmt: skip
    # One request before the clock runs: followers that have never fetched are not what is measured.
    first = workers.run(replace(load, requests_max=1, seconds_max=WAIT_S_MAX, acks=_ALL))
    before = members.cpu_seconds()
    outcome = workers.run(load)
    more = place.wait_until_everywhere(topic, first.records + outcome.records)
    spent = [now - then for now, then in zip(members.cpu_seconds(), before, strict=True)]
    place.drop(topic)
    return Round(outcome, outcome.seconds + more, spent)


def compare(
    places: dict[str, cluster.Replicated],
    workers: crew.Crew,
    shape: Shape,
    acks: int,
    options: Options,
) -> Rounds:
    """Rounds on every place in turns; which follows upon which changes too."""
    rounds: Rounds = {name: [] for name in places}
    orders = itertools.cycle(itertools.permutations(places))
    for number, order in zip(range(options.rounds), orders, strict=False):
        for name in order:
            rounds[name].append(run_round(places[name], workers, shape, acks, options))
        rates = ", ".join(f"{rounds[name][-1].records_per_second:,.0f} {name}" for name in places)
        host.progress(
            f"{shape.name}, acks={acks}: round {number + 1}/{options.rounds}, {rates} records/s"
        )
    return rounds


def busiest(costs: Sequence[float], cores: int) -> float:
    """The least time that these single-threaded processes need together on so many cores."""
    return max(*costs, sum(costs) / cores)


def summarize(rounds: Rounds, cores: int) -> dict[str, Any]:
    """Medians, ratios, and what the CPU time allows for."""
    three, one, alone = rounds[THREE], rounds[ONE], rounds[ALONE]
    ratios = _ratios(three, alone)
    generator = median([each.per_gb(each.outcome.cpu_seconds) for each in alone + three])
    by_itself = median([each.per_gb(sum(each.cpu_seconds)) for each in alone])
    leader = median([each.per_gb(each.cpu_seconds[0]) for each in three])
    followers = [each.cpu_seconds[1:] for each in three]
    follower = median(
        [each.per_gb(sum(cpu) / len(cpu)) for each, cpu in zip(three, followers, strict=True)]
    )
    copies = len(three[0].cpu_seconds)
    single = busiest((by_itself, generator), cores)
    found: dict[str, Any] = {
        f"{name}_records_per_second": median([each.records_per_second for each in done])
        for name, done in rounds.items()
    }
    everywhere = [
        each.records_per_second_everywhere / other.records_per_second
        for each, other in zip(three, alone, strict=True)
    ]
    return found | {
        "ratio": median(ratios),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
        "ratio_to_one": median(_ratios(three, one)),
        "ratio_everywhere": median(everywhere),
        "possible": single / busiest((leader, *[follower] * (copies - 1), generator), cores),
        "ideal": single / busiest((*[by_itself] * copies, generator), cores),
        "alone_cpu_s_per_gb": by_itself,
        "leader_cpu_s_per_gb": leader,
        "follower_cpu_s_per_gb": follower,
        "generator_cpu_s_per_gb": generator,
        "rounds_ratio": ratios,
    }


def _ratios(some: Sequence[Round], others: Sequence[Round]) -> list[float]:
    return [
        each.records_per_second / other.records_per_second
        for each, other in zip(some, others, strict=True)
    ]


def _row(
    places: dict[str, cluster.Replicated],
    workers: crew.Crew,
    shape: Shape,
    acks: int,
    options: Options,
) -> dict[str, Any]:
    rounds = compare(places, workers, shape, acks, options)
    told = {"shape": shape.name, "acks": "all" if acks == _ALL else str(acks)}
    return told | summarize(rounds, os.cpu_count() or 1)


def run(options: Options) -> Report:
    """Compare three replicas with one, and with a broker alone."""
    rows: list[dict[str, Any]] = []
    cores = os.cpu_count() or 1
    load_before = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="replication-", dir=options.data) as folder,
        cluster.alone(Path(folder)) as alone,
        cluster.cluster(Path(folder)) as members,
        host.awake(options.keep_awake),
        crew.workers(1) as workers,
    ):
        places = {
            THREE: cluster.Replicated(members, cluster.BROKERS),
            ONE: cluster.Replicated(members, cluster.BROKERS[:1]),
            ALONE: cluster.Replicated(alone, ()),
        }
        for acks, shape in itertools.product(options.acks, options.shapes):
            rows.append(_row(places, workers, shape, acks, options))
        if options.idle:
            smallest = options.shapes[-1]
            shape = smallest._replace(name=f"{smallest.name}, {options.idle} idle")
            for place, _ in itertools.product(places.values(), range(options.idle)):
                place.fresh()
            rows += [_row(places, workers, shape, acks, options) for acks in options.acks]
    load_after = os.getloadavg()[0]
    said = {
        "rounds": options.rounds,
        "seconds": options.seconds,
        "volume_bytes": options.volume_bytes,
        "idle": options.idle,
        "keep_awake": options.keep_awake,
        "load_average": [load_before, load_after],
    }
    busy = (
        f"{cores} cores; load average {load_before:.1f} when it began and "
        f"{load_after:.1f} when it ended (the run itself is worth up to 6)."
    )
    return Report("replication", said, COLUMNS, rows, (*NOTES, busy))
