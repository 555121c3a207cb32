"""Pipelines of a few lines over topics of a real broker, run once to the end of what is there."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.compat.batches import Rec
from tests.spark.cluster.stage import make_topic, write
from tests.spark.exactly_once.driving import fetch

from barnabas.spark.cluster.cluster import Cluster
from barnabas.spark.pipelines import building
from barnabas.spark.pipelines.definition import Pipeline
from barnabas.spark.pipelines.queries import Query
from barnabas.spark.pipelines.reading import read
from barnabas.spark.places import Place
from barnabas.wire.records.record import decode_batch

WAIT_S = 300
Row = Mapping[str, Any]


class World:
    """A folder for a pipeline, and topics for it."""

    def __init__(self, spark: SparkSession, cluster: Cluster, servers: str, folder: Path) -> None:
        self.spark = spark
        self.cluster = cluster
        self.servers = servers
        self.folder = folder
        self._places: dict[str, list[Place]] = {}

    def topic(self, name: str, partitions: int = 1) -> str:
        self._places[name] = make_topic(self.cluster, name, partitions)
        return name

    def give(self, topic: str, *rows: Row | bytes, key: str | None = None) -> None:
        """Rows as JSON, one record each; with `key` the column that is the record's key."""
        for number, row in enumerate(rows):
            value = row if isinstance(row, bytes) else json.dumps(row).encode()
            keyed = None if key is None or isinstance(row, bytes) else str(row[key]).encode()
            place = self._places[topic][number % len(self._places[topic])]
            write(self.cluster, place, [Rec(value=value, key=keyed)])

    def give_record(self, topic: str, record: Rec) -> None:
        write(self.cluster, self._places[topic][0], [record])

    def records(self, topic: str) -> list[Any]:
        """What readers of committed records see."""
        return [
            record
            for place in self._places[topic]
            for _, batch in fetch(self.cluster, place, committed=True)
            for record in decode_batch(batch)
        ]

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """The same as JSON, in one order whatever the partitions."""
        found = [json.loads(bytes(record.value)) for record in self.records(topic)]
        return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))

    def pipeline(self, text: str, file: str = "p.yaml") -> Pipeline:
        """The file's text without its first two lines."""
        path = self.folder / file
        # Brokers are shared, and groups and sinks go by the pipeline's name.
        head = f"pipeline: {self.folder.name}\nservers: {self.servers}\n"
        path.write_text(head + textwrap.dedent(text).lstrip("\n"))
        return read(str(path), {})

    def build(self, text: str) -> dict[str, Query]:
        queries = building.build(self.spark, self.pipeline(text))
        return {query.name: query for query in queries}

    def run(self, query: Query, generation: int = 1) -> None:
        """To the end of what is there by now; raises what it died of."""
        checkpoint = self.folder / "checkpoints" / query.name / str(generation)
        started = query.start(str(checkpoint), generation, once=True, trigger=None)
        assert started.awaitTermination(WAIT_S)

    def run_all(self, text: str) -> dict[str, Query]:
        queries = self.build(text)
        for query in queries.values():
            self.run(query)
        return queries


def at(minute: int, second: int = 0) -> str:
    """A time of one particular hour."""
    return f"2026-01-01T10:{minute:02}:{second:02}Z"


def plain(rows: Sequence[Row], *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of rows, in order."""
    return sorted(tuple(row[column] for column in columns) for row in rows)
