"""Columns to records in plain Python, and to the partitions of their keys: see `_columns_np.py`."""

import struct
import zlib
from array import array
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, Literal

from barnabas.wire.records._codec_py import write_varint
from barnabas.wire.records.batch import NO_TIMESTAMP, Buffer
from barnabas.wire.records.layout import Nested, Variable

_INT32_MAX: Final = 2**31 - 1
_INT64_MIN: Final = -(2**63)
_UINT64_MASK: Final = 2**64 - 1
_UINT32_MASK: Final = 2**32 - 1


class _Column:
    """A column to read from, with no trust in its offsets."""

    def __init__(self, what: str, column: Variable | Nested, rows: int = 0) -> None:
        if column.start < 0:
            raise ValueError(f"the {what} start before their buffers")
        self._what = what
        self._start = column.start
        self._offsets = _numbers(column.offsets, "i")
        self._bits = None if column.validity is None else _numbers(column.validity, "B")
        self._data = _numbers(b"" if isinstance(column, Nested) else column.data, "B")
        count = len(self._offsets) - 1 - column.start
        if self._bits is not None:
            count = min(count, len(self._bits) * 8 - column.start)
        self.count = max(count, 0)
        if rows > self.count:
            raise ValueError(f"the {what} have {self.count} rows, not {rows}")

    def bounds(self, index: int) -> tuple[int, int] | None:
        """Of an element that is there; None if it is null."""
        place = self._start + index
        if self._bits is not None and not self._bits[place >> 3] >> (place & 7) & 1:
            return None
        return self._offsets[place], self._offsets[place + 1]

    def content(self, index: int) -> memoryview | None:
        bounds = self.bounds(index)
        if bounds is None:
            return None
        begin, end = bounds
        if not 0 <= begin <= end <= len(self._data):
            raise ValueError(f"its place in the {self._what} is not within their data")
        return self._data[begin:end]


def _numbers(buffer: Buffer, kind: Literal["B", "i", "q"]) -> memoryview:
    view = memoryview(buffer).cast("B")
    return view[: view.nbytes - view.nbytes % struct.calcsize(kind)].cast(kind)


class _Table:
    """All columns; one that is not given is null in every row."""

    def __init__(
        self, rows: int, keys: Variable | None, values: Variable | None, headers: Nested | None
    ) -> None:
        self._keys = None if keys is None else _Column("keys", keys, rows)
        self._values = None if values is None else _Column("values", values, rows)
        self._lists = None if headers is None else _Column("headers", headers, rows)
        if headers is not None:
            self._names = _Column("header names", headers.names)
            self._contents = _Column("header values", headers.values)

    def body(self, row: int, offset_delta: int, timestamp_delta: int) -> bytes:
        """A record without its length."""
        fields: list[Buffer] = [
            b"\0",
            _varint((timestamp_delta + 2**63 & _UINT64_MASK) - 2**63),
            _varint(offset_delta),
            *_field(None if self._keys is None else self._keys.content(row)),
            *_field(None if self._values is None else self._values.content(row)),
        ]
        bounds = None if self._lists is None else self._lists.bounds(row)
        if bounds is None:
            fields.append(b"\0")
        else:
            self._add_headers(fields, *bounds)
        # Before they are copied: it may be a great deal.
        if sum(map(len, fields)) > _INT32_MAX:
            raise ValueError("a record of more than 2^31 bytes")
        return b"".join(fields)

    def _add_headers(self, fields: list[Buffer], begin: int, end: int) -> None:
        if not 0 <= begin <= end <= min(self._names.count, self._contents.count):
            raise ValueError("its headers are not within their columns")
        fields.append(_varint(end - begin))
        for index in range(begin, end):
            name = self._names.content(index)
            if name is None:
                raise ValueError("a header without a key")
            fields += _field(name)
            fields += _field(self._contents.content(index))


# Most are lengths and deltas of a few sizes.
@lru_cache(maxsize=2**14)
def _varint(number: int) -> bytes:
    out = bytearray()
    write_varint(out, number)
    return bytes(out)


