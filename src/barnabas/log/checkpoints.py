"""Kafka's small text files: a version, a count of rows, then the rows."""

from collections.abc import Iterable, Mapping

from barnabas.model.topics import TopicPartition
from barnabas.ports.files import Files

_VERSION = "0"


class CheckpointError(Exception):
    """A checkpoint file does not say what it should."""


def write_rows(rows: Iterable[tuple[object, ...]]) -> bytes:
    """The file's content."""
    lines = [" ".join(map(str, row)) for row in rows]
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def read_rows(data: bytes, *, columns: int) -> list[list[str]]:
    """The rows, each of `columns` words. Raises CheckpointError for anything else."""
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise CheckpointError("bytes that are no text") from error
    if len(lines) < 2 or lines[0].strip() != _VERSION or not lines[1].strip().isdecimal():
        raise CheckpointError("a head that is not version and count")
    rows = [line.split() for line in lines[2:] if line.strip()]
    if len(rows) != int(lines[1]):
        raise CheckpointError(f"{len(rows)} rows where {int(lines[1])} were announced")
    for row in rows:
        if len(row) != columns or not all(_is_number(word) for word in row[-2:]):
            raise CheckpointError(f"a row that reads {' '.join(row)[:80]!r}")
    return rows


def _is_number(word: str) -> bool:
    return word.removeprefix("-").isdecimal() and len(word) <= 20


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a `topic partition offset` file, atomically and durably."""
    rows = ((tp.topic, tp.partition, offset) for tp, offset in sorted(offsets.items()))
    files.replace(path, write_rows(rows))


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """A `topic partition offset` file; nothing when there is none. May raise CheckpointError."""
    if not files.exists(path):
        return {}
    rows = read_rows(files.read(path), columns=3)
    return {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in rows}
