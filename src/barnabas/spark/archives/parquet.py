"""Parquet files of records: written row group by row group, so that memory stays bounded."""

import os
from typing import TYPE_CHECKING, Final

from barnabas.spark.archives.layout import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

CODECS: Final = ("zstd", "snappy", "none")
ROW_GROUP_BYTES: Final = 32 * 1024 * 1024
"""Of rows in memory: what a writer gathers, and a reader takes at once."""
_WITH_STATISTICS: Final = ["partition", "offset", "timestamp"]
"""By which readers skip row groups; the least and greatest value would only cost room."""
_WITH_DICTIONARY: Final = ["partition", "timestampType", "key", "headers.list.element.key"]


class RecordsFile:
    """One Parquet file in the making; it is on the disk when `close` returns."""

    def __init__(self, path: str, codec: str) -> None:
        import pyarrow.parquet as pq

        self.path: Final = path
        self._schema = arrow_schema()
        self._writer = pq.ParquetWriter(
            path,
            self._schema,
            compression=codec,
            use_dictionary=_WITH_DICTIONARY,
            write_statistics=_WITH_STATISTICS,
        )
        self._gathered: list[pa.Table] = []
        self.gathered_bytes = 0
        self.data_bytes = 0
        self.records = 0

    def add(self, rows: "pa.Table") -> None:
        """Rows in the order of their offsets, after those that are there."""
        size = rows.nbytes
        self._gathered.append(rows)
        self.gathered_bytes += size
        self.data_bytes += size
        self.records += rows.num_rows
        if self.gathered_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is gathered as a row group."""
        import pyarrow as pa

        if self._gathered:
            rows = pa.concat_tables(self._gathered).cast(self._schema)
            self._gathered, self.gathered_bytes = [], 0
            self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))

    def close(self) -> int:
        """The file's size."""
        self.flush()
        self._writer.close()
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def abandon(self) -> None:
        """Give the descriptor back; whoever made the folder removes the file."""
        self._writer.close()


def row_groups(path: str, first: int, end: int) -> "Iterator[pa.Table]":
    """The rows with offsets in [first, end), a row group at a time, in the file's order."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        at = file.schema_arrow.get_field_index("offset")
        for number in range(file.num_row_groups):
            least, most = _offsets(file.metadata.row_group(number).column(at).statistics)
            if most < first or least >= end:
                continue
            rows = file.read_row_group(number)
            if least < first or most >= end:
                offset = rows.column("offset")
                rows = rows.filter(pc.and_(pc.greater_equal(offset, first), pc.less(offset, end)))
            if rows.num_rows:
                yield rows


def _offsets(statistics: object) -> tuple[int, int]:
    """What a row group spans; everything, where its writer did not say."""
    least, most = getattr(statistics, "min", None), getattr(statistics, "max", None)
    if least is None or most is None:
        return -1, 2**63 - 1
    return least, most
