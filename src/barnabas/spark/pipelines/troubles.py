"""What a query died of, in a sentence that names its place in the file; full disks above all."""

import contextlib
import os
import traceback

from barnabas.spark.deaths import sentence_of
from barnabas.spark.full_disks import full_disk
from barnabas.spark.pipelines.definition import Pipeline, TableSink
from barnabas.spark.pipelines.places import At
from barnabas.spark.pipelines.state import DEAD_LETTER


def place_of(pipeline: Pipeline, query: str) -> At:
    """Where the file declares it."""
    found = pipeline.sinks.get(query) or pipeline.sources.get(query.removeprefix(DEAD_LETTER))
    return found.at if found is not None else At(pipeline.file, 1)


def told(pipeline: Pipeline, query: str, error: BaseException) -> str:
    """One sentence with the place, whatever it was."""
    place = place_of(pipeline, query)
    disk = disk_trouble(pipeline, query, error)
    sentence = disk or sentence_of(error)
    if sentence.startswith(f"{place.file}:"):
        return sentence
    kind = "sink" if query in pipeline.sinks else "query"
    return f"{place}: {kind} {query}: {sentence}"


def write_down(error: BaseException) -> None:
    """All of it into Spark's log, for those to whom the sentence does not do."""
    # The log may be on the very disk that is full.
    with contextlib.suppress(OSError):
        traceback.print_exception(error)


def disk_trouble(pipeline: Pipeline, query: str, error: BaseException) -> str | None:
    """Which disk is full; None when that is not what it died of."""
    return full_disk(error, _folders(pipeline, query))


def _folders(pipeline: Pipeline, query: str) -> list[str]:
    """Where this query writes: its checkpoint and its table."""
    sink = pipeline.sinks.get(query)
    tables = [os.path.join(pipeline.folder, sink.path.value)] if isinstance(sink, TableSink) else []
    return [pipeline.state, *tables]
