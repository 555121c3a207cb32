"""Rows as records: key and value, and for raw the other parts that records have."""

from typing import TYPE_CHECKING, Final

from barnabas.spark.pipelines.definition import TopicSink
from barnabas.spark.pipelines.formats.expressions import is_nested, quoted
from barnabas.spark.pipelines.formats.names import KEY, METADATA
from barnabas.spark.pipelines.formats.of_avro import avro_value
from barnabas.spark.pipelines.formats.options import check_options
from barnabas.spark.pipelines.formats.refusals import refused
from barnabas.spark.pipelines.places import At, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

_PARTS: Final = {
    "headers": "array<struct<key:string,value:binary>>",
    "partition": "int",
    "timestamp": "timestamp",
}
"""Columns that are parts of raw records, and of which type they are."""


def encode(rows: "DataFrame", sink: TopicSink) -> "DataFrame":
    """Columns key (if there is any) and value; for raw headers, partition, timestamp, if there are.

    The value has all columns but `_key` and the others that come with every topic. Times in JSON
    are as Spark writes them: `2026-01-31T12:00:00.000Z`, in the session's time zone; and fields
    that are null are left out, unless the option ignoreNullFields is false. Raises PipelineError
    where rows of these columns can not be such records.
    """
    from pyspark.sql import functions as f

    where = f"sinks.{sink.name}"
    check_options(sink.at, where, "sink", sink.format, sink.options)
    if sink.schema is not None and sink.format != "avro":
        raise PipelineError(
            sink.schema.at, f"{where}.schema is for avro, and its format is {sink.format}: drop it."
        )
    parts = _key(rows, sink)
    with refused(sink.at, f"{where} as {sink.format}"):
        parts.append(_value(rows, sink).alias("value"))
        if sink.format == "raw":
            parts += [f.col(name) for name in _PARTS if _has_part(rows.schema, name, sink)]
        return rows.select(*parts)


def check_sink(sink: TopicSink, schema: "StructType") -> None:
    """PipelineError where rows of this schema can not be such records; needs a session."""
    from pyspark.sql import SparkSession

    encode(SparkSession.active().createDataFrame([], schema), sink)


def _key(rows: "DataFrame", sink: TopicSink) -> "list[Column]":
    """A key in the form that fits its type; none without `key` and a column `_key`."""
    from pyspark.sql import functions as f
    from pyspark.sql import types

    if sink.key is None and KEY not in rows.columns:
        return []
    text, at = (quoted(KEY), sink.at) if sink.key is None else (sink.key.value, sink.key.at)
    with refused(at, f"sinks.{sink.name}.key"):
        key = f.expr(text)
        kind = rows.select(key).schema[0].dataType
        if is_nested(kind):
            key = f.to_json(key)
        elif not isinstance(kind, types.StringType | types.BinaryType):
            key = key.cast("string")
        rows.select(key)
    return [key.alias("key")]


def _value(rows: "DataFrame", sink: TopicSink) -> "Column":
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    names = [name for name in rows.columns if name not in METADATA]
    if not names:
        raise PipelineError(
            sink.at, f"sinks.{sink.name}: {sink.input.value} has no columns for a value: add one."
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise PipelineError(
            sink.at,
            f"sinks.{sink.name}: {sink.input.value} has the column {twice} twice: name it AS.",
        )
    if sink.format == "raw":
        return _single(rows, "value", sink, ("string", "binary"))
    if sink.format == "text":
        name = "value" if "value" in names else names[0]
        return _text(rows, name, len(names), sink)
    if sink.format == "avro":
        return avro_value(names, StructType([rows.schema[name] for name in names]), sink)
    whole = f.struct(*(f.col(quoted(name)) for name in names))
    options = dict(sink.options)
    return f.to_json(whole, options) if sink.format == "json" else f.to_csv(whole, options)


def _text(rows: "DataFrame", name: str, count: int, sink: TopicSink) -> "Column":
    from pyspark.sql import functions as f

    if count > 1 and name != "value":
        raise PipelineError(
            sink.at,
            f"sinks.{sink.name} writes text, and {sink.input.value} has {count} columns: select "
            "one, or make one of the name value.",
        )
    column = f.col(quoted(name))
    return f.to_json(column) if is_nested(rows.schema[name].dataType) else column.cast("string")


def _single(rows: "DataFrame", name: str, sink: TopicSink, kinds: tuple[str, ...]) -> "Column":
    from pyspark.sql import functions as f

    if name not in rows.columns:
        raise PipelineError(
            sink.at,
            f"sinks.{sink.name} writes raw records, and {sink.input.value} has no column value: "
            "make one of type BINARY or STRING, or choose another format.",
        )
    _check_type(rows.schema, name, kinds, sink.at, f"sinks.{sink.name}")
    return f.col(quoted(name))


def _has_part(schema: "StructType", name: str, sink: TopicSink) -> bool:
    if name not in schema.names:
        return False
    _check_type(schema, name, (_PARTS[name],), sink.at, f"sinks.{sink.name}")
    return True


def _check_type(
    schema: "StructType", name: str, kinds: tuple[str, ...], at: At, where: str
) -> None:
    from pyspark.sql.types import StringType

    given = schema[name].dataType
    found = "string" if isinstance(given, StringType) else given.simpleString()
    if found not in kinds:
        wanted = " or ".join(kind.upper() for kind in kinds)
        raise PipelineError(
            at, f"{where}: the column {name} is of type {found.upper()}: cast it to {wanted}."
        )
