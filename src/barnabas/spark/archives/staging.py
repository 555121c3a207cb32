"""What a task of a micro-batch does: its rows into files of a folder that no reader looks into.

A task holds rows of several partitions, or a part of one; each partition's rows arrive in the order
of offsets, but those of several may alternate.
"""

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.spark.archives.layout import ArchiveError
from barnabas.spark.archives.parquet import ROW_GROUP_BYTES, RecordsFile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_GATHERED_BYTES_MAX: Final = 4 * ROW_GROUP_BYTES
"""Of all partitions of a task together."""
_REPORT: Final = (
    "path STRING, partition INT, first BIGINT, last BIGINT, records BIGINT, oldest_ms BIGINT, "
    "newest_ms BIGINT, size BIGINT, data_bytes BIGINT"
)


class Portion(NamedTuple):
    """A staged file: records of one partition, without a break of this batch's between them."""

    path: str
    partition: int
    first: int
    """The offset of its first record."""
    last: int
    records: int
    oldest_ms: int
    newest_ms: int
    size: int
    data_bytes: int


@dataclass(frozen=True)
class Staging:
    """Where the tasks of one batch write, and how."""

    folder: str
    codec: str

    def stage(self, rows: "DataFrame") -> list[Portion]:
        """Run the batch; what its tasks have written."""
        return [Portion(*row) for row in rows.mapInArrow(self.write, _REPORT).collect()]

    def write(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """In a task: rows in, a line about each file out."""
        import pyarrow as pa

        files: dict[int, _PortionFile] = {}
        try:
            for batch in batches:
                for partition, rows in _by_partition(batch):
                    if partition not in files:
                        files[partition] = _PortionFile(self, partition)
                    files[partition].add(rows)
                _make_room(files)
            portions = [file.close() for file in files.values()]
        except BaseException:
            for file in files.values():
                file.abandon()
            raise
        columns = zip(*portions, strict=True) if portions else [[] for _ in Portion._fields]
        kinds = [pa.string(), pa.int32(), *[pa.int64()] * (len(Portion._fields) - 2)]
        arrays = [pa.array(list(each), kind) for each, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=list(Portion._fields))


class _PortionFile:
    """The file of one partition in one task."""

    def __init__(self, staging: Staging, partition: int) -> None:
        path = os.path.join(staging.folder, f"{partition}-{uuid.uuid4().hex}.parquet")
        self._partition = partition
        self._file = RecordsFile(path, staging.codec)
        self._first = self._last = -1
        self._oldest_ms = 2**63 - 1
        self._newest_ms = -(2**63)

    @property
    def gathered_bytes(self) -> int:
        return self._file.gathered_bytes

    def add(self, rows: "pa.RecordBatch") -> None:
        import pyarrow as pa

        offsets = rows.column("offset").to_numpy(zero_copy_only=False)
        if int(offsets[0]) <= self._last or (offsets[1:] <= offsets[:-1]).any():
            raise ArchiveError(
                f"The rows of partition {self._partition} did not arrive in the order of their "
                "offsets, so they can not be archived: this is a mistake in Barnabas, so report it."
            )
        times = rows.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False) // 1000
        if self._first < 0:
            self._first = int(offsets[0])
        self._last = int(offsets[-1])
        self._oldest_ms = min(self._oldest_ms, int(times.min()))
        self._newest_ms = max(self._newest_ms, int(times.max()))
        self._file.add(pa.Table.from_batches([rows]))

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> Portion:
        size = self._file.close()
        return Portion(
            self._file.path,
            self._partition,
            self._first,
            self._last,
            self._file.records,
            self._oldest_ms,
            self._newest_ms,
            size,
            self._file.data_bytes,
        )

    def abandon(self) -> None:
        self._file.abandon()


def _make_room(files: dict[int, _PortionFile]) -> None:
    """The files that hold most are written out until the task holds little enough."""
    total = sum(file.gathered_bytes for file in files.values())
    while total > _GATHERED_BYTES_MAX:
        fullest = max(files.values(), key=lambda file: file.gathered_bytes)
        total -= fullest.gathered_bytes
        fullest.flush()


def _by_partition(batch: "pa.RecordBatch") -> "Iterator[tuple[int, pa.RecordBatch]]":
    """The runs of rows of one partition, in order."""
    import numpy as np

    if not batch.num_rows:
        return
    partitions: Any = batch.column("partition").to_numpy(zero_copy_only=False)
    cuts = (np.flatnonzero(np.diff(partitions)) + 1).tolist()
    for first, end in zip([0, *cuts], [*cuts, batch.num_rows], strict=True):
        yield int(partitions[first]), batch.slice(first, end - first)
