"""The same job on both connectors with one word changed, and what came out differently."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from tests.compat.clients.spark.topics import Topics

OFFICIAL: Final = "kafka"
OURS: Final = "barnabas"
FORMATS: Final = (OFFICIAL, OURS)
STREAM_S_MAX: Final = 120
_SHOWN: Final = 3

Options = Mapping[str, str]
Rows = list[tuple[Any, ...]]
Job = Callable[[DataFrame], DataFrame]


class Trigger(NamedTuple):
    """One micro-batch: its number, what it brought, and where it ended."""

    batch: int
    rows: Rows
    end: Any


@dataclass
class Bench:
    """One session, one broker, a place for checkpoints."""

    spark: SparkSession
    topics: Topics
    home: Path

    @property
    def servers(self) -> dict[str, str]:
        """The option both formats need."""
        return {"kafka.bootstrap.servers": self.topics.bootstrap}

    def read(self, format_name: str, options: Options) -> DataFrame:
        """A DataFrame of a batch job."""
        return self.spark.read.format(format_name).options(**self.servers, **options).load()

    def stream(
        self, format_name: str, options: Options, checkpoint: str, job: Job = lambda df: df
    ) -> list[Trigger]:
        """Run a query over what is there now; each micro-batch as it came."""
        source = self.spark.readStream.format(format_name).options(**self.servers, **options)
        brought: dict[int, Rows] = {}

        def keep(df: DataFrame, batch: int) -> None:
            brought[batch] = collected(df)

        query = (
            job(source.load())
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self.home / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            if not query.awaitTermination(STREAM_S_MAX):
                raise TimeoutError(f"the query on {format_name} does not end")
            ends = {each["batchId"]: each["sources"] for each in map(_plain, query.recentProgress)}
        finally:
            query.stop()
        return [
            Trigger(batch, rows, _offsets(ends[batch][0]["endOffset"]))
            for batch, rows in sorted(brought.items())
        ]

    def write(self, format_name: str, df: DataFrame, options: Options) -> None:
        """A batch job that ends in a topic."""
        df.write.format(format_name).options(**self.servers, **options).mode("append").save()


def collected(df: DataFrame) -> Rows:
    """Rows in one order whatever the tasks were; times as microseconds, bytes as bytes."""
    exact = [
        sql.unix_micros(name).alias(name) if name == "timestamp" else sql.col(name)
        for name in df.columns
    ]
    rows = [tuple(_bare(value) for value in row) for row in df.select(*exact).collect()]
    return sorted(rows, key=repr)


def differences(official: Sequence[Any], ours: Sequence[Any]) -> Iterator[str]:
    """The first few places where two lists of things part."""
    if len(official) != len(ours):
        yield f"official has {len(official)}, barnabas {len(ours)}"
    shown = 0
    for number, (theirs, mine) in enumerate(zip_longest(official, ours)):
        if theirs != mine:
            yield f"at {number}: official {theirs!r}, barnabas {mine!r}"
            shown += 1
            if shown == _SHOWN:
                return


def _bare(value: Any) -> Any:
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, list | tuple):
        return tuple(_bare(each) for each in value)
    return value


def _plain(progress: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(progress.json)
    return told


def _offsets(end: Any) -> Any:
    """Offsets as told in progress: by number, so that text order plays no part."""
    if not isinstance(end, dict):
        return end
    return {
        topic: {int(partition): offset for partition, offset in offsets.items()}
        for topic, offsets in end.items()
    }
