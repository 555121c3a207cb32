from barnabas.wire.records.batch import Buffer
from barnabas.wire.records.layout import Nested, Taken, Variable

class ColumnDecoder:
    @property
    def rows(self) -> int: ...
    @property
    def size(self) -> int: ...
    def __init__(
        self, *, keys: bool, values: bool, headers: bool, column_bytes_max: int = ...
    ) -> None: ...
    def add(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int,
        first: int,
        end: int,
    ) -> int: ...
    def take(self) -> Taken: ...

def encode_columns(
    rows: int,
    keys: Variable | None,
    values: Variable | None,
    headers: Nested | None,
    timestamps: Buffer | None,
    order: Buffer | None,
    first: int,
    count: int,
    base_timestamp: int,
    bytes_max: int,
) -> tuple[bytes, int, int]: ...
def partitions_by_murmur2(keys: Variable, rows: int, partitions: int) -> bytearray: ...
def partitions_by_crc32(keys: Variable, rows: int, partitions: int) -> bytearray: ...
