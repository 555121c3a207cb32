"""Records of topics as rows: decoded, cast, and held against what is expected of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.spark.pipelines.definition import TopicSource
from barnabas.spark.pipelines.formats import names
from barnabas.spark.pipelines.formats.casts import cast_columns
from barnabas.spark.pipelines.formats.dead_letters import dead_records, without_dead
from barnabas.spark.pipelines.formats.decoders import Decoder
from barnabas.spark.pipelines.formats.expectations import unmet
from barnabas.spark.pipelines.formats.expressions import first_of, once, quoted
from barnabas.spark.pipelines.formats.of_avro import avro_decoder
from barnabas.spark.pipelines.formats.of_csv import csv_decoder
from barnabas.spark.pipelines.formats.of_json import json_decoder
from barnabas.spark.pipelines.formats.of_text import raw_decoder, text_decoder
from barnabas.spark.pipelines.formats.options import check_options
from barnabas.spark.pipelines.formats.refusals import refused
from barnabas.spark.pipelines.places import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a source's records are: one query uses one of the two."""

    rows: "DataFrame"
    dead: "DataFrame | None"
    """Key, value and headers for the dead-letter topic; None where there is none."""


def decode(raw: "DataFrame", source: TopicSource, *, pipeline: str) -> Decoded:
    """Rows of a topic's records, of a stream or a batch that has `source_columns()`.

    Their columns are those of TopicSource. Raises PipelineError for what can be seen before any
    record. A record that is no row is in `dead`; without a dead-letter topic it ends the query.
    """
    judged, columns = _judged(raw, source)
    metadata = [name for name in names.METADATA if name in judged.columns]
    shown = [quoted(name) for name in (*columns, *metadata)]
    rows = without_dead(judged, source).select(*shown)
    dead = None if source.dead_letter is None else dead_records(judged, source, pipeline)
    return Decoded(rows, dead)


def check_source(source: TopicSource) -> None:
    """PipelineError for a schema, cast, condition or option that can not be; needs a session."""
    from pyspark.sql import SparkSession

    decode(_no_records(SparkSession.active()), source, pipeline="")


def _no_records(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame(
        [],
        "key binary, value binary, topic string, partition int, offset bigint, "
        "timestamp timestamp, headers array<struct<key:string,value:binary>>",
    )


def _judged(raw: "DataFrame", source: TopicSource) -> "tuple[DataFrame, list[str]]":
    """All records with their columns and what is wrong with them; and which columns those are.

    Each `once` closes a step: what it names is there for the next ones and never computed again.
    """
    from pyspark.sql import functions as f

    decoder = _decoder(source)
    if source.nulls == "skip":
        raw = raw.where(f.col("value").isNotNull())
    steady = [*_metadata(raw, source), f.col("key").alias(names.RAW_KEY)]
    steady.append(f.col("value").alias(names.RAW_VALUE))
    kept = [quoted(name) for name in raw.select(*steady).columns]
    where = f"sources.{source.name}.schema"
    with refused(source.schema.at if source.schema else source.at, where):
        decoded = raw.select(*steady).select(*kept, once(decoder.decoded).alias(names.DECODED))
        columns = [column.alias(name) for name, column in decoder.columns.items()]
        problem = once(_decoding_problem(decoder, source)).alias(names.PROBLEM)
        rows = decoded.select(*kept, *columns, problem)
    rows, lost = cast_columns(rows, source, list(decoder.columns))
    there = f.col(names.RAW_VALUE).isNotNull()
    checks = [f.when(there, first_of(unmet(rows, source)))] if source.expect else []
    if lost or checks:
        whole = once(first_of([f.col(names.PROBLEM), *lost, *checks]))
        rows = rows.withColumn(names.PROBLEM, whole)
    return rows, list(decoder.columns)


def _metadata(raw: "DataFrame", source: TopicSource) -> "list[Column]":
    from pyspark.sql import functions as f

    key = f.col("key") if source.key == "binary" else f.col("key").cast("string")
    others = [name for name in names.METADATA[1:] if name.removeprefix("_") in raw.columns]
    return [key.alias(names.KEY), *(f.col(name.removeprefix("_")).alias(name) for name in others)]


def _decoding_problem(decoder: Decoder, source: TopicSource) -> "Column":
    from pyspark.sql import functions as f

    there = f.col(names.RAW_VALUE).isNotNull()
    problems = []
    if source.key == "text":
        problems.append(
            f.when(
                ~f.is_valid_utf8(f.col(names.KEY)),
                f.lit("the key is no UTF-8 text (key: binary takes any bytes)"),
            )
        )
    if source.nulls == "dead-letter":
        problems.append(f.when(~there, f.lit("the record has no value")))
    if decoder.problem is not None:
        problems.append(f.when(there, decoder.problem))
    return first_of(problems)


def _decoder(source: TopicSource) -> Decoder:
    where = f"sources.{source.name}"
    check_options(source.at, where, "source", source.format, source.options)
    if source.framing != "none" and source.format != "avro":
        raise PipelineError(
            source.at, f"{where}.framing is for avro, and its format is {source.format}: drop it."
        )
    if source.format == "json":
        return json_decoder(source)
    if source.format == "csv":
        return csv_decoder(source)
    if source.format == "avro":
        return avro_decoder(source)
    if source.schema is not None:
        raise PipelineError(
            source.schema.at,
            f"{where} has the format {source.format}, whose one column is value: drop the schema.",
        )
    return text_decoder() if source.format == "text" else raw_decoder()
