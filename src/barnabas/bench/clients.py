"""What users get: records a second with confluent-kafka, the client most of them have."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.bench import admin, host, subject
from barnabas.bench.payload import VALUE_BYTES
from barnabas.bench.report import Column, Report, median, spread
from barnabas.model.errors import BarnabasError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

WAIT_S_MAX: Final = 120.0
CONSUME_AT_ONCE: Final = 10_000
_VALUE: Final = b"v" * VALUE_BYTES

PRODUCERS: Final[dict[str, dict[str, Any]]] = {
    "producer, default settings": {},
    "producer, linger 20 ms, 1 MB batches": {
        "linger.ms": 20,
        "batch.size": 1_000_000,
        "batch.num.messages": 10_000,
        "queue.buffering.max.messages": 1_000_000,
    },
}
CONSUMERS: Final[dict[str, dict[str, Any]]] = {
    "consumer, default settings": {},
    "consumer, 4 MB a partition": {
        "fetch.message.max.bytes": 4 << 20,
        "queued.min.messages": 1_000_000,
    },
}


@dataclass(frozen=True)
class Options:
    """Which broker, how much, how often."""

    data: Path
    argv: Sequence[str] = subject.DEFAULT_ARGV
    bootstrap: str | None = None
    records: int = 300_000
    rounds: int = 3


@dataclass(frozen=True)
class Figure:
    """One round of one client."""

    records_per_second: float
    server_cpu_seconds: float | None


def run(options: Options) -> Report:
    """Every producer setting in turns, then every consumer setting over what was written."""
    if options.rounds < 1 or options.records < 1:
        raise BarnabasError("A client benchmark needs at least one round and one record.")
    figures: dict[str, list[Figure]] = {name: [] for name in (*PRODUCERS, *CONSUMERS)}
    with (
        tempfile.TemporaryDirectory(prefix="clients-", dir=options.data) as folder,
        subject.running(Path(folder), options.argv, options.bootstrap) as broker,
    ):
        for number in range(options.rounds):
            for name, figure in _round(broker, options.records):
                figures[name].append(figure)
                host.progress(
                    f"round {number + 1}/{options.rounds}, {name}: "
                    f"{figure.records_per_second:,.0f} records/s"
                )
    rows = [summarize(name, each, options.records) for name, each in figures.items()]
    said = {"records": options.records, "rounds": options.rounds, "value_bytes": VALUE_BYTES}
    return Report("clients", said, COLUMNS, rows, NOTES)


COLUMNS: Final = (
    Column("client", "client"),
    Column("records_per_second", "records/s", "{:,.0f}"),
    Column("low", "low", "{:,.0f}"),
    Column("high", "high", "{:,.0f}"),
    Column("spread", "spread", "{:.0%}"),
    Column("broker_cpu_us_per_record", "broker µs/record", "{:.2f}"),
)
NOTES: Final = ("confluent-kafka, 100-byte values without keys, acks=all, one partition.",)


def _round(broker: subject.Subject, records: int) -> list[tuple[str, Figure]]:
    done = []
    topic = ""
    for name, settings in PRODUCERS.items():
        if topic:
            admin.delete_topic(broker.host, broker.port, topic)
        topic = admin.new_topic_name()
        admin.create_topic(broker.host, broker.port, topic)
        done.append((name, _timed(broker, topic, records, settings, produce)))
    done.extend(
        (name, _timed(broker, topic, records, settings, consume))
        for name, settings in CONSUMERS.items()
    )
    admin.delete_topic(broker.host, broker.port, topic)
    return done


def _timed(
    broker: subject.Subject, topic: str, records: int, settings: dict[str, Any], work: Any
) -> Figure:
    before = broker.cpu_seconds()
    seconds: float = work(broker.address, topic, records, settings)
    after = broker.cpu_seconds()
    return Figure(records / seconds, None if before is None or after is None else after - before)


def summarize(name: str, figures: Sequence[Figure], records: int) -> dict[str, Any]:
    """One row from the rounds of one client."""
    rates = [figure.records_per_second for figure in figures]
    cpus = [
        figure.server_cpu_seconds / records * 1e6
        for figure in figures
        if figure.server_cpu_seconds is not None
    ]
    return {
        "client": name,
        "records_per_second": median(rates),
        "low": min(rates),
        "high": max(rates),
        "spread": spread(rates),
        "broker_cpu_us_per_record": median(cpus) if cpus else None,
        "rounds_records_per_second": rates,
    }


def produce(address: str, topic: str, records: int, settings: dict[str, Any]) -> float:
    """Send `records` records; seconds until the last one is acknowledged."""
    from confluent_kafka import Producer

    failed: list[str] = []

    def on_delivery(error: "KafkaError | None", _message: "Message") -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "delivery.report.only.error": True,
            "on_delivery": on_delivery,
            **settings,
        }
    )
    began = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, _VALUE)
                break
            except BufferError:
                # The client's queue is full: let it drain, within the bound on the whole.
                producer.poll(0.01)
                if time.perf_counter() - began > WAIT_S_MAX:
                    raise
    left = producer.flush(WAIT_S_MAX)
    seconds = time.perf_counter() - began
    if left or failed:
        raise BarnabasError(
            f"{left} records were not acknowledged in {WAIT_S_MAX:.0f} s and {len(failed)} failed"
            f"{': ' + failed[0] if failed else ''}."
        )
    return seconds


def consume(address: str, topic: str, records: int, settings: dict[str, Any]) -> float:
    """Read `records` records from the start; seconds until the last one is here."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": topic,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    seen = 0
    began = time.perf_counter()
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while seen < records:
            for message in consumer.consume(min(CONSUME_AT_ONCE, records - seen), 1.0):
                error = message.error()
                if error is not None:
                    raise BarnabasError(f"The consumer stopped: {error}.")
                seen += 1
            if time.perf_counter() - began > WAIT_S_MAX:
                raise BarnabasError(f"Only {seen} of {records} records arrived in time.")
        return time.perf_counter() - began
    finally:
        consumer.close()
