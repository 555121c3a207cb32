"""What a query's checkpoint says of one micro-batch: up to which offsets its sources were read.

Spark writes `offsets/N` before batch N runs. The file is lines of text: its version, a line about
the batch, then one line for each source: the source's offset as JSON, `-` for a source that has
none yet. From version 2 on a source's number or name and a colon stand before the JSON.
"""

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place, is_offsets, offsets_from_json

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_NAMED: Final = "v2"
_VERSIONS: Final = ("v1", _NAMED)
_LINES_BEFORE_SOURCES: Final = 2
_HASH_LETTERS: Final = 16
_JOURNAL_BYTES_MAX: Final = 64 * 1024 * 1024
"""Far more than the offsets of a hundred thousand partitions take."""


def source_offsets(checkpoint: str, batch_id: int) -> dict[Place, int]:
    """Where the next batch goes on reading, of every topic that this batch read.

    Sources that are no topics have no say. Of a topic that two sources read, the one that is
    behind counts: nothing before it will be read again.
    """
    path = f"{checkpoint.rstrip('/')}/offsets/{batch_id}"
    try:
        text = _read(path)
    except (OSError, ValueError, UnicodeDecodeError) as problem:
        raise SparkJobError(
            f"The offsets of batch {batch_id} can not be read from {path} ({problem}), so they can "
            "not be committed with the rows: give the driver access to the checkpoint, or leave "
            "the sink's option sourceGroup out."
        ) from problem
    return parse_offsets(text, path)


def fingerprint(checkpoint: str, batch_id: int) -> str:
    """Tells whether two batches of one number are the same batch.

    Empty where that is not known: the checkpoint is not on this machine's own files, or has no
    such batch. Elsewhere it would cost every batch a round trip to a file server.
    """
    path = local_path(f"{checkpoint.rstrip('/')}/offsets/{batch_id}")
    if path is None or not os.path.exists(path):
        return ""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read(_JOURNAL_BYTES_MAX)).hexdigest()[:_HASH_LETTERS]


def parse_offsets(text: str, path: str) -> dict[Place, int]:
    """The offsets in the journal's text; `path` is for the sentence when they are not there."""
    version, *lines = text.splitlines() or [""]
    if version.strip() not in _VERSIONS:
        raise SparkJobError(
            f"{path} is written as {version!r}, and only {' and '.join(_VERSIONS)} are known here: "
            "leave the sink's option sourceGroup out, or use a release that knows it."
        )
    found: dict[Place, int] = {}
    for line in lines[_LINES_BEFORE_SOURCES - 1 :]:
        offset = line.partition(":")[2] if version.strip() == _NAMED else line
        for place, next_offset in _of_topics(offset).items():
            found[place] = min(next_offset, found.get(place, next_offset))
    if not found:
        raise SparkJobError(
            f"{path} names no topic's offsets, so there is nothing to commit to the group: the "
            "sink's option sourceGroup is for queries that read topics, so leave it out."
        )
    return found


def _of_topics(line: str) -> dict[Place, int]:
    """Offsets of topics, or nothing where the line is another kind of source's."""
    try:
        offset: Any = json.loads(line)
    except json.JSONDecodeError:
        return {}
    return offsets_from_json(offset) if is_offsets(offset) else {}


def local_path(location: str) -> str | None:
    """The path of a location on this machine's own files; None where it lies elsewhere."""
    parts = urlsplit(location)
    if not parts.scheme:
        return os.path.abspath(location)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return os.path.abspath(unquote(parts.path))
    return None


def _read(location: str) -> str:
    path = local_path(location)
    if path is not None:
        with open(path, "rb") as file:
            return file.read(_JOURNAL_BYTES_MAX).decode()
    files, inside = _elsewhere(location)
    with files.open_input_stream(inside) as stream:
        return bytes(stream.read(_JOURNAL_BYTES_MAX)).decode()


def _elsewhere(location: str) -> "tuple[FileSystem, str]":
    from pyarrow.fs import FileSystem

    # Hadoop's names for S3; Arrow knows the first only.
    scheme, _, rest = location.partition("://")
    known = "s3" if scheme in ("s3a", "s3n") else scheme
    files, path = FileSystem.from_uri(f"{known}://{rest}")
    return files, path
