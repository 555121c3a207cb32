"""What compacting a large topic costs those who write and read it meanwhile, and how much memory.

One broker, one keyed topic. First the cleaner is held back (`min.compaction.lag.ms`), the topic is
filled, and the waits of a paced producer and its reader are taken; then the cleaner is let go and
they are taken again until it is done; then once more, so that the machine's own moods show.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8

from barnabas.bench import admin, frames, host, subject
from barnabas.bench.load import connect
from barnabas.bench.pace import Order, Waits, percentile
from barnabas.bench.report import Column, Report
from barnabas.bench.startup import check_produced
from barnabas.link.sync import Link
from barnabas.log.checkpoints import read_rows
from barnabas.model.errors import BarnabasError, ErrorCode
from barnabas.wire.records.record import encode_batch

_HELD_BACK_MS: Final = 365 * 24 * 3600 * 1000
_VALUE_BYTES: Final = 1000
_BATCH_RECORDS: Final = 900
_FILLS_KEPT: Final = 64
"""Different batches of a fill; each has keys of its own."""
_LOOK_S: Final = 0.2
_ROUND_S: Final = 2.0
"""Short, so that what is measured is little more than the time of cleaning."""
_CLEAN_S_MAX: Final = 3600.0
_INCREMENTAL_ALTER_CONFIGS, _TOPIC, _SET = 44, 2, 0
_CHECKPOINT: Final = "cleaner-offset-checkpoint"


@dataclass(frozen=True)
class Options:
    """How much is compacted, and how hard it is leaned on meanwhile."""

    data: Path
    gigabytes: float = 5.0
    per_second: float = 100.0
    seconds: float = 20.0
    segment_mebibytes: int = 256


@dataclass
class Watched:
    """What a look at the processes now and then has seen."""

    broker_peak_kib: int = 0
    cleaner_peak_kib: int = 0
    rounds: list[Waits] = field(default_factory=list)


def run(options: Options) -> Report:
    """Fill, measure, let the cleaner go, measure, wait, measure."""
    with tempfile.TemporaryDirectory(prefix="compaction-", dir=options.data) as folder:
        data, log = Path(folder) / "data", Path(folder) / "output.txt"
        port = subject.free_port()
        argv = [
            *subject.fill(subject.DEFAULT_ARGV, port, data),
            "--set",
            "log.cleaner.backoff.ms=200",
        ]
        with subject.process(argv, log) as broker:
            admin.wait_until_ready("127.0.0.1", port)
            return _measure(options, port, data, broker.pid)


def _measure(options: Options, port: int, data: Path, pid: int) -> Report:
    topic = admin.new_topic_name()
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": str(options.segment_mebibytes << 20),
        "min.compaction.lag.ms": str(_HELD_BACK_MS),
        "min.cleanable.dirty.ratio": "0.01",
    }
    admin.create_topic("127.0.0.1", port, topic, settings)
    filled = _fill(options, port, topic)
    partition = data / f"{topic}-0"
    with _pacing() as pacer:
        order = Order("127.0.0.1", port, topic, options.per_second, options.seconds)
        before = pacer(order)
        size_before, goal = _size(partition), _active_base(partition)
        with _watching(pid) as watched:
            began = time.monotonic()
            _release(port, topic)
            while not _reached(data, topic, goal):
                if time.monotonic() - began > _CLEAN_S_MAX:
                    raise BarnabasError("The cleaner did not get through in an hour.")
                watched.rounds.append(pacer(replace(order, seconds=_ROUND_S)))
            took = time.monotonic() - began
        after = pacer(order)
    during = _together(watched.rounds)
    rows = [
        _row("idle before", before),
        _row("cleaning", during),
        _row("idle after", after),
        _row("idle, both", _together([before, after])),
    ]
    facts = {
        "gigabytes": filled / 1e9,
        "bytes_before": size_before,
        "bytes_after": _size(partition),
        "cleaning_s": took,
        "cleaner_peak_kib": watched.cleaner_peak_kib,
        "broker_peak_kib": watched.broker_peak_kib,
    }
    return Report("compaction", facts, COLUMNS, rows, _notes(rows, facts))


def _notes(rows: list[dict[str, Any]], facts: dict[str, Any]) -> tuple[str, ...]:
    ratios = {key: rows[1][key] / rows[3][key] for key in ("ack_p99_ms", "delivery_p99_ms")}
    waits = (
        "p99 while cleaning to p99 with an idle cleaner (before and after it): acknowledgement "
        f"{ratios['ack_p99_ms']:.2f}, delivery {ratios['delivery_p99_ms']:.2f}."
    )
    sizes = (
        f"{facts['bytes_before'] / 1e9:.2f} GB stored before and "
        f"{facts['bytes_after'] / 1e9:.2f} GB after, within {facts['cleaning_s']:.0f} s (at the "
        "resolution of the rounds)."
    )
    memory = (
        f"Peak resident memory: the cleaner's process {facts['cleaner_peak_kib'] / 1024:.0f} MiB, "
        f"the broker {facts['broker_peak_kib'] / 1024:.0f} MiB."
    )
    return waits, sizes, memory


COLUMNS: Final = (
    Column("what", "cleaner"),
    Column("requests", "requests", "{:,}"),
    Column("ack_p50_ms", "ack p50 ms", "{:.2f}"),
    Column("ack_p99_ms", "p99", "{:.2f}"),
    Column("delivery_p50_ms", "delivery p50 ms", "{:.2f}"),
    Column("delivery_p99_ms", "p99", "{:.2f}"),
)


def _together(rounds: Sequence[Waits]) -> Waits:
    return Waits(
        sorted(each for one in rounds for each in one.acknowledged),
        sorted(each for one in rounds for each in one.delivered),
    )


def _row(what: str, waits: Waits) -> dict[str, Any]:
    return {
        "what": what,
        "requests": len(waits.acknowledged),
        "ack_p50_ms": percentile(waits.acknowledged, 0.5) * 1000,
        "ack_p99_ms": percentile(waits.acknowledged, 0.99) * 1000,
        "delivery_p50_ms": percentile(waits.delivered, 0.5) * 1000,
        "delivery_p99_ms": percentile(waits.delivered, 0.99) * 1000,
    }


def _fill(options: Options, port: int, topic: str) -> int:
    """Write batches of 900 keyed records again and again: each key is written many times."""
    batches = [_batch(number) for number in range(_FILLS_KEPT)]
    goal, written = int(options.gigabytes * 1e9), 0
    with connect("127.0.0.1", port) as sock:
        while written < goal:
            for frame, size in batches:
                check_produced(admin.converse(sock, frame(topic)))
                written += size
            host.progress(f"{written / 1e9:.1f} of {options.gigabytes:.1f} GB written")
    return written


def _batch(number: int) -> tuple[Any, int]:
    now_ms = time.time_ns() // 1_000_000
    value = bytes(_VALUE_BYTES)
    keys = (f"fill-{number}-{each}".encode() for each in range(_BATCH_RECORDS))
    data = encode_batch([(now_ms, key, value, []) for key in keys])
    return (lambda topic: frames.produce(topic, data, acks=-1)), len(data)


@contextmanager
def _pacing() -> Iterator[Any]:
    argv = [sys.executable, "-m", "barnabas.bench.pace"]
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def pace(order: Order) -> Waits:
        if child.stdin is None or child.stdout is None:
            raise BarnabasError("The pacer has no pipes.")
        child.stdin.write(json.dumps(order.__dict__) + "\n")
        child.stdin.flush()
        line = child.stdout.readline()
        if not line:
            raise BarnabasError("The pacer has ended; what it said stands above.")
        waits = Waits(**json.loads(line))
        host.progress(f"p99 {percentile(waits.acknowledged, 0.99) * 1000:.1f} ms")
        return waits

    try:
        yield pace
    finally:
        subject.stop(child)


@contextmanager
def _watching(pid: int) -> Iterator[Watched]:
    """Look at the memory of the broker and of its children now and then."""
    watched, done = Watched(), threading.Event()

    def look() -> None:
        while not done.wait(_LOOK_S):
            watched.broker_peak_kib = max(watched.broker_peak_kib, _resident_kib([pid]))
            children = [each for each in host.tree(pid) if each != pid]
            watched.cleaner_peak_kib = max(watched.cleaner_peak_kib, _resident_kib(children))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield watched
    finally:
        done.set()
        thread.join()


def _resident_kib(pids: Sequence[int]) -> int:
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue  # It has ended since it was found.
        total += sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return total


def _release(port: int, topic: str) -> None:
    """Let the cleaner have it."""
    change = AlterableConfig(name="min.compaction.lag.ms", config_operation=i8(_SET), value=str(0))
    resource = AlterConfigsResource(
        resource_type=i8(_TOPIC), resource_name=topic, configs=(change,)
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    with Link("127.0.0.1", port) as link:
        answer = link.call(_INCREMENTAL_ALTER_CONFIGS, 1, request)
    if answer.responses[0].error_code != ErrorCode.none:
        raise BarnabasError(f"The cleaner was not let go: {answer.responses[0].error_message}")


def _size(partition: Path) -> int:
    return sum(path.stat().st_size for path in partition.glob("*.log"))


def _active_base(partition: Path) -> int:
    return max(int(path.stem) for path in partition.glob("*.log"))


def _reached(data: Path, topic: str, goal: int) -> bool:
    path = data / _CHECKPOINT
    if not path.exists():
        return False
    rows = read_rows(path.read_bytes(), columns=3)
    return any(name == topic and int(offset) >= goal for name, _, offset in rows)
