"""How much memory a broker holds when it has nothing to do."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.bench import admin, frames, host, startup, subject
from barnabas.bench.payload import build_batch
from barnabas.bench.report import Column, Report
from barnabas.model.errors import BarnabasError

REQUESTS: Final = 20
"""Enough to have every lazily loaded piece of the common path in memory."""


@dataclass(frozen=True)
class Options:
    """How the broker is started, and how long it rests before it is weighed."""

    data: Path
    argv: Sequence[str] = subject.DEFAULT_ARGV
    rest_seconds: float = 2.0


def run(options: Options) -> Report:
    """Weigh a broker after its start and a few requests."""
    if not 0 <= options.rest_seconds <= 600:
        raise BarnabasError("The rest before weighing must be between 0 and 600 seconds.")
    with tempfile.TemporaryDirectory(prefix="memory-", dir=options.data) as folder:
        port, log = subject.free_port(), Path(folder) / "output.txt"
        with subject.process(subject.fill(options.argv, port, Path(folder) / "data"), log) as child:
            startup.first_produce("127.0.0.1", port, child, log).close()
            started = host.memory(child.pid)
            exercise("127.0.0.1", port)
            host.progress(f"letting the broker rest for {options.rest_seconds:g} s")
            time.sleep(options.rest_seconds)
            rested = host.memory(child.pid)
    rows = [
        {"when": when, "rss_mib": memory.rss_kib / 1024, "pss_mib": memory.pss_kib / 1024}
        for when, memory in (("after the first produce", started), ("idle, later", rested))
    ]
    return Report("memory", {"rest_seconds": options.rest_seconds}, COLUMNS, rows, NOTES)


COLUMNS: Final = (
    Column("when", "when"),
    Column("rss_mib", "RSS MiB", "{:.1f}"),
    Column("pss_mib", "PSS MiB", "{:.1f}"),
)
NOTES: Final = ("PSS counts shared pages in equal parts among the processes that use them.",)


def exercise(name: str, port: int) -> None:
    """A few requests of the common kinds."""
    topic = admin.new_topic_name()
    batch = build_batch(8192)
    admin.create_topic(name, port, topic)
    produce = frames.produce(topic, batch.data, acks=-1)
    for _ in range(REQUESTS):
        startup.check_produced(admin.exchange(name, port, produce))
    for _ in range(REQUESTS):
        admin.exchange(name, port, frames.fetch(topic, bytes_max=1 << 20))
    admin.delete_topic(name, port, topic)
