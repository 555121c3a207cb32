"""The lines of a Delta log: what they say, checked, and what a table is after them.

A version is a file of JSON objects, one on each line, each with one key that says which action it
is. Actions that are not known here are left out, as the protocol wants it; whatever would change
the meaning of the rest is announced by the table's protocol, and refused.
"""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote

from barnabas.spark.tables.snapshot import (
    ROWS_UNKNOWN,
    Batch,
    DataFile,
    Shape,
    Snapshot,
    TableError,
)

READER_VERSION: Final = 1
WRITER_VERSION: Final = 2
ENGINE: Final = "barnabas"
FINGERPRINT: Final = "barnabasBatch"
"""In the `commitInfo`, where programs may say what they like."""

Json = dict[str, Any]


class DamagedError(ValueError):
    """A line is not what the protocol says; its text says which part."""


class UnknownFeatureError(DamagedError):
    """The table uses what readers of our protocol version do not know."""


@dataclass(slots=True)
class State:
    """A table while its log is read; `snapshot` makes it final."""

    table_id: str | None = None
    shape: Shape | None = None
    protocol_seen: bool = False
    files: dict[str, DataFile] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot) -> "State":
        """To go on from a snapshot, which stays as it is."""
        return cls(
            snapshot.table_id,
            snapshot.shape,
            True,
            dict(snapshot.files),
            dict(snapshot.transactions),
            dict(snapshot.removed),
        )

    def snapshot(self, version: int) -> Snapshot:
        """What the table is after the actions so far."""
        if self.shape is None or self.table_id is None:
            raise DamagedError("it has no metaData")
        if not self.protocol_seen:
            raise DamagedError("it has no protocol")
        return Snapshot(
            version, self.table_id, self.shape, self.files, self.transactions, self.removed
        )

    def apply(self, action: Json) -> None:
        """One line of the log; what is not known here changes nothing."""
        for name, content in action.items():
            if content is None:
                continue
            if name in _APPLIED:
                _APPLIED[name](self, _object(content, name))


def apply_version(state: State, content: bytes) -> None:
    """All actions of one version; DamagedError for what can not be."""
    seen: set[str] = set()
    for line in content.splitlines():
        if not line.strip():
            continue
        action = _parsed(line)
        _refuse_twice(action, seen)
        state.apply(action)
    if not seen:
        # A version of a table says something; nothing is what a crashed disk leaves behind.
        raise DamagedError("it is empty")


def _parsed(line: bytes) -> Json:
    try:
        action = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise DamagedError("a line is no JSON") from problem
    return _object(action, "a line")


def _refuse_twice(action: Json, seen: set[str]) -> None:
    """The order of actions within a version means nothing, so none may undo another."""
    for name, content in action.items():
        key = name
        if isinstance(content, dict) and name in ("add", "remove"):
            key = f"file {content.get('path')}"
        elif isinstance(content, dict) and name == "txn":
            key = f"txn {content.get('appId')}"
        elif name not in ("metaData", "protocol"):
            seen.add("anything else")
            continue
        if key in seen:
            raise DamagedError(f"it has two actions about {key}")
        seen.add(key)


def _apply_protocol(state: State, content: Json) -> None:
    reader = _integer(content, "minReaderVersion")
    writer = _integer(content, "minWriterVersion")
    if reader > READER_VERSION or writer > WRITER_VERSION:
        features = [*_texts(content, "readerFeatures"), *_texts(content, "writerFeatures")]
        named = f" with {', '.join(sorted(set(features)))}" if features else ""
        raise UnknownFeatureError(
            f"it needs reader version {reader} and writer version {writer} of Delta's protocol"
            f"{named}, and {READER_VERSION} and {WRITER_VERSION} are known here"
        )
    state.protocol_seen = True


def _apply_metadata(state: State, content: Json) -> None:
    format_ = _object(content.get("format", {}), "format")
    if format_.get("provider", "parquet") != "parquet":
        raise UnknownFeatureError(f"its files are {format_.get('provider')!r} and not Parquet")
    settings = _text_map(content, "configuration")
    if settings.get("delta.columnMapping.mode", "none") != "none":
        raise UnknownFeatureError("its columns are mapped to other names (delta.columnMapping)")
    schema = _text(content, "schemaString")
    _check_schema(schema)
    clean = {key: value for key, value in settings.items() if value is not None}
    state.table_id = _text(content, "id")
    state.shape = Shape(schema, tuple(_texts(content, "partitionColumns")), clean)


def _check_schema(text: str) -> None:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise DamagedError("its schema is no JSON") from problem
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise DamagedError("its schema is no struct")
    for column in schema["fields"]:
        if not isinstance(column, dict) or not isinstance(column.get("name"), str):
            raise DamagedError("its schema has a column without a name")
        metadata = column.get("metadata") or {}
        if isinstance(metadata, dict) and "delta.invariants" in metadata:
            raise UnknownFeatureError(f"its column {column['name']} has an invariant")


def _apply_add(state: State, content: Json) -> None:
    if content.get("deletionVector") is not None:
        raise UnknownFeatureError("its files have deletion vectors")
    path = _path(content)
    stats = _stats(content.get("stats"))
    rows = stats.pop("numRecords", ROWS_UNKNOWN)
    state.files[path] = DataFile(
        path,
        _integer(content, "size"),
        _integer(content, "modificationTime"),
        rows if isinstance(rows, int) and rows >= 0 else ROWS_UNKNOWN,
        _text_map(content, "partitionValues"),
        {key: value or "" for key, value in _text_map(content, "tags").items()},
        stats,
    )
    state.removed.pop(path, None)


def _apply_remove(state: State, content: Json) -> None:
    path = _path(content)
    state.files.pop(path, None)
    state.removed[path] = _integer(content, "deletionTimestamp", 0)


