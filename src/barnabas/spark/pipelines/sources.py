"""Sources of a pipeline as DataFrames, for one query's session."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.pipelines.definition import (
    FileSource,
    Pipeline,
    Source,
    TopicSource,
    Watermark,
)
from barnabas.spark.pipelines.formats import Decoded, decode, source_columns
from barnabas.spark.pipelines.places import PipelineError
from barnabas.spark.pipelines.spark_sentences import told_at
from barnabas.spark.pipelines.topic_tables import newest_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TABLE: Final = "table"


def source_rows(
    session: "SparkSession", pipeline: Pipeline, source: Source, group: str
) -> "DataFrame":
    """The rows that steps see under the source's name."""
    if isinstance(source, FileSource):
        rows = _of_files(session, pipeline, source)
    elif source.table:
        rows = _newest(session, pipeline, source)
    else:
        rows = decoded(session, pipeline, source, group).rows
    return rows if source.watermark is None else _watermarked(rows, source.name, source.watermark)


def decoded(
    session: "SparkSession", pipeline: Pipeline, source: TopicSource, group: str
) -> Decoded:
    """The records of topics as they come, taken apart."""
    with _told(source):
        reader = session.readStream.format("barnabas").options(**topic_options(pipeline, source))
        reader = reader.option("kafka.group.id", group)
        reader = reader.option("startingOffsets", source.beginning or source.starting)
        if source.max_per_trigger is not None:
            reader = reader.option("maxOffsetsPerTrigger", source.max_per_trigger)
        return decode(reader.load(), source, pipeline=pipeline.name)


def kafka_options(pipeline: Pipeline, own: dict[str, str]) -> dict[str, str]:
    """`kafka.…` of the whole file, and of one source or sink, which win."""
    merged = {"bootstrap.servers": pipeline.servers, **pipeline.kafka, **own}
    return {f"kafka.{key}": value for key, value in merged.items()}


def path_in(pipeline: Pipeline, path: str) -> str:
    """A path of the file, seen from the pipeline's folder; `s3://…` and such stay as they are."""
    return path if "://" in path else os.path.normpath(os.path.join(pipeline.folder, path))


def topic_options(pipeline: Pipeline, source: TopicSource) -> dict[str, str]:
    """What to read, where, and which columns of it."""
    which = (
        {"subscribePattern": source.pattern}
        if source.pattern is not None
        else {"subscribe": ",".join(source.topics)}
    )
    columns = {"columns": ",".join(source_columns())}
    return kafka_options(pipeline, dict(source.kafka)) | which | columns


def _newest(session: "SparkSession", pipeline: Pipeline, source: TopicSource) -> "DataFrame":
    with _told(source):
        records = newest_records(session, topic_options(pipeline, source))
        return decode(records, replace(source, nulls="skip"), pipeline=pipeline.name).rows


def _of_files(session: "SparkSession", pipeline: Pipeline, source: FileSource) -> "DataFrame":
    path = None if source.path is None else path_in(pipeline, source.path)
    with _told(source):
        if source.format == _TABLE:
            return _table(session, source, path)
        reader: Any = session.readStream if source.stream else session.read
        reader = reader.format(source.format).options(**source.options)
        if source.schema is not None:
            with told_at(source.schema, f"sources.{source.name}.schema"):
                reader = reader.schema(source.schema.value)
        frame: DataFrame = reader.load() if path is None else reader.load(path)
        return frame


def _table(session: "SparkSession", source: FileSource, path: str | None) -> "DataFrame":
    """The table as it is when the query starts: what is committed later comes with a restart."""
    from barnabas.spark.tables.reading import read

    if source.stream:
        raise PipelineError(
            source.at,
            f"sources.{source.name}: a table can not be read as a stream: leave `stream` out, or "
            "read the topic that the table is made of.",
        )
    if path is None:
        raise PipelineError(source.at, f"sources.{source.name}: name the table's folder in path.")
    return read(session, path)


def _watermarked(rows: "DataFrame", name: str, watermark: Watermark) -> "DataFrame":
    types = {field.name.lower(): field.dataType for field in rows.schema.fields}
    found = types.get(watermark.column.lower())
    what = f"sources.{name}.watermark"
    if found is None:
        raise PipelineError(
            watermark.at,
            f"{what}: there is no column {watermark.column}: choose of {', '.join(rows.columns)}.",
        )
    if found.typeName() != "timestamp":
        raise PipelineError(
            watermark.at,
            f"{what}: the column {watermark.column} is {found.simpleString().upper()}, and a "
            "watermark needs a TIMESTAMP: cast it, or choose another column.",
        )
    with told_at(watermark.at, what):
        return rows.withWatermark(watermark.column, watermark.delay)


@contextmanager
def _told(source: Source) -> Iterator[None]:
    """Whatever goes wrong within is told as the source's; sentences of our own as they are."""
    from barnabas.spark.errors import SparkJobError

    what = f"sources.{source.name}"
    try:
        with told_at(source.at, what):
            yield
    except PipelineError:
        raise
    except SparkJobError as error:
        raise PipelineError(source.at, f"{what}: {error}") from error
