from collections.abc import Iterable, Sequence

from barnabas.wire.records.batch import Buffer

def decode_records(
    data: Buffer, count: int, base_offset: int, base_timestamp: int, append_time: int
) -> list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]: ...
def keyless_records(data: Buffer, count: int, last_offset_delta: int) -> list[int]: ...
def encode_records(
    records: Iterable[
        tuple[int, int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]
    ],
    base_offset: int,
    base_timestamp: int,
) -> bytes: ...
def rebase_records(data: Buffer, count: int, shift: int) -> bytes: ...

SLOT_BYTES: int

class KeyOffsets:
    capacity: int
    def __init__(self, memory: int, load_factor: float, secret: bytes) -> None: ...
    def __len__(self) -> int: ...
    def note(
        self, data: Buffer, count: int, base_offset: int, last_offset_delta: int, first_offset: int
    ) -> int: ...
    def keep(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        last_offset_delta: int,
        base_timestamp: int,
        latest: int,
        tombstones: bool,
    ) -> tuple[int, bytes | None, bool, int]: ...
