"""Everything that can be known about a pipeline before it runs, each problem as one sentence."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.errors import SparkJobError
from barnabas.spark.pipelines.building import build_all
from barnabas.spark.pipelines.definition import Pipeline, Sink, TableSink, TopicSink
from barnabas.spark.pipelines.folders import folder_of_files, is_filled
from barnabas.spark.pipelines.places import At, PipelineError
from barnabas.spark.pipelines.problems import Problems, meant
from barnabas.spark.pipelines.queries import Query
from barnabas.spark.pipelines.shapes import check_same
from barnabas.spark.pipelines.sources import path_in
from barnabas.spark.pipelines.spark_sentences import sentence_of, told_at
from barnabas.spark.pipelines.topics_there import check_topics
from barnabas.spark.sink.options import parse
from barnabas.spark.sink.rows import check_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_WATERMARK: Final = "without watermark"


def check(
    pipeline: Pipeline,
    spark: "SparkSession",
    *,
    offline: bool,
    shapes_before: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[str]:
    """A sentence for each problem, in the order of the file's lines; none when it can run.

    `offline` asks no broker. `shapes_before` are those with which queries were last started.
    """
    problems = Problems()
    for query in build_all(spark, pipeline, problems):
        _note(problems, partial(_check_streaming, query))
        if query.sink is None or isinstance(query.sink, TopicSink):
            _note(problems, partial(_check_records, query))
        elif isinstance(query.sink, TableSink):
            _note(problems, partial(_check_table, query, query.sink))
        else:
            columns = query.sink.partition_by
            _note(problems, partial(_check_columns, query, query.sink.at, "partition_by", columns))
        before = (shapes_before or {}).get(query.name)
        if before is not None:
            _note(problems, partial(check_same, query, before))
        elif query.sink is not None:
            _note(problems, partial(_check_files, query, query.sink))
    if not offline:
        check_topics(pipeline, problems)
    try:
        problems.raise_any(pipeline.file)
    except PipelineError as found:
        return [str(each) for each in getattr(found, "problems", (found,))]
    return []


def _note(problems: Problems, checked: Callable[[], None]) -> None:
    try:
        checked()
    except PipelineError as problem:
        problems.take(problem)


def _check_streaming(query: Query) -> None:
    """Spark's rules of what a stream can do in which mode, as it checks them at the start."""
    from pyspark.errors import AnalysisException

    jvm: Any = query.frame.sparkSession._jvm
    rules = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    mode = getattr(modes, query.output_mode.capitalize())()
    try:
        rules.checkForStreaming(query.frame._jdf.queryExecution().analyzed(), mode)
    except AnalysisException as error:
        sentence = sentence_of(error)
        if _NO_WATERMARK in sentence:
            sentence += " Give the source a watermark, or the sink `mode: update`."
        raise PipelineError(query.at, f"{query.what}: {sentence}") from error


def _check_records(query: Query) -> None:
    """Whether the sink takes these options and columns."""
    try:
        check_schema(query.frame.schema, parse(query.topic_options(1), streaming=True))
    except SparkJobError as error:
        raise PipelineError(query.at, f"{query.what}: {error}") from error


def _check_table(query: Query, sink: TableSink) -> None:
    from barnabas.spark.tables import writing

    what = f"sinks.{sink.name}"
    _check_columns(query, sink.at, "partition_by", sink.partition_by)
    _check_columns(query, sink.at, "key", sink.key)
    for field, text in (("order_by", sink.order_by), ("delete_when", sink.delete_when)):
        if text is not None:
            with told_at(text, f"{what}.{field}"):
                query.frame.selectExpr(text.value)
    try:
        folder = path_in(query.pipeline, sink.path.value)
        writing.check_folder(
            folder, query.owner, query.frame.schema, partition_by=sink.partition_by, key=sink.key
        )
    except PipelineError:
        raise
    except SparkJobError as error:
        raise PipelineError(sink.path.at, f"{what}: {error}") from error


def _check_files(query: Query, sink: Sink) -> None:
    """Of a query that never ran: what Spark finds noted there it would take for its own."""
    folder = folder_of_files(query.pipeline, sink)
    if folder is not None and is_filled(folder):
        raise PipelineError(
            sink.at,
            f"sinks.{sink.name}: the folder {folder} is not empty, and nothing there was written "
            "by this sink as its state knows it: choose another, or move what is there away.",
        )


def _check_columns(query: Query, at: At, field: str, columns: tuple[str, ...]) -> None:
    known = query.frame.columns
    for column in columns:
        if column.lower() not in {each.lower() for each in known}:
            end = meant(column, known, f": choose of {', '.join(known)}.")
            raise PipelineError(at, f"sinks.{query.name}.{field}: there is no column {column}{end}")
