"""Records that are no rows: as records for another topic, or as the end of the query."""

from typing import TYPE_CHECKING, Final

from barnabas.spark.errors import SparkJobError
from barnabas.spark.pipelines.definition import TopicSource
from barnabas.spark.pipelines.formats.names import (
    HEADERS,
    OFFSET,
    PARTITION,
    PROBLEM,
    RAW_KEY,
    RAW_VALUE,
    TIMESTAMP,
    TOPIC,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"


class PoisonRecordError(SparkJobError):
    """A record that is no row, of a source without a topic for such."""


def dead_records(judged: "DataFrame", source: TopicSource, pipeline: str) -> "DataFrame":
    """Key, value and headers of records with a problem; the last headers say which and where."""
    from pyspark.sql import functions as f

    utc = f.to_utc_timestamp(f.col(TIMESTAMP), f.current_timezone())
    added = {
        "reason": f.col(PROBLEM),
        "pipeline": f.lit(pipeline),
        "source": f.lit(source.name),
        "topic": f.col(TOPIC),
        "partition": f.col(PARTITION).cast("string"),
        "offset": f.col(OFFSET).cast("string"),
        "timestamp": f.date_format(utc, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"),
    }
    ours = f.array(*(_header(f"barnabas.{name}", value) for name, value in added.items()))
    headers = ours
    if HEADERS in judged.columns:
        none = f.array().cast(_HEADERS_TYPE)
        headers = f.concat(f.coalesce(f.col(HEADERS), none), ours)
    return judged.where(f.col(PROBLEM).isNotNull()).select(
        f.col(RAW_KEY).alias("key"),
        f.col(RAW_VALUE).alias("value"),
        headers.cast(_HEADERS_TYPE).alias("headers"),
    )


def without_dead(judged: "DataFrame", source: TopicSource) -> "DataFrame":
    """The rows without a problem; one with a problem ends the query if there is no dead letter.

    It ends it in a filter: a column that nobody asks for would not be computed.
    """
    from pyspark.sql import functions as f

    fine = f.col(PROBLEM).isNull()
    if source.dead_letter is not None:
        return judged.where(fine)
    return judged.where(f.when(fine, True).otherwise(f.raise_error(_sentence(source))))


def _sentence(source: TopicSource) -> "Column":
    """As a Python worker would tell of the error, by which `deaths` knows our sentences."""
    from pyspark.sql import functions as f

    kind = f"{PoisonRecordError.__module__}.{PoisonRecordError.__qualname__}"
    # A table is the newest record of each key, and has no dead letters.
    way_out = (
        "and write another one with its key: one that can be read, or one without a value to have "
        "the row gone"
        if source.table
        else f"or name a topic for them with dead_letter in sources.{source.name}"
    )
    advice = f" (source {source.name}): correct what writes such records, {way_out}."
    place = f.concat(
        f.col(TOPIC), f.lit("-"), f.col(PARTITION).cast("string"), f.lit("@"), f.col(OFFSET)
    )
    return f.concat(
        f.lit(f"\n{kind}: The record "),
        place,
        f.lit(" can not be read: "),
        f.col(PROBLEM),
        f.lit(f"{advice}\n"),
    )


def _header(name: str, value: "Column") -> "Column":
    from pyspark.sql import functions as f

    return f.struct(f.lit(name).alias("key"), value.cast("binary").alias("value"))
