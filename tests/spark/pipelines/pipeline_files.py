"""A pipeline file that is all right, and a way to read one with something wrong in it."""

from pathlib import Path

import pytest

from barnabas.spark.pipelines import reading
from barnabas.spark.pipelines.definition import Pipeline

GOOD = """\
pipeline: orders-by-minute
servers: ${BARNABAS_SERVERS:-127.0.0.1:9092}
state: ./state/orders
trigger: 1 second
settings: {spark.sql.shuffle.partitions: 4, spark.ui.enabled: False}
kafka: {compression.type: lz4}
functions:
  risk: {python: "rules:risk", returns: DOUBLE}
sources:
  orders:
    topic: orders
    format: json
    schema: order_id BIGINT, customer STRING, amount STRING, at TIMESTAMP
    cast: {amount: "DECIMAL(10,2)"}
    expect: [amount >= 0]
    watermark: {column: at, delay: 30 seconds}
    dead_letter: orders-dead
  customers: {topic: customers, format: json, schema: "id STRING, country STRING", table: true}
  rates: {format: csv, path: rates.csv, schema: "currency STRING, rate DOUBLE"}
steps:
  scored: {python: "rules:score", inputs: [unique], schema: "order_id BIGINT, score DOUBLE"}
  per_minute:
    sql: |
      SELECT window.start AS minute, c.country, sum(o.amount) AS total
      FROM orders o JOIN customers c ON o.customer = c.id
      GROUP BY window(o.at, '1 minute'), c.country
  unique: {deduplicate: orders, by: [order_id]}
sinks:
  totals: {from: per_minute, topic: totals, key: country, delivery: exactly-once}
  orders_table: {from: orders, table: tables/orders, partition_by: [customer]}
  latest: {from: unique, table: tables/latest, mode: upsert, key: [order_id], order_by: at}
  other: {from: scored, format: jdbc, options: {url: "jdbc:x", dbtable: scores}}
"""
"""Its lines are counted in the tests' sentences."""


def edited(old: str, new: str) -> str:
    """The good file with one thing changed."""
    assert GOOD.count(old) == 1, old
    return GOOD.replace(old, new)


def read(
    folder: Path, text: str | bytes, monkeypatch: pytest.MonkeyPatch, **environment: str
) -> Pipeline:
    """Read a text as `p.yaml`, in the folder where it stands."""
    monkeypatch.chdir(folder)
    data = text if isinstance(text, bytes) else text.encode()
    (folder / "p.yaml").write_bytes(data)
    return reading.read("p.yaml", environment)
