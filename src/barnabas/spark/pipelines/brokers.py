"""Waiting for the brokers of a pipeline: it may well be started before they are."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from barnabas.spark.cluster.cluster import cluster_of
from barnabas.spark.cluster.connection import Connection
from barnabas.spark.errors import SparkJobError
from barnabas.spark.pipelines.definition import Pipeline, TopicSink, TopicSource
from barnabas.spark.pipelines.sources import kafka_options
from barnabas.spark.supervisor import Pauses

_PATIENCE_MS: Final = "10000"


def wait_for_brokers(
    pipeline: Pipeline, attempts: int | None, tell: Callable[[str], None]
) -> SparkJobError | None:
    """Returns when all answer, or the error after so many attempts more than one in vain.

    What waiting can not mend is left to the check, which names the place.
    """
    for options in _clusters(pipeline):
        pauses = Pauses()
        while (error := _error_of(options)) is not None and error.restart_helps:
            if pauses.taken == attempts:
                return error
            pause_s = pauses.next()
            tell(f"{error} It is tried again in {pause_s:g} s.")
            time.sleep(pause_s)
    return None


def _error_of(options: dict[str, str]) -> SparkJobError | None:
    asked = {"kafka.default.api.timeout.ms": _PATIENCE_MS} | options
    try:
        cluster_of(Connection.from_options(asked)).topic_names()
    except SparkJobError as error:
        return error
    return None


def _clusters(pipeline: Pipeline) -> Iterator[dict[str, str]]:
    """The options for each, once for each address."""
    known: set[str] = set()
    for thing in (*pipeline.sources.values(), *pipeline.sinks.values()):
        if isinstance(thing, TopicSource | TopicSink):
            options = kafka_options(pipeline, dict(thing.kafka))
            servers = options["kafka.bootstrap.servers"]
            if servers not in known:
                known.add(servers)
                yield options
