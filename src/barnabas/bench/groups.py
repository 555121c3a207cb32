"""What many groups cost: the broker's CPU and memory, and what a producer beside them notices.

Rounds alternate: the members rest, then they heartbeat. In either a producer sends one record at
a time, at an even pace, and the time to each acknowledgement is kept. Whatever else the machine
does hits both kinds of rounds, so the ratio of their 99th percentiles is what counts.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from barnabas.bench import admin, frames, host, subject
from barnabas.bench.crew import limit_server
from barnabas.bench.group_members import BARE, Beats, Order
from barnabas.bench.load import connect
from barnabas.bench.payload import build_batch
from barnabas.bench.report import Column, Report, median
from barnabas.bench.startup import check_produced
from barnabas.model.check import require
from barnabas.model.errors import BarnabasError

INTERVAL_S: Final = {"classic": 3.0, "consumer": 5.0}
"""How often members heartbeat: `heartbeat.interval.ms` of the Java client, and Kafka's
`group.consumer.heartbeat.interval.ms`."""


@dataclass(frozen=True)
class Options:
    """How many groups, and how long each round takes."""

    data: Path
    argv: Sequence[str] = (
        *subject.DEFAULT_ARGV,
        "--set",
        "group.initial.rebalance.delay.ms=200",
    )
    groups: int = 200
    members: int = 10
    rounds: int = 5
    seconds: float = 5.0
    produces_per_s: float = 200.0
    protocols: tuple[str, ...] = ("classic", "consumer")


COLUMNS: Final = (
    Column("protocol", "protocol"),
    Column("members", "members", "{:,}"),
    Column("beats_per_s", "heartbeats/s", "{:,.0f}"),
    Column("cpu", "CPU of a core", "{:.1%}"),
    Column("cpu_us", "us/heartbeat", "{:,.0f}"),
    Column("bare_us", "bare loop", "{:,.0f}"),
    Column("cpu_ratio", "ratio", "{:.2f}"),
    Column("rss_mib", "RSS MiB", "{:,.1f}"),
    Column("kib_per_member", "KiB/member", "{:.1f}"),
    Column("p99_ms", "produce p99 ms", "{:.2f}"),
    Column("quiet_p99_ms", "at rest", "{:.2f}"),
    Column("p99_ratio", "ratio", "{:.2f}"),
    Column("join_s", "joined in s", "{:.1f}"),
)
NOTES: Final = (
    "CPU of a core: what the heartbeats add to what the broker needs for the producer alone.",
    "bare loop: CPU of a server on the same event loop that only answers, under the same load.",
    "KiB/member: what the broker's memory grew by while everybody joined, connections included.",
    "The last ratio: the 99th percentile beside heartbeats to that at rest, median of the pairs.",
)


def run(options: Options) -> Report:
    """Each protocol on a broker of its own."""
    rows = []
    for protocol in options.protocols:
        with subject.running(options.data, options.argv) as broker, host.awake():
            row = _measure(options, broker, protocol)
        row["bare_us"] = _bare(options, INTERVAL_S[protocol])
        row["cpu_ratio"] = row["cpu_us"] / row["bare_us"]
        rows.append(row)
    facts = asdict(options)
    del facts["data"], facts["argv"]
    return Report("groups", facts, COLUMNS, rows, NOTES)


def _measure(options: Options, broker: subject.Subject, protocol: str) -> dict[str, Any]:
    pid = broker.pid
    if pid is None:
        raise BarnabasError("Only a broker on this machine can be weighed.")
    topic = admin.new_topic_name()
    admin.create_topic(broker.host, broker.port, topic)
    produce = Producer(broker, topic, options.produces_per_s)
    produce.for_seconds(0.5)
    before = host.memory(pid)
    order = Order(
        broker.host, broker.port, protocol, options.groups, options.members,
        INTERVAL_S[protocol], topic,
    )  # fmt: skip
    with members(order) as crowd:
        joined = crowd.hear()
        host.progress(f"{protocol}: {joined['joined']:,} members in {joined['seconds']:.1f} s")
        after = host.memory(pid)
        rounds = [_pair(options, pid, crowd, produce) for _ in range(options.rounds)]
    return {
        "protocol": protocol,
        "members": joined["joined"],
        "rss_mib": after.rss_kib / 1024,
        "kib_per_member": (after.rss_kib - before.rss_kib) / joined["joined"],
        "join_s": joined["seconds"],
        **{name: median([each[name] for each in rounds]) for name in rounds[0]},
        "rounds": rounds,
    }


def _bare(options: Options, interval_s: float) -> float:
    """Microseconds of CPU for each heartbeat that is only answered."""
    with limit_server(options.data, "barnabas.bench.echo") as server, host.awake():
        order = Order(
            server.host, server.port, BARE, options.groups, options.members, interval_s, ""
        )
        with members(order) as crowd:
            crowd.hear()
            found = []
            for _ in range(options.rounds):
                before = server.cpu_seconds() or 0.0
                crowd.tell(str(options.seconds))
                beats = Beats(**crowd.hear())
                spent = (server.cpu_seconds() or 0.0) - before
                found.append(spent / max(1, beats.answered) * 1e6)
    host.progress(f"  a bare loop: {median(found):.0f} us for each")
    return median(found)


def _pair(options: Options, pid: int, crowd: "Crowd", produce: "Producer") -> dict[str, float]:
    """One round at rest and one beside heartbeats."""
    cpu = host.cpu_seconds(pid)
    quiet = produce.for_seconds(options.seconds)
    resting = host.cpu_seconds(pid) - cpu
    cpu = host.cpu_seconds(pid)
    crowd.tell(str(options.seconds))
    beside = produce.for_seconds(options.seconds)
    beats = Beats(**crowd.hear())
    busy = host.cpu_seconds(pid) - cpu
    found = {
        "beats_per_s": beats.answered / options.seconds,
        "cpu": (busy - resting) / options.seconds,
        "cpu_us": (busy - resting) / max(1, beats.answered) * 1e6,
        "quiet_p99_ms": percentile(quiet, 0.99) * 1000,
        "p99_ms": percentile(beside, 0.99) * 1000,
    }
    found["p99_ratio"] = found["p99_ms"] / found["quiet_p99_ms"]
    host.progress(
        f"  {found['beats_per_s']:,.0f} heartbeats/s, {found['cpu']:.1%} of a core, produce p99 "
        f"{found['p99_ms']:.2f} ms, at rest {found['quiet_p99_ms']:.2f} ms"
    )
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class Producer:
    """Sends single records at an even pace."""

    def __init__(self, broker: subject.Subject, topic: str, per_s: float) -> None:
        self._socket = connect(broker.host, broker.port)
        self._frame = frames.produce(topic, build_batch(0).data, acks=-1)
        self._pause_s = 1 / per_s

    def for_seconds(self, seconds: float) -> list[float]:
        """How long each acknowledgement took, counted from when the record was due."""
        took = []
        began = time.perf_counter()
        for number in range(int(seconds / self._pause_s)):
            due = began + number * self._pause_s
            time.sleep(max(0.0, due - time.perf_counter()))
            check_produced(admin.converse(self._socket, self._frame))
            took.append(time.perf_counter() - due)
        return took


class Crowd:
    """The process with the members in it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def tell(self, line: str) -> None:
        """One order."""
        require(self._process.stdin is not None, "it is started with pipes")
        self._process.stdin.write(f"{line}\n")  # type: ignore[union-attr]
        self._process.stdin.flush()  # type: ignore[union-attr]

    def hear(self) -> dict[str, Any]:
        """What it says to that."""
        require(self._process.stdout is not None, "it is started with pipes")
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        words: dict[str, Any] = json.loads(line) if line else {"problem": "it ended"}
        if "problem" in words:
            raise BarnabasError(f"The members of the groups stopped: {words['problem']}")
        return words


@contextmanager
def members(order: Order) -> Iterator[Crowd]:
    """Start them; they leave when their stdin closes."""
    argv = [sys.executable, "-m", "barnabas.bench.group_members"]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            crowd = Crowd(process)
            crowd.tell(json.dumps(asdict(order)))
            yield crowd
        finally:
            subject.stop(process)
