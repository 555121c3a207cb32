"""Records as columns: the compiled codec where it was built, else its twin with numpy.

`BARNABAS_PURE=1` asks for the twin.
"""

import os
from typing import TYPE_CHECKING, Final

from barnabas.wire.records.layout import COLUMN_BYTES_MAX, Nested, Taken, Variable

if os.environ.get("BARNABAS_PURE") == "1":
    from barnabas.wire.records import _columns_np as _chosen

    COMPILED = False
else:
    try:
        from barnabas.wire.records import _columns as _chosen  # type: ignore[no-redef]

        COMPILED = True
    except ImportError:
        from barnabas.wire.records import _columns_np as _chosen

        COMPILED = False

encode_columns: Final = _chosen.encode_columns
partitions_by_crc32: Final = _chosen.partitions_by_crc32
partitions_by_murmur2: Final = _chosen.partitions_by_murmur2

if TYPE_CHECKING:
    from barnabas.wire.records._columns_np import ColumnDecoder as ColumnDecoder
else:
    ColumnDecoder = _chosen.ColumnDecoder

__all__ = [
    "COLUMN_BYTES_MAX",
    "COMPILED",
    "ColumnDecoder",
    "Nested",
    "Taken",
    "Variable",
    "encode_columns",
    "partitions_by_crc32",
    "partitions_by_murmur2",
]
