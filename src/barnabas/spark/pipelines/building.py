"""A pipeline's queries: each in a session of its own, so that names do not meet."""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from barnabas.spark.errors import SparkJobError
from barnabas.spark.pipelines.definition import Pipeline, Sink, TopicSink, TopicSource
from barnabas.spark.pipelines.formats import encode
from barnabas.spark.pipelines.graph import needed
from barnabas.spark.pipelines.places import At, PipelineError
from barnabas.spark.pipelines.problems import Problems
from barnabas.spark.pipelines.queries import DEAD_LETTERS, Query, group_of
from barnabas.spark.pipelines.sources import decoded
from barnabas.spark.pipelines.spark_sentences import told_at
from barnabas.spark.pipelines.views import Views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build(
    spark: "SparkSession", pipeline: Pipeline, *, only: Collection[str] | None = None
) -> list[Query]:
    """The queries of all sinks and dead letters, or of `only` these names.

    Nothing is read or written yet. PipelineErrors has every problem that was found.
    """
    problems = Problems()
    queries = build_all(spark, pipeline, problems, only=only)
    problems.raise_any(pipeline.file)
    return queries


def build_all(
    spark: "SparkSession",
    pipeline: Pipeline,
    problems: Problems,
    *,
    only: Collection[str] | None = None,
) -> list[Query]:
    """As `build`, but those that can be built, while `problems` gathers what is wrong."""
    makers: dict[str, Callable[[], Query]] = {}
    for sink in pipeline.sinks.values():
        makers[sink.name] = partial(_of_sink, spark, pipeline, sink)
    for source in dead_letter_sources(pipeline):
        name = f"{DEAD_LETTERS}{source.name}"
        makers[name] = partial(_of_dead, spark, pipeline, source, name)
    unknown = sorted(set(only or ()) - makers.keys())
    if unknown:
        raise PipelineError(
            At(pipeline.file, 1),
            f"There is no query {unknown[0]}: there are {', '.join(makers)}.",
        )
    built = []
    for name, make in makers.items():
        if only is None or name in only:
            try:
                built.append(make())
            except PipelineError as problem:
                for each in getattr(problem, "problems", (problem,)):
                    problems.take(each)
    return built


def dead_letter_sources(pipeline: Pipeline) -> list[TopicSource]:
    """Those whose dead letters are kept, and that some sink needs."""
    wanted = {name for sink in pipeline.sinks for name in needed(pipeline, sink)}
    return [
        source
        for source in pipeline.sources.values()
        if isinstance(source, TopicSource)
        and source.dead_letter is not None
        and source.name in wanted
    ]


def _of_sink(spark: "SparkSession", pipeline: Pipeline, sink: Sink) -> Query:
    what = f"sinks.{sink.name}"
    views = Views(spark, pipeline, group_of(pipeline, sink.name))
    frame = views.frame(sink.input.value)
    if not frame.isStreaming:
        raise PipelineError(
            sink.at,
            f"{what}: {sink.input.value} is no stream: look at its Python steps, which must return "
            "what has become of their inputs.",
        )
    if isinstance(sink, TopicSink):
        try:
            with told_at(sink.at, what):
                frame = encode(frame, sink)
        except PipelineError:
            raise
        except SparkJobError as error:
            raise PipelineError(sink.at, f"{what}: {error}") from error
    return Query(sink.name, pipeline, sink, None, frame)


def _of_dead(spark: "SparkSession", pipeline: Pipeline, source: TopicSource, name: str) -> Query:
    session = Views(spark, pipeline, group_of(pipeline, name)).session
    begun = replace(source, beginning=source.dead_beginning)
    dead = decoded(session, pipeline, begun, group_of(pipeline, name)).dead
    if dead is None:
        raise PipelineError(source.at, f"sources.{source.name} has nothing to leave out.")
    return Query(name, pipeline, None, source, dead)
