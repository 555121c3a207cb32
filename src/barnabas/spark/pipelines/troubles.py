"""What a query died of, in a sentence that names its place in the file; full disks above all."""

import contextlib
import os
import traceback
from typing import Final

from barnabas.spark.deaths import said_by, sentence_of
from barnabas.spark.pipelines.definition import Pipeline, TableSink
from barnabas.spark.pipelines.places import At
from barnabas.spark.pipelines.state import DEAD_LETTER

_FULL: Final = {
    "No space left on device": "is full",
    "Disk quota exceeded": "has no room left in your quota",
    "File too large": "takes no larger files",
}
"""How Linux says it, and through it Java."""
_LITTLE_BYTES: Final = 16 * 1024 * 1024
"""A disk with less than this free is taken for the full one."""


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
    text = _whole_text(error)
    what = next((meaning for sign, meaning in _FULL.items() if sign in text), None)
    if what is None:
        return None
    folders = _folders(pipeline, query)
    full = [folder for folder in folders if _free_bytes(folder) < _LITTLE_BYTES] or folders
    return (
        f"The disk of {' and of '.join(full)} {what}: nothing half-written can be seen, and it "
        "goes on once there is room."
    )


def _whole_text(error: BaseException) -> str:
    """With its causes: Spark says that a batch failed, and only further down why."""
    texts: list[str] = []
    found: BaseException | None = error
    while found is not None and len(texts) < 20:
        texts += [
            said_by(found),
            str(getattr(found, "_desc", "")),
            str(getattr(found, "_stackTrace", "")),
        ]
        found = getattr(found, "_cause", None) or found.__cause__
    return "\n".join(texts)


def _folders(pipeline: Pipeline, query: str) -> list[str]:
    """Where this query writes: its checkpoint, its table, and Spark's scratch files."""
    sink = pipeline.sinks.get(query)
    tables = [os.path.join(pipeline.folder, sink.path.value)] if isinstance(sink, TableSink) else []
    return [pipeline.state, *tables, os.environ.get("SPARK_LOCAL_DIRS") or "/tmp"]


def _free_bytes(folder: str) -> int:
    while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize
