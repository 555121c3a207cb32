"""`barnabas bench`: how fast this broker is on this machine, next to what the machine can do."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.cli.output import note

if TYPE_CHECKING:
    from barnabas.bench.report import Report

app = typer.Typer(
    help="Measure this broker on this machine, next to what the machine can do.",
    no_args_is_help=True,
)

RATIO_EXAMPLES: Final = """\b
Examples:
  barnabas bench ratio
  barnabas bench ratio --rounds 15 --json
  barnabas bench ratio --calibrate          how much this machine's noise is
"""
ALL_EXAMPLES: Final = """\b
Examples:
  barnabas bench all
  barnabas bench all --results bench/results
"""

Rounds = Annotated[int, typer.Option(min=1, help="How often each figure is taken.")]
Seconds = Annotated[float, typer.Option(min=0.05, help="The longest time of one round.")]
Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where files go meanwhile.  [default: a temporary one]"),
]
Running = Annotated[
    str | None,
    typer.Option("--bootstrap", "-b", metavar="HOST:PORT",
                 help="Measure a broker that runs, instead of a new one."),
]  # fmt: skip
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Results = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write what is printed there, as text and as JSON."),
]


@contextmanager
def _room(data: Path | None) -> Iterator[Path]:
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
        yield data
        return
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as folder:
        yield Path(folder)


def _tell(report: "Report", as_json: bool, results: Path | None) -> None:
    print(report.to_json() if as_json else f"{report.render()}\n", flush=True)
    if results is not None:
        results.mkdir(parents=True, exist_ok=True)
        (results / f"{report.benchmark}.txt").write_text(f"{report.render()}\n")
        (results / f"{report.benchmark}.json").write_text(f"{report.to_json()}\n")
        note(f"written to {results / report.benchmark}.txt and .json")


@app.command("ratio", epilog=RATIO_EXAMPLES)
def ratio(
    rounds: Rounds = 7,
    seconds: Seconds = 0.5,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Compare the limit with itself instead.")
    ] = False,
    as_json: AsJson = False,
    results: Results = None,
    data: Data = None,
    bootstrap: Running = None,
) -> None:
    """Compare the broker with a server that only stores and serves bytes: the limit."""
    from barnabas.bench import ratio as benchmark

    run = benchmark.calibrate if calibrate else benchmark.run
    with _room(data) as folder:
        options = benchmark.Options(folder, bootstrap=bootstrap, rounds=rounds, seconds=seconds)
        _tell(run(options), as_json, results)


def _one_kind(
    kind: str, rounds: int, seconds: float, data: Path | None, at: str | None
) -> "Report":
    from dataclasses import replace

    from barnabas.bench import ratio as benchmark

    shapes = tuple(shape for shape in benchmark.SHAPES if shape.kind == kind)
    with _room(data) as folder:
        report = benchmark.run(
            benchmark.Options(folder, bootstrap=at, shapes=shapes, rounds=rounds, seconds=seconds)
        )
    return replace(report, benchmark=kind)


@app.command("produce")
def produce(
    rounds: Rounds = 7,
    seconds: Seconds = 0.5,
    as_json: AsJson = False,
    results: Results = None,
    data: Data = None,
    bootstrap: Running = None,
) -> None:
    """Only the writing half of `bench ratio`."""
    _tell(_one_kind("produce", rounds, seconds, data, bootstrap), as_json, results)


@app.command("consume")
def consume(
    rounds: Rounds = 7,
    seconds: Seconds = 0.5,
    as_json: AsJson = False,
    results: Results = None,
    data: Data = None,
    bootstrap: Running = None,
) -> None:
    """Only the reading half of `bench ratio`."""
    _tell(_one_kind("consume", rounds, seconds, data, bootstrap), as_json, results)


@app.command("clients")
def clients(
    records: Annotated[int, typer.Option(min=1, help="Records of each run.")] = 300_000,
    rounds: Rounds = 3,
    as_json: AsJson = False,
    results: Results = None,
    data: Data = None,
    bootstrap: Running = None,
) -> None:
    """Records a second with confluent-kafka, producing and consuming."""
    from barnabas.bench import clients as benchmark

    with _room(data) as folder:
        options = benchmark.Options(folder, bootstrap=bootstrap, records=records, rounds=rounds)
        _tell(benchmark.run(options), as_json, results)


@app.command("startup")
def startup(
    runs: Annotated[int, typer.Option(min=1, help="How many starts are timed.")] = 7,
    as_json: AsJson = False,
    results: Results = None,
    data: Data = None,
) -> None:
    """From the start of the process to the first acknowledged record."""
    from barnabas.bench import startup as benchmark

    with _room(data) as folder:
        _tell(benchmark.run(benchmark.Options(folder, runs=runs)), as_json, results)


@app.command("memory")
def memory(as_json: AsJson = False, results: Results = None, data: Data = None) -> None:
    """How much memory an idle broker holds."""
    from barnabas.bench import memory as benchmark

    with _room(data) as folder:
        _tell(benchmark.run(benchmark.Options(folder)), as_json, results)


@app.command("replication")
def replication(
    rounds: Rounds = 6,
    seconds: Seconds = 1.0,
    idle: Annotated[
        int, typer.Option(min=0, help="Idle partitions beside, for one more load.")
    ] = 100,
    as_json: AsJson = False,
    results: Results = None,
    data: Data = None,
) -> None:
    """What three replicas cost, next to one: a cluster of three brokers on this machine."""
    from barnabas.bench import replication as benchmark

    with _room(data) as folder:
        options = benchmark.Options(folder, rounds=rounds, seconds=seconds, idle=idle)
        _tell(benchmark.run(options), as_json, results)


@app.command("compaction")
def compaction(
    gigabytes: Annotated[float, typer.Option(min=0.01, help="How much is compacted.")] = 5.0,
    as_json: AsJson = False,
    results: Results = None,
    data: Data = None,
) -> None:
    """What compacting a large topic costs those who write and read it meanwhile."""
    from barnabas.bench import compaction as benchmark

    with _room(data) as folder:
        options = benchmark.Options(folder, gigabytes=gigabytes)
        _tell(benchmark.run(options), as_json, results)


@app.command("groups")
def groups(
    groups: Annotated[int, typer.Option(min=1, help="How many groups.")] = 200,
    members: Annotated[int, typer.Option(min=1, help="Members of each.")] = 10,
    rounds: Rounds = 5,
    seconds: Annotated[float, typer.Option(min=0.5, help="The time of one round.")] = 5.0,
    as_json: AsJson = False,
    results: Results = None,
    data: Data = None,
) -> None:
    """CPU and memory of many heart-beating groups, and what a producer notices of them."""
    from barnabas.bench import groups as benchmark

    with _room(data) as folder:
        options = benchmark.Options(
            folder, groups=groups, members=members, rounds=rounds, seconds=seconds
        )
        _tell(benchmark.run(options), as_json, results)


@app.command("storage")
def storage(
    gigabytes: Annotated[
        float, typer.Option(min=0.001, help="How much is stored in the full topic.")
    ] = 20.0,
    partitions: Annotated[int, typer.Option(min=1, help="How many are made and served.")] = 10_000,
    rounds: Rounds = 11,
    as_json: AsJson = False,
    results: Results = None,
    data: Data = None,
) -> None:
    """Speed with much stored next to nothing stored, clean starts, and many partitions."""
    from barnabas.bench import storage as benchmark

    with _room(data) as folder:
        options = benchmark.Options(
            folder,
            gigabytes=gigabytes,
            partitions_started=min(2_000, partitions),
            partitions_served=partitions,
            rounds=rounds,
        )
        _tell(benchmark.run(options), as_json, results)


@app.command("all", epilog=ALL_EXAMPLES)
def all_(
    rounds: Annotated[int | None, typer.Option(min=1, help="[default: each its own]")] = None,
    as_json: AsJson = False,
    results: Results = None,
    data: Data = None,
) -> None:
    """Everything, one after the other; takes a few minutes."""
    from barnabas.bench import clients as client_benchmark
    from barnabas.bench import groups as group_benchmark
    from barnabas.bench import memory as memory_benchmark
    from barnabas.bench import ratio as ratio_benchmark
    from barnabas.bench import startup as startup_benchmark

    with _room(data) as folder:
        benchmarks: list[Callable[[], Report]] = [
            lambda: startup_benchmark.run(startup_benchmark.Options(folder, runs=rounds or 7)),
            lambda: memory_benchmark.run(memory_benchmark.Options(folder)),
            lambda: ratio_benchmark.run(ratio_benchmark.Options(folder, rounds=rounds or 7)),
            lambda: client_benchmark.run(client_benchmark.Options(folder, rounds=rounds or 3)),
            lambda: group_benchmark.run(group_benchmark.Options(folder, rounds=rounds or 5)),
        ]
        for run in benchmarks:
            _tell(run(), as_json, results)
