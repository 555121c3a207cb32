"""Topics to archive, and what archives hold, record by record."""

import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]
from pyspark.sql import SparkSession
from tests.spark.source_read.reading_world import Row, consumed, quiet

from barnabas.spark.archives.archiving import Asked, Progress, archive
from barnabas.spark.archives.contents import Contents

PARTITIONS = 3
BEGAN_MS = int(time.time() * 1000) - 3_600_000
"""An hour ago: topics delete what is older than a week."""


def write(servers: str, topic: str, numbers: Iterable[int], partitions: int = PARTITIONS) -> None:
    """Records with and without keys, values and headers, and timestamps that do not ascend."""
    producer = Producer(quiet(servers, compression_type="lz4", linger_ms=5))
    _produce(producer, topic, numbers, partitions)
    assert producer.flush(60) == 0


def write_in_transaction(servers: str, topic: str, numbers: Iterable[int], *, commit: bool) -> None:
    """The same, seen whole or never."""
    producer = _transactional(servers, topic)
    producer.begin_transaction()
    _produce(producer, topic, numbers, PARTITIONS)
    producer.flush(60)
    producer.commit_transaction(60) if commit else producer.abort_transaction(60)
    # The next producer of that name has to wait for the last markers: so they are written then.
    _transactional(servers, topic)


def _transactional(servers: str, topic: str) -> Producer:
    producer = Producer(quiet(servers, transactional_id=f"txn-{topic}"))
    producer.init_transactions(60)
    return producer


def _produce(producer: Producer, topic: str, numbers: Iterable[int], partitions: int) -> None:
    for n in numbers:
        producer.produce(
            topic,
            key=None if n % 5 == 0 else b"key %d" % (n % 50),
            value=None if n % 7 == 0 else b"value %d" % n,
            partition=n % partitions,
            timestamp=BEGAN_MS + n - (n % 3) * 500,
            headers=[("number", b"%d" % n), ("none", None)] if n % 2 else [],
        )


def delete_before(servers: str, topic: str, partition: int, offset: int) -> None:
    """As retention does."""
    admin = AdminClient(quiet(servers))
    for done in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        done.result()


def add_partitions(servers: str, topic: str, total: int) -> None:
    admin = AdminClient(quiet(servers))
    for done in admin.create_partitions([NewPartitions(topic, total)]).values():
        done.result()


def archived_once(spark: SparkSession, asked: Asked) -> tuple[Contents, list[Progress]]:
    told: list[Progress] = []
    return archive(spark, asked, tell=told.append, restarts=2), told


def asked_for(servers: str, topic: str, folder: Path, **more: object) -> Asked:
    choices: dict[str, object] = {"once": True, "codec": "snappy"} | more
    return Asked(topic, str(folder), servers, **choices)  # type: ignore[arg-type]


def in_files(contents: Contents) -> list[Row]:
    """Every record, from the files themselves, in the order they lie there; checks their names."""
    found: list[Row] = []
    for partition in sorted(contents.ranges):
        for file in contents.files(partition):
            rows = pq.read_table(contents.path(file)).to_pylist()
            assert len(rows) == file.records
            if rows:
                name = file.path.removesuffix(".parquet").split("/")[-1]
                first, last = rows[0]["offset"], rows[-1]["offset"]
                assert name == f"{contents.topic}-{partition}-{first:020d}-{last:020d}"
                assert file.first <= first <= last < file.end
            found += [_row(contents.topic, row) for row in rows]
    return found


def _row(topic: str, row: dict[str, object]) -> Row:
    headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())  # type: ignore[attr-defined]
    ms = round(row["timestamp"].timestamp() * 1000)  # type: ignore[attr-defined]
    return Row(
        topic,
        row["partition"],  # type: ignore[arg-type]
        row["offset"],  # type: ignore[arg-type]
        row["key"],  # type: ignore[arg-type]
        row["value"],  # type: ignore[arg-type]
        ms,
        row["timestampType"],  # type: ignore[arg-type]
        headers,
    )


def in_topic(servers: str, topic: str, partitions: int = PARTITIONS) -> list[Row]:
    """What a consumer of somebody else's reads."""
    return consumed(servers, topic, range(partitions))