def _apply_transaction(state: State, content: Json) -> None:
    state.transactions[_text(content, "appId")] = _integer(content, "version")


_APPLIED: Final = {
    "protocol": _apply_protocol,
    "metaData": _apply_metadata,
    "add": _apply_add,
    "remove": _apply_remove,
    "txn": _apply_transaction,
}


def protocol_action() -> Json:
    """What a program must know to read and write our tables."""
    return {"protocol": {"minReaderVersion": READER_VERSION, "minWriterVersion": WRITER_VERSION}}


def metadata_action(table_id: str, shape: Shape) -> Json:
    """Columns and settings."""
    return {
        "metaData": {
            "id": table_id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": shape.schema_json,
            "partitionColumns": list(shape.partition_columns),
            "configuration": dict(shape.settings),
            "createdTime": now_ms(),
        }
    }


def add_action(file: DataFile, *, data_change: bool) -> Json:
    """From now on the file counts."""
    content: Json = {
        "path": quoted(file.path),
        "partitionValues": dict(file.partition),
        "size": file.size,
        "modificationTime": file.modified_ms,
        "dataChange": data_change,
    }
    known = {} if file.rows == ROWS_UNKNOWN else {"numRecords": file.rows}
    stats = known | dict(file.stats)
    if stats:
        content["stats"] = json.dumps(stats, separators=(",", ":"))
    if file.tags:
        content["tags"] = dict(file.tags)
    return {"add": content}


def remove_action(file: DataFile, *, data_change: bool) -> Json:
    """From now on the file does not count."""
    return {
        "remove": {
            "path": quoted(file.path),
            "deletionTimestamp": now_ms(),
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": dict(file.partition),
            "size": file.size,
        }
    }


def transaction_action(batch: Batch) -> Json:
    """The batch is in."""
    return {"txn": {"appId": batch.application, "version": batch.number, "lastUpdated": now_ms()}}


def commit_info(operation: str, fingerprint: str = "") -> Json:
    """For people who look at the table's history; other programs do not ask for it."""
    known = {FINGERPRINT: fingerprint} if fingerprint else {}
    return {
        "commitInfo": {
            "timestamp": now_ms(),
            "operation": operation,
            "operationParameters": {},
            "engineInfo": ENGINE,
            **known,
        }
    }


def fingerprint_in(content: bytes, batch: Batch) -> str | None:
    """What the version that has this batch says of it, empty if nothing; None of another one."""
    actions = [_parsed(line) for line in content.splitlines() if line.strip()]
    said = [action["txn"] for action in actions if isinstance(action.get("txn"), dict)]
    if not any(
        each.get("appId") == batch.application and each.get("version") == batch.number
        for each in said
    ):
        return None
    infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
    return next((str(info.get(FINGERPRINT, "")) for info in infos if isinstance(info, dict)), "")


def encode(actions: Iterable[Json]) -> bytes:
    """A version's file."""
    return b"".join(
        json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions
    )


def quoted(path: str) -> str:
    """A path as the log has it: a URI, of which `%`, blanks and such are escaped."""
    return quote(path, safe="/=-._~!$&'()*+,;:@")


def now_ms() -> int:
    """Milliseconds since 1970, as the protocol counts."""
    return time.time_ns() // 1_000_000


def _path(content: Json) -> str:
    path = unquote(_text(content, "path"))
    if path.startswith(("/", "file:")) or "://" in path:
        raise UnknownFeatureError(f"its file {path} lies outside of its folder")
    parts = path.split("/")
    if {"", ".", ".."}.intersection(parts) or "\0" in path or not _is_unicode(path):
        raise DamagedError(f"the path {path!r} names no file of it")
    return path


def _is_unicode(path: str) -> bool:
    """JSON can escape halves of characters, of which no name can be made."""
    return not any("\ud800" <= letter <= "\udfff" for letter in path)


def _stats(text: object) -> Json:
    """Statistics help to skip files; whatever is wrong with them costs time only."""
    if not isinstance(text, str):
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _object(value: object, what: str) -> Json:
    if not isinstance(value, dict):
        raise DamagedError(f"{what} is no object")
    return value


def _text(content: Json, key: str) -> str:
    value = content.get(key)
    if not isinstance(value, str) or not value:
        raise DamagedError(f"{key} is no text")
    return value


def _integer(content: Json, key: str, default: int | None = None) -> int:
    value = content.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise DamagedError(f"{key} is no number")
    return value


def _texts(content: Json, key: str) -> list[str]:
    value = content.get(key) or []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise DamagedError(f"{key} is no list of texts")
    return value


def _text_map(content: Json, key: str) -> Mapping[str, str | None]:
    value = content.get(key) or {}
    if isinstance(value, list):
        # As Arrow has the maps of a checkpoint.
        value = _from_pairs(value, key)
    if not isinstance(value, dict):
        raise DamagedError(f"{key} is no object")
    for one, other in value.items():
        if not isinstance(one, str) or not (other is None or isinstance(other, str)):
            raise DamagedError(f"{key} has a value that is no text")
    return value


def _from_pairs(pairs: list[Any], key: str) -> dict[Any, Any]:
    try:
        return dict(pairs)
    except (TypeError, ValueError) as problem:
        raise DamagedError(f"{key} is no object") from problem


def refusal(folder: str, where: str, problem: DamagedError) -> TableError:
    """The sentence about a log that can not be read."""
    if isinstance(problem, UnknownFeatureError):
        return TableError(
            f"The table {folder} can not be used here, because {problem} ({where}): read it with a "
            "program that knows this, or write to another folder."
        )
    return TableError(
        f"The log of the table {folder} is damaged at {where}, because {problem}: put that file "
        "back from a copy, or write to another folder."
    )
