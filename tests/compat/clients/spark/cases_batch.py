"""Batch jobs that both connectors do: options in, rows out."""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from tests.compat.clients.spark.harness import FORMATS, Bench, Job, Options, collected, differences
from tests.compat.clients.spark.topics import BORN_MS, CODECS, Topics


class BatchCase(NamedTuple):
    """A job and its name; `counts_tasks` where the number of tasks is asked for."""

    name: str
    options: Options
    job: Job = lambda df: df
    counts_tasks: bool = False


def _json(**value: object) -> str:
    return json.dumps({key.replace("_", "-"): each for key, each in value.items()})


def _seconds(number: int) -> str:
    return str(BORN_MS + number * 1000)


def _per_key(df: DataFrame) -> DataFrame:
    return df.groupBy("key").agg(sql.count("*").alias("n"), sql.max("offset").alias("last"))


PLAIN: Final = {"subscribe": "plain"}
COMMITTED: Final = {"kafka.isolation.level": "read_committed"}
UNCOMMITTED: Final = {"kafka.isolation.level": "read_uncommitted"}
SHORT: Final = {"subscribe": "shortened"}

CASES: Final = (
    BatchCase("everything", PLAIN),
    BatchCase("headers", PLAIN | {"includeHeaders": "true"}),
    BatchCase("two topics", {"subscribe": "plain, stamped"}),
    BatchCase("pattern", {"subscribePattern": "pattern-[ab]"}),
    BatchCase("pattern is for whole names", {"subscribePattern": "attern-a|pattern-b"}),
    BatchCase("assign", {"assign": _json(plain=[0, 2])}),
    BatchCase("an empty topic", {"subscribe": "empty"}),
    BatchCase("from earliest", PLAIN | {"startingOffsets": "earliest"}),
    BatchCase("to latest", PLAIN | {"endingOffsets": "latest"}),
    BatchCase(
        "from offsets",
        PLAIN | {"startingOffsets": _json(plain={"0": 10, "1": -2, "2": 5})},
    ),
    BatchCase(
        "to offsets",
        PLAIN | {"endingOffsets": _json(plain={"0": 20, "1": -1, "2": 0})},
    ),
    BatchCase(
        "between offsets",
        PLAIN
        | {
            "startingOffsets": _json(plain={"0": 10, "1": 7, "2": 5}),
            "endingOffsets": _json(plain={"0": 20, "1": 7, "2": 50}),
        },
    ),
    BatchCase("from a time", PLAIN | {"startingTimestamp": _seconds(100)}),
    BatchCase("to a time", PLAIN | {"endingTimestamp": _seconds(200)}),
    BatchCase("to a time to come", PLAIN | {"endingTimestamp": _seconds(100_000)}),
    BatchCase(
        "between times",
        PLAIN | {"startingTimestamp": _seconds(50), "endingTimestamp": _seconds(60)},
    ),
    BatchCase(
        "from times of partitions",
        PLAIN
        | {
            "startingOffsetsByTimestamp": _json(
                plain={"0": BORN_MS, "1": BORN_MS + 100_500, "2": BORN_MS + 299_000}
            ),
            "startingOffsetsByTimestampStrategy": "latest",
        },
    ),
    BatchCase(
        "to times of partitions",
        PLAIN
        | {
            "endingOffsetsByTimestamp": _json(
                plain={"0": BORN_MS, "1": BORN_MS + 100_500, "2": BORN_MS + 900_000}
            )
        },
    ),
    BatchCase(
        "from a time to come, strategy latest",
        PLAIN
        | {
            "startingTimestamp": _seconds(100_000),
            "startingOffsetsByTimestampStrategy": "latest",
        },
    ),
    BatchCase(
        "a time outranks offsets",
        PLAIN
        | {
            "startingTimestamp": _seconds(150),
            "startingOffsetsByTimestamp": _json(plain={"0": 0, "1": 0, "2": 0}),
            "startingOffsets": "earliest",
        },
    ),
    BatchCase(
        "times of partitions outrank offsets",
        PLAIN
        | {
            "endingOffsetsByTimestamp": _json(plain={str(n): BORN_MS + 9_000 for n in range(3)}),
            "endingOffsets": "latest",
        },
    ),
    BatchCase("the tasks as they come", PLAIN, counts_tasks=True),
    BatchCase("minPartitions", PLAIN | {"minPartitions": "8"}, counts_tasks=True),
    BatchCase(
        "maxRecordsPerPartition", PLAIN | {"maxRecordsPerPartition": "60"}, counts_tasks=True
    ),
    *(
        BatchCase(f"compressed with {codec}", {"subscribe": f"codec-{codec}"} | headers)
        for codec in CODECS
        for headers in ({"includeHeaders": "true"},)
    ),
    BatchCase("transactions, default isolation", {"subscribe": "transactions"}),
    BatchCase("transactions, read_committed", {"subscribe": "transactions"} | COMMITTED),
    BatchCase("transactions, read_uncommitted", {"subscribe": "transactions"} | UNCOMMITTED),
    BatchCase(
        "transactions split",
        {"subscribe": "transactions", "minPartitions": "5"} | COMMITTED,
    ),
    BatchCase("an open transaction, read_committed", {"subscribe": "open"} | COMMITTED),
    BatchCase("an open transaction, read_uncommitted", {"subscribe": "open"} | UNCOMMITTED),
    BatchCase("compacted", {"subscribe": "compacted"}),
    BatchCase("compacted and split", {"subscribe": "compacted", "minPartitions": "6"}),
    BatchCase(
        "compacted, from a gap to a gap",
        {
            "subscribe": "compacted",
            "startingOffsets": _json(compacted={"0": 100}),
            "endingOffsets": _json(compacted={"0": 300}),
        },
    ),
    BatchCase("the broker's time", {"subscribe": "stamped"}),
    BatchCase("records deleted from the beginning", SHORT),
    BatchCase(
        "from deleted offsets, loss allowed",
        SHORT | {"startingOffsets": _json(shortened={"0": 3}), "failOnDataLoss": "false"},
    ),
    BatchCase("the value alone", PLAIN, lambda df: df.select("value")),
    BatchCase("filtered", PLAIN, lambda df: df.where("partition = 1 AND offset > 30")),
    BatchCase(
        "filtered by time",
        PLAIN,
        lambda df: df.where(f"timestamp >= timestamp_millis({_seconds(100)})"),
    ),
    BatchCase("aggregated", PLAIN, _per_key),
)


