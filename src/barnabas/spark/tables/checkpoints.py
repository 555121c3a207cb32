"""Checkpoints of a Delta log: all that counts at a version, in one Parquet file.

With them nobody reads the log from its beginning, and versions long past can be removed.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator
from typing import Any, Final

from barnabas.spark.tables import actions, durable
from barnabas.spark.tables.actions import DamagedError, Json
from barnabas.spark.tables.snapshot import Snapshot

EVERY_VERSIONS: Final = 20
POINTER: Final = "_last_checkpoint"
VERSIONS_KEPT_MIN: Final = 100
KEPT_S: Final = 3600.0
"""Whoever began to read a version can go on for so long."""
_TOMBSTONES_KEPT_MS: Final = 2 * 3600 * 1000
"""Longer than what they name is kept; for programs that clean up by them."""
_SUFFIX: Final = ".checkpoint.parquet"
_DIGITS: Final = 20


def version_name(version: int) -> str:
    """The file of one version."""
    return f"{version:020d}.json"


def checkpoint_name(version: int) -> str:
    """The file of the checkpoint at a version."""
    return f"{version:020d}{_SUFFIX}"


def listed(log_folder: str) -> tuple[list[int], list[int]]:
    """The versions and the checkpoints that the folder has, each in order."""
    versions: list[int] = []
    checkpoints: list[int] = []
    for name in os.listdir(log_folder):
        digits, rest = name[:_DIGITS], name[_DIGITS:]
        if not (digits.isascii() and digits.isdecimal() and len(digits) == _DIGITS):
            continue
        if rest == ".json":
            versions.append(int(digits))
        elif rest == _SUFFIX:
            checkpoints.append(int(digits))
    return sorted(versions), sorted(checkpoints)


def newest(log_folder: str) -> int | None:
    """The version that the log's pointer names; None where it says nothing that can be used.

    It is a hint: without it the folder is listed.
    """
    try:
        with open(os.path.join(log_folder, POINTER), "rb") as file:
            pointer = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return None
    version = pointer.get("version") if isinstance(pointer, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        return None
    return version if os.path.exists(os.path.join(log_folder, checkpoint_name(version))) else None


def read(log_folder: str, version: int) -> Snapshot:
    """The table as a checkpoint has it.

    FileNotFoundError where there is none; DamagedError where it is not what it should be.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = os.path.join(log_folder, checkpoint_name(version))
    with open(path, "rb") as file:
        try:
            found = pq.ParquetFile(pa.PythonFile(file, "r"), page_checksum_verification=True)
            rows = found.read().to_pylist()
        except (pa.ArrowException, OSError, ValueError) as problem:
            raise DamagedError("it is no Parquet file that can be read") from problem
    state = actions.State()
    for row in rows:
        state.apply(row)
    return state.snapshot(version)


def without_expired(snapshot: Snapshot) -> Snapshot:
    """The same, with only those removed files that somebody may still ask for."""
    expired = actions.now_ms() - _TOMBSTONES_KEPT_MS
    young = {path: when for path, when in snapshot.removed.items() if when > expired}
    return dataclasses.replace(snapshot, removed=young)


def write(log_folder: str, snapshot: Snapshot) -> None:
    """Make the checkpoint of a version, then point to it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = list(_rows(snapshot))
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist(rows, schema=_schema(pa))
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    content = sink.getvalue().to_pybytes()
    durable.replace(os.path.join(log_folder, checkpoint_name(snapshot.version)), content)
    pointer = {
        "version": snapshot.version,
        "size": len(rows),
        "sizeInBytes": len(content),
        "numOfAddFiles": len(snapshot.files),
    }
    durable.replace(os.path.join(log_folder, POINTER), json.dumps(pointer).encode())


def _rows(snapshot: Snapshot) -> Iterator[Json]:
    yield actions.protocol_action()
    yield actions.metadata_action(snapshot.table_id, snapshot.shape)
    for application, number in snapshot.transactions.items():
        yield {"txn": {"appId": application, "version": number}}
    for file in snapshot.files.values():
        yield actions.add_action(file, data_change=False)
    for path, removed_ms in snapshot.removed.items():
        gone = {"path": actions.quoted(path), "deletionTimestamp": removed_ms, "dataChange": False}
        yield {"remove": gone}


def _schema(pa: Any) -> Any:
    texts = pa.map_(pa.string(), pa.string())
    text, long, integer, flag = pa.string(), pa.int64(), pa.int32(), pa.bool_()
    files = [("provider", text), ("options", texts)]
    metadata = [
        ("id", text),
        ("name", text),
        ("description", text),
        ("format", pa.struct(files)),
        ("schemaString", text),
        ("partitionColumns", pa.list_(text)),
        ("createdTime", long),
        ("configuration", texts),
    ]
    add = [
        ("path", text),
        ("partitionValues", texts),
        ("size", long),
        ("modificationTime", long),
        ("dataChange", flag),
        ("stats", text),
        ("tags", texts),
    ]
    remove = [("path", text), ("deletionTimestamp", long), ("dataChange", flag)]
    return pa.schema(
        [
            (
                "protocol",
                pa.struct([("minReaderVersion", integer), ("minWriterVersion", integer)]),
            ),
            ("metaData", pa.struct(metadata)),
            ("txn", pa.struct([("appId", text), ("version", long), ("lastUpdated", long)])),
            ("add", pa.struct(add)),
            ("remove", pa.struct(remove)),
        ]
    )


def remove_old_versions(
    log_folder: str, *, kept_min: int = VERSIONS_KEPT_MIN, kept_s: float = KEPT_S
) -> int:
    """Remove versions that a checkpoint has made needless and that nobody reads any more.

    Kept are the last `kept_min` versions, those of the last `kept_s` seconds, and the checkpoint
    that they begin at. The oldest goes first, so that a reader who does not find the next version
    can tell from its own whether there is none or whether it came too late. Returns how many
    versions were removed.
    """
    versions, made = listed(log_folder)
    if not versions:
        return 0
    oldest_needed = versions[-1] - kept_min + 1
    young_ms = actions.now_ms() - kept_s * 1000
    for version in versions:
        if version >= oldest_needed or _modified_ms(log_folder, version) > young_ms:
            oldest_needed = min(version, oldest_needed)
            break
    base = max((one for one in made if one <= oldest_needed), default=None)
    if base is None:
        return 0
    gone = [one for one in versions if one < base]
    for name in [
        *(version_name(one) for one in gone),
        *(checkpoint_name(one) for one in made if one < base),
    ]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(log_folder, name))
    return len(gone)


def _modified_ms(log_folder: str, version: int) -> float:
    try:
        return os.stat(os.path.join(log_folder, version_name(version))).st_mtime * 1000
    except FileNotFoundError:
        # Somebody else is removing old versions, too.
        return 0.0
