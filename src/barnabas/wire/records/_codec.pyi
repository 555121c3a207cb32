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
