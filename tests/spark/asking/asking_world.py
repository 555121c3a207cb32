"""Topics and archives to ask about."""

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from tests.spark.source_read.reading_world import options_for, quiet

from barnabas.spark.archives.contents import Contents
from barnabas.spark.archives.covering import data_file
from barnabas.spark.archives.layout import ArchivedFile, arrow_schema, file_name
from barnabas.spark.archives.opening import TopicNow, open_archive
from barnabas.spark.asking.asker import Asker
from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.places import Place, Span
from barnabas.spark.source.reading import read_spans
from barnabas.spark.tables.log import TableLog

BEGAN_MS = 1_700_000_000_000
WAIT_S = 60.0

Rows = list[tuple[Any, ...]]


def write(servers: str, topic: str, values: Iterable[bytes | None], partition: int = 0) -> None:
    """Records a second apart; keys are their numbers."""
    producer = Producer(quiet(servers))
    for number, value in enumerate(values):
        producer.produce(
            topic,
            key=str(number).encode(),
            value=value,
            partition=partition,
            timestamp=BEGAN_MS + 1000 * number,
        )
    assert producer.flush(60) == 0


def delete_before(servers: str, topic: str, partition: int, offset: int) -> None:
    """As retention does. On a busy machine the client may not have found the leader yet."""
    admin = AdminClient(quiet(servers))
    deadline = time.monotonic() + WAIT_S
    while True:
        asked = admin.delete_records([TopicPartition(topic, partition, offset)])
        try:
            for done in asked.values():
                done.result()
            return
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError._NOENT or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def make_topic(servers: str, name: str, partitions: int = 1) -> str:
    admin = AdminClient(quiet(servers))
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result()
    return name


def delete_topic(servers: str, topic: str) -> None:
    admin = AdminClient(quiet(servers))
    for done in admin.delete_topics([topic]).values():
        done.result()


def archive_up_to(
    servers: str, topic: str, folder: Path, ends: dict[int, int], start: str = "earliest"
) -> Contents:
    """Archive a topic up to these offsets in one commit, without a stream that would take long."""
    cluster = cluster_of(Connection.from_options({"kafka.bootstrap.servers": servers}))
    folder.mkdir(parents=True, exist_ok=True)
    log = TableLog(str(folder))
    contents = open_archive(log, TopicNow.ask(cluster, topic), start, accept_gap=True)
    files = []
    for partition, end in ends.items():
        span = Span(Place(topic, partition), contents.end(partition), end)
        batches = list(read_spans(options_for(servers, topic), [span]))
        rows = pa.Table.from_batches(batches).select(arrow_schema().names).cast(arrow_schema())
        path = file_name(topic, partition, span.start, end - 1)
        os.makedirs(folder / str(partition), exist_ok=True)
        pq.write_table(rows, folder / path, compression="none")
        size = os.path.getsize(folder / path)
        file = ArchivedFile(
            path, partition, span.start, end, rows.num_rows, size, size, BEGAN_MS, BEGAN_MS
        )
        files.append(data_file(file, int(time.time() * 1000)))
    return Contents(str(folder), log.commit(contents.snapshot, add=files, operation="TEST"))


def asker(
    spark: SparkSession,
    servers: str,
    *,
    archives: Sequence[Path | str] = (),
    schemas: dict[str, str] | None = None,
    told: list[str] | None = None,
) -> Asker:
    return Asker(
        spark,
        {"kafka.bootstrap.servers": servers, "kafka.default.api.timeout.ms": "20000"},
        archives=[str(folder) for folder in archives],
        schemas=schemas,
        tell=(told if told is not None else []).append,
    )


def ask(asking: Asker, text: str, limit: int = 1000) -> Rows:
    return [tuple(row) for row in asking.ask(text).rows(limit)]
