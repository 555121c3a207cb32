"""Whether the clusters of a pipeline answer, and have the topics that it names."""

from dataclasses import dataclass
from typing import Final

from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.errors import SparkJobError
from barnabas.spark.pipelines.definition import Pipeline, TopicSink, TopicSource
from barnabas.spark.pipelines.graph import needed
from barnabas.spark.pipelines.places import At
from barnabas.spark.pipelines.problems import Problems, meant
from barnabas.spark.pipelines.sources import kafka_options
from barnabas.spark.source.subscription import compile_pattern

_PATIENCE_MS: Final = "10000"
"""Somebody waits for the answer; a pipeline that runs is patient for longer."""


@dataclass(frozen=True, slots=True)
class _Named:
    """A topic, or a pattern of topics, somewhere in the file."""

    at: At
    what: str
    topic: str
    kafka: dict[str, str]
    """Options of its own."""
    is_pattern: bool = False


def check_topics(pipeline: Pipeline, problems: Problems) -> None:
    """Note what is missing; each cluster is asked once."""
    answers: dict[str, list[str] | None] = {}
    for named in _named(pipeline):
        options = kafka_options(pipeline, named.kafka)
        servers = options["kafka.bootstrap.servers"]
        if servers not in answers:
            answers[servers] = _ask(options, servers, pipeline, problems)
        known = answers[servers]
        if known is not None:
            _note(named, known, servers, problems)


def _note(named: _Named, known: list[str], servers: str, problems: Problems) -> None:
    if named.is_pattern:
        try:
            pattern = compile_pattern(named.topic)
        except SparkJobError as error:
            problems.add(named.at, f"{named.what}: {error}")
            return
        if not any(map(pattern.search, known)):
            problems.add(
                named.at,
                f"{named.what}: no topic at {servers} is like {named.topic}: check the pattern, or "
                "make one with barnabas topic create.",
            )
    elif named.topic not in known:
        make = f"make it with barnabas topic create {named.topic}"
        near = meant(named.topic, known, "")
        end = f"{near} Otherwise {make}." if near else f": {make}."
        problems.add(named.at, f"{named.what}: there is no topic {named.topic} at {servers}{end}")


def _named(pipeline: Pipeline) -> list[_Named]:
    found: list[_Named] = []
    wanted = {name for sink in pipeline.sinks for name in needed(pipeline, sink)}
    for source in pipeline.sources.values():
        if isinstance(source, TopicSource) and source.name in wanted:
            found += _of_source(source)
    for sink in pipeline.sinks.values():
        if isinstance(sink, TopicSink):
            what = f"sinks.{sink.name}"
            found.append(_Named(sink.topic.at, what, sink.topic.value, dict(sink.kafka)))
    return found


def _of_source(source: TopicSource) -> list[_Named]:
    what, own = f"sources.{source.name}", dict(source.kafka)
    found = [_Named(source.at, what, topic, own) for topic in source.topics]
    if source.pattern is not None:
        found.append(_Named(source.at, what, source.pattern, own, is_pattern=True))
    if source.dead_letter is not None:
        dead = source.dead_letter
        found.append(_Named(dead.at, f"{what}.dead_letter", dead.value, own))
    return found


def _ask(
    options: dict[str, str], servers: str, pipeline: Pipeline, problems: Problems
) -> list[str] | None:
    asked = {"kafka.default.api.timeout.ms": _PATIENCE_MS} | options
    try:
        return cluster_of(Connection.from_options(asked)).topic_names()
    except SparkJobError as error:
        problems.add(None, f"{pipeline.file}: servers {servers}: {error}")
        return None
