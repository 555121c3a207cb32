"""A Python source and a Python sink that do nothing: what Spark itself asks for one."""

import time
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

BARE: Final = "bare"
_ROWS: Final = 10
_FIELDS: Final = pa.schema([("key", pa.binary()), ("value", pa.binary())])


class BareReader(DataSourceStreamReader):
    """Always has a few rows, made of nothing."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Before all time."""
        return {"at": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802, ARG002
        """Something new every 20 ms."""
        return {"at": int(time.time() * 50)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:  # noqa: ARG002
        """One task."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """One batch."""
        columns = [pa.array([b"x" * size] * _ROWS) for size in (10, 100)]
        yield pa.RecordBatch.from_arrays(columns, schema=_FIELDS)


class BareWriter(DataSourceStreamArrowWriter):
    """Takes everything, keeps nothing."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Drain."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


class BareSource(DataSource):
    """`format("bare")`."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(…)`."""
        return BARE

    def schema(self) -> str:
        """What the copy jobs need."""
        return "key binary, value binary"

    def streamReader(self, schema: Any) -> BareReader:  # noqa: N802, ARG002
        """For `spark.readStream`."""
        return BareReader()

    def streamWriter(self, schema: Any, overwrite: bool) -> BareWriter:  # noqa: N802, ARG002
        """For `df.writeStream`."""
        return BareWriter()