def _field(content: memoryview | None) -> tuple[Buffer, ...]:
    return (b"\1",) if content is None else (_varint(len(content)), content)


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
) -> tuple[bytes, int, int]:
    """The records of the rows `order[first : first + count]` (int32; None: of these rows).

    Their offset deltas count from 0. Timestamps are int64 in milliseconds (None: all
    `base_timestamp`). Stops before a record with which there were more than `bytes_max` bytes,
    but takes at least one. The bytes, how many rows they hold and their greatest timestamp.
    """
    wanted = _wanted(rows, order, first, count)
    times = None if timestamps is None else _numbers(timestamps, "q")
    if times is not None and len(times) < rows:
        raise ValueError(f"the timestamps have {len(times)} rows, not {rows}")
    table = _Table(rows, keys, values, headers)
    out = bytearray()
    taken, latest = 0, _INT64_MIN
    for row in wanted:
        try:
            if not 0 <= row < rows:
                raise ValueError("there is no such row")
            timestamp = base_timestamp if times is None else times[row]
            body = table.body(row, taken, timestamp - base_timestamp)
        except ValueError as error:
            raise ValueError(f"row {row}: {error}") from error
        length = _varint(len(body))
        if taken and len(out) + len(length) + len(body) > bytes_max:
            break
        out += length
        out += body
        taken += 1
        latest = max(latest, timestamp)
    return bytes(out), taken, latest if taken else NO_TIMESTAMP


def _wanted(rows: int, order: Buffer | None, first: int, count: int) -> Iterable[int]:
    if (
        rows < 0
        or first < 0
        or not 0 <= count <= _INT32_MAX
        or (order is None and first + count > rows)
    ):
        raise ValueError(f"rows {first} to {first + count} of {rows} can not be")
    if order is None:
        return range(first, first + count)
    indexes = _numbers(order, "i")
    if first + count > len(indexes):
        raise ValueError(f"the order has {len(indexes)} rows, not {first + count}")
    return indexes[first : first + count]


# --- partitions -------------------------------------------------------------------------------


def partitions_by_murmur2(keys: Variable, rows: int, partitions: int) -> bytearray:
    """Where Java's producer puts each key, as int32; -1 for a null one."""
    return _partitions(keys, rows, partitions, lambda key: _murmur2(key) & _INT32_MAX)


def partitions_by_crc32(keys: Variable, rows: int, partitions: int) -> bytearray:
    """Where librdkafka's producer puts each key, as int32; -1 for a null or empty one."""
    return _partitions(keys, rows, partitions, lambda key: zlib.crc32(key) if key else -1)


def _partitions(
    keys: Variable, rows: int, partitions: int, hashed: Callable[[memoryview], int]
) -> bytearray:
    if rows < 0 or not 0 < partitions <= _INT32_MAX:
        raise ValueError(f"{rows} rows in {partitions} partitions can not be")
    column = _Column("keys", keys, rows)
    chosen = array("i")
    for row in range(rows):
        try:
            key = column.content(row)
        except ValueError as error:
            raise ValueError(f"row {row}: {error}") from error
        number = -1 if key is None else hashed(key)
        chosen.append(number % partitions if number >= 0 else -1)
    return bytearray(chosen)


def _murmur2(key: memoryview) -> int:
    """With the seed and the tail of Java's client."""
    mixed = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for (word,) in struct.iter_unpack("<I", key[:whole]):
        stirred = word * 0x5BD1E995 & _UINT32_MASK
        stirred = (stirred ^ stirred >> 24) * 0x5BD1E995
        mixed = (mixed * 0x5BD1E995 ^ stirred) & _UINT32_MASK
    if whole < len(key):
        tail = int.from_bytes(key[whole:], "little")
        mixed = (mixed ^ tail) * 0x5BD1E995 & _UINT32_MASK
    mixed = (mixed ^ mixed >> 13) * 0x5BD1E995 & _UINT32_MASK
    return mixed ^ mixed >> 15
