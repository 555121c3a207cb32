"""Barnabas's connector and Spark's own, the same jobs in turns against one broker.

python -m bench.spark.run [--records 2000000] [--rounds 3] [--triggers 40] [--out FILE]
                          [--only WORD] [--profile]
"""

import argparse
import platform
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyspark
from bench.spark.jobs import (
    EXACTLY_ONCE,
    Job,
    batch_read,
    batch_write,
    counted,
    into_noop,
    stream_read,
    topic_to_topic,
    trigger_times,
)
from bench.spark.profile import profiled
from bench.spark.report import (
    LATENCY_NOTES,
    NOTES,
    Latency,
    Measured,
    latency_table,
    throughput_table,
)
from bench.spark.stage import Stage, prepared, say
from tests.compat.clients.spark.harness import OFFICIAL, OURS
from tests.compat.clients.spark.jars import CONNECTOR_VERSION

from barnabas.spark import settings_for_jobs

PLAIN, LZ4, SMALL = "plain", "lz4", "small"
_SMALL_RECORDS: Final = 100_000
DEFAULTS: Final[Mapping[str, str]] = {}
AGAIN: Final = ("batch read, noop", "stream read, noop", "batch write", "stream, topic to topic")
"""What is measured with our settings, too: one job of each kind."""


def jobs(records: int) -> tuple[Job, ...]:
    """Everything that is measured in rows a second."""
    all_three = (OFFICIAL, OURS, EXACTLY_ONCE)
    return (
        Job("batch read, noop", batch_read(PLAIN, into_noop)),
        Job("batch read, noop, lz4", batch_read(LZ4, into_noop)),
        Job("batch read, count()", batch_read(PLAIN, counted)),
        Job("batch read, count(), lz4", batch_read(LZ4, counted)),
        Job("batch read, value only", batch_read(PLAIN, into_noop, "value")),
        Job("stream read, noop", stream_read(PLAIN, records // 4)),
        Job("batch write", batch_write(records)),
        Job("stream, topic to topic", topic_to_topic(LZ4, records // 4), all_three),
    )


def small_jobs() -> tuple[Job, ...]:
    """One of each kind, to load what there is to load."""
    return (
        Job("read", batch_read(SMALL, into_noop)),
        Job("stream", stream_read(SMALL, _SMALL_RECORDS // 2)),
        Job("write", batch_write(_SMALL_RECORDS)),
        Job("copy", topic_to_topic(SMALL, _SMALL_RECORDS // 2), (OFFICIAL, OURS, EXACTLY_ONCE)),
    )


def measured(stage: Stage, job: Job, rounds: int) -> Measured:
    """All rounds of a job, the connectors in turns."""
    found: dict[str, list[float]] = {each: [] for each in job.contestants}
    for number in range(rounds):
        turns = job.contestants if number % 2 == 0 else job.contestants[::-1]
        for connector in turns:
            found[connector].append(job.run(stage, connector).rows_per_second)
    row = Measured(job.name, found)
    rates = ", ".join(f"{each} {max(rates) / 1000:,.0f}k" for each, rates in found.items())
    say(f"  {job.name}: {rates} rows/s at best")
    return row


def latency(stage: Stage, name: str, *, into_topic: bool, triggers: int) -> Latency:
    """One query on each connector, one after the other."""
    contestants = (OFFICIAL, OURS, EXACTLY_ONCE) if into_topic else (OFFICIAL, OURS)
    times = {}
    for connector in contestants:
        found = trigger_times(stage, connector, into_topic=into_topic, triggers=triggers)
        times[connector] = [each["triggerExecution"] for each in found]
    say(f"  {name}: {', '.join(f'{each} {min(ms):.0f} ms' for each, ms in times.items())} at best")
    return Latency(name, times)


def section(
    stage: Stage,
    title: str,
    settings: Mapping[str, str],
    chosen: Sequence[Job],
    wishes: argparse.Namespace,
) -> list[str]:
    """All jobs in one session."""
    say(title)
    stage.start_session(settings)
    for job in small_jobs():
        for connector in job.contestants:
            job.run(stage, connector)
    lines = [title, ""]
    rows = [measured(stage, job, wishes.rounds) for job in chosen]
    if rows:
        lines += [*throughput_table(rows), ""]
    if wishes.triggers:
        named = {"topic to noop": False, "topic to topic": True}
        lines += latency_table(
            latency(stage, name, into_topic=into_topic, triggers=wishes.triggers)
            for name, into_topic in named.items()
        )
        lines.append("")
    return lines


def report(stage: Stage, wishes: argparse.Namespace) -> list[str]:
    """The whole run."""
    say("filling topics")
    for topic, records, codec in (
        (SMALL, _SMALL_RECORDS, "none"),
        (PLAIN, wishes.records, "none"),
        (LZ4, wishes.records, "lz4"),
    ):
        stage.fill(topic, records, codec)
    chosen = [job for job in jobs(wishes.records) if wishes.only in job.name]
    versions = f"PySpark {pyspark.__version__}, official connector {CONNECTOR_VERSION}"
    lines = [
        f"{versions}, Python {platform.python_version()}, local[2]; one barnabas broker on disk.",
        f"{wishes.records:,} records of 10 + 100 bytes in 4 partitions, {wishes.rounds} rounds.",
        "",
    ]
    lines += section(stage, "Spark's default settings", DEFAULTS, chosen, wishes)
    quick = settings_for_jobs(quick_checkpoints=True)
    title = "Settings of barnabas.spark.session(quick_checkpoints=True), for both"
    again = [job for job in chosen if job.name in AGAIN]
    lines += section(stage, title, quick, again, wishes)
    return [*lines, *NOTES, *(LATENCY_NOTES if wishes.triggers else ())]


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--triggers", type=int, default=40, help="0: no latencies")
    parser.add_argument("--only", default="", help="jobs whose name holds this word")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--profile", action="store_true", help="where our time goes, instead")
    wishes = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    began = time.monotonic()
    try:
        with prepared(home) as stage:
            lines = profiled(stage, wishes.records) if wishes.profile else report(stage, wishes)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    text = "\n".join(lines) + "\n"
    print(text)
    say(f"took {(time.monotonic() - began) / 60:.1f} minutes")
    if wishes.out:
        wishes.out.write_text(text)


if __name__ == "__main__":
    main()