def fill(topics: Topics) -> Any:
    """All topics of the cases; what is returned must live while they are read."""
    topics.fill_plain("plain")
    for name in ("pattern-a", "pattern-b", "pattern-c"):
        topics.fill_plain(name, partitions=1, records=10)
    topics.create("empty", 2)
    for codec in CODECS:
        topics.fill_compressed(f"codec-{codec}", codec)
    topics.fill_transactional("transactions")
    topics.fill_compacted("compacted")
    topics.fill_stamped("stamped")
    topics.fill_plain("shortened", partitions=1, records=20)
    topics.delete_records("shortened", 8)
    return topics.open_transaction("open")


def compare(bench: Bench, case: BatchCase) -> Iterator[str]:
    """What the two connectors do differently in one job."""
    frames = [case.job(bench.read(name, case.options)) for name in FORMATS]
    official, ours = frames
    if official.schema != ours.schema:
        yield f"batch, {case.name}: schema: official {official.schema}, barnabas {ours.schema}"
    rows = [collected(df) for df in frames]
    for line in differences(*rows):
        yield f"batch, {case.name}: {line}"
    if case.counts_tasks:
        counts = [df.rdd.getNumPartitions() for df in frames]
        if counts[0] != counts[1]:
            yield f"batch, {case.name}: tasks: official {counts[0]}, barnabas {counts[1]}"
