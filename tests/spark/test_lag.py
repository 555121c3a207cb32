"""The lag of a query is seen by every tool that knows consumer groups, the last batch included."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka import KafkaAdminClient, KafkaConsumer  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from barnabas.testing import Broker

TOPIC, GROUP, PARTITIONS = "clicks", "clicks-to-nowhere", 3
WAIT_S = 60.0


def write(servers: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(count):
        producer.produce(TOPIC, f"{number}", partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0


def our_lag(servers: str) -> int | None:
    """As `barnabas group describe --json` tells it; None as long as it is not known."""
    command = [sys.executable, "-m", "barnabas", "group", "describe", GROUP, "--json"]
    done = subprocess.run(
        [*command, "--bootstrap", servers],
        capture_output=True,
        check=False,
        text=True,
        timeout=WAIT_S,
    )
    if done.returncode != 0:
        return None
    (described,) = json.loads(done.stdout)
    rows: list[dict[str, Any]] = described["partitions"]
    lags = [row["lag"] for row in rows if row["topic"] == TOPIC]
    return None if len(lags) < PARTITIONS or None in lags else sum(lags)


def strangers_lag(servers: str) -> int | None:
    """As kafka-python's admin client and consumer tell it."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    consumer = KafkaConsumer(bootstrap_servers=servers)
    try:
        offsets = admin.list_group_offsets({GROUP: None})[GROUP]
        ends = consumer.end_offsets(list(offsets))
        if len(offsets) < PARTITIONS:
            return None
        return int(sum(ends[place] - found.offset for place, found in offsets.items()))
    finally:
        consumer.close()
        admin.close()


def wait_for(tell: Callable[[str], int | None], servers: str, wanted: Callable[[int], bool]) -> int:
    deadline = time.monotonic() + WAIT_S
    while True:
        lag = tell(servers)
        if lag is not None and wanted(lag):
            return lag
        assert time.monotonic() < deadline, f"{tell.__name__} still says {lag}"
        time.sleep(0.1)


def test_lag_is_seen_while_the_query_runs_and_is_zero_when_it_ends(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(WAIT_S)
    write(servers, 300)

    def rows(limit: str) -> Any:
        return (
            spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", TOPIC)
            .option("startingOffsets", "earliest")
            .option("kafka.group.id", GROUP)
            .option("maxOffsetsPerTrigger", limit)
            .load()
        )

    sink = {"checkpointLocation": str(tmp_path / "checkpoint")}
    running = rows("30").writeStream.format("noop").options(**sink)
    query = running.trigger(processingTime="2 seconds").start()
    try:
        # Some of it read, and not all: the lag of a query that is behind.
        assert 0 < wait_for(our_lag, servers, lambda lag: 0 < lag < 300) < 300
        assert 0 < wait_for(strangers_lag, servers, lambda lag: 0 < lag < 300) < 300
    finally:
        query.stop()

    query = (
        rows("1000").writeStream.format("noop").options(**sink).trigger(availableNow=True).start()
    )
    assert query.awaitTermination(WAIT_S)
    assert our_lag(servers) == 0
    assert strangers_lag(servers) == 0
    write(servers, 3)
    assert our_lag(servers) == 3
