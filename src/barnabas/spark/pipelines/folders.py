"""Folders of files that Spark's own sinks write; which batches are in is noted there, by number."""

import os
from typing import Final

from barnabas.spark.pipelines.definition import OtherSink, Pipeline, Sink
from barnabas.spark.sink.journal import local_path

_FORMATS: Final = frozenset(("csv", "json", "orc", "parquet", "text", "xml"))
"""Those that Spark streams into files itself."""


def folder_of_files(pipeline: Pipeline, sink: Sink) -> str | None:
    """Where such a sink writes; None for other sinks, and where it is not on this machine."""
    if not isinstance(sink, OtherSink) or sink.format.lower() not in _FORMATS:
        return None
    path = sink.path or sink.options.get("path")
    if path is None:
        return None
    inside = sink.path is not None and "://" not in path
    return local_path(os.path.join(pipeline.folder, path) if inside else path)


def is_filled(folder: str) -> bool:
    """Whether anything is there."""
    return os.path.exists(folder) and (not os.path.isdir(folder) or bool(os.listdir(folder)))
