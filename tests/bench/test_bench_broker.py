"""The benchmarks against a real broker: small loads, every figure there."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.bench import admin, clients, frames, memory, ratio, startup
from barnabas.bench.load import FetchPipe, Load, ProducePipe, connect, drive
from barnabas.bench.payload import build_batch
from barnabas.model.errors import BarnabasError
from barnabas.testing import Broker

SERVE = """
import os, sys
from barnabas.config.broker_config import BrokerConfig
from barnabas.node.process import serve
port, data = sys.argv[1:]
os.makedirs(data)
config = BrokerConfig({"listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": data})
serve(config, memory=False, ready=lambda address: None)
"""
ARGV = (sys.executable, "-c", SERVE, "{port}", "{data}")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(memory=True) as started:
        yield started


def test_what_is_produced_is_consumed_over_and_over(broker: Broker) -> None:
    topic, batch = admin.new_topic_name(), build_batch(8_192)
    admin.create_topic(broker.host, broker.port, topic)
    load = Load(broker.host, broker.port, topic, "produce", 8_192, 40, 20.0, depth=5)
    with connect(broker.host, broker.port) as sock:
        frame = frames.produce(topic, batch.data, acks=-1)
        written = drive([ProducePipe(sock, frame, batch, 5)], load)
    assert (written.requests, written.records) == (40, 40 * batch.records)
    reading = replace(
        load, kind="consume", requests_max=15,
        fetch_bytes=8 * len(batch.data), end_offset=written.records,
    )  # fmt: skip
    with connect(broker.host, broker.port) as sock:
        read = drive([FetchPipe(sock, reading)], reading)
    assert (read.requests, read.records) == (15, 3 * written.records)
    admin.delete_topic(broker.host, broker.port, topic)
    with pytest.raises(BarnabasError, match="refused to delete"):
        admin.delete_topic(broker.host, broker.port, topic)


def test_the_ratio_to_the_limit(broker: Broker, tmp_path: Path) -> None:
    report = ratio.run(
        ratio.Options(
            tmp_path, bootstrap=broker.bootstrap_servers,
            rounds=1, seconds=5.0, volume_bytes=1_000_000, keep_awake=False,
        )
    )  # fmt: skip
    assert [row["shape"] for row in report.rows] == [shape.name for shape in ratio.SHAPES]
    assert all(row["ratio"] > 0 and row["cpu_ratio"] is None for row in report.rows)


def test_confluent_kafka_figures(broker: Broker, tmp_path: Path) -> None:
    report = clients.run(
        clients.Options(tmp_path, bootstrap=broker.bootstrap_servers, records=2_000, rounds=1)
    )
    assert [row["client"] for row in report.rows] == [*clients.PRODUCERS, *clients.CONSUMERS]
    assert all(row["records_per_second"] > 0 for row in report.rows)


def test_a_start_is_timed_to_the_first_acknowledgement(tmp_path: Path) -> None:
    (row,) = startup.run(startup.Options(tmp_path, ARGV, runs=1)).rows
    assert row["baseline_ms"] > 0
    assert row["runs_ms"] == [row["start_ms"]]
    assert list(tmp_path.iterdir()) == []


def test_a_broker_that_does_not_start_says_why(tmp_path: Path) -> None:
    broken = (sys.executable, "-c", "raise SystemExit('no room at the castle')")
    with pytest.raises(BarnabasError, match="no room at the castle"):
        startup.run(startup.Options(tmp_path, broken, runs=1))


def test_memory_is_weighed_twice(tmp_path: Path) -> None:
    rows = memory.run(memory.Options(tmp_path, ARGV, rest_seconds=0)).rows
    assert all(0 < row["pss_mib"] <= row["rss_mib"] for row in rows)
    assert len(rows) == 2
