"""Columns to records with numpy, and to the partitions of their keys: see `_columns_np.py`."""

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from barnabas.wire.records._codec_py import write_varint
from barnabas.wire.records.batch import NO_TIMESTAMP, Buffer
from barnabas.wire.records.layout import Nested, Variable

_Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
_Bounds: TypeAlias = tuple[bool, int, int]
"""Of an element: is it valid, its begin, its end."""
_Headers: TypeAlias = list[tuple[memoryview, memoryview | None]]

_INT32_MAX: Final = 2**31 - 1
_INT64_MIN: Final = -(2**63)
_UINT64_MASK: Final = 2**64 - 1
_UINT32_MASK: Final = 2**32 - 1
_ROWS_AT_ONCE: Final = 4096
_NOTHING: Final = (False, 0, 0)


class _Column:
    """A column to read from, with no trust in its offsets."""

    def __init__(self, what: str, column: Variable | Nested, data: Buffer) -> None:
        if column.start < 0:
            raise ValueError(f"the {what} start before their buffers")
        self.what = what
        self._start = column.start
        self._offsets = _numbers(column.offsets, np.dtype("<i4"))
        self._bits: _Array | None = None
        self.count = len(self._offsets) - 1 - column.start
        if column.validity is not None:
            self._bits = _numbers(column.validity, np.dtype(np.uint8))
            self.count = min(self.count, len(self._bits) * 8 - column.start)
        self._data = memoryview(data).cast("B")

    def check(self, rows: int) -> None:
        if rows > max(self.count, 0):
            raise ValueError(f"the {self.what} have {max(self.count, 0)} rows, not {rows}")

    def bounds(self, rows: _Array) -> list[_Bounds]:
        """Of these rows, which are there."""
        places = rows.astype(np.int64) + self._start
        valid = np.ones(len(rows), np.bool_)
        if self._bits is not None:
            valid = (self._bits[places >> 3] >> (places & 7).astype(np.uint8) & 1).astype(np.bool_)
        return list(
            zip(
                valid.tolist(),
                self._offsets[places].tolist(),
                self._offsets[places + 1].tolist(),
                strict=True,
            )
        )

    def content(self, bounds: _Bounds) -> memoryview | None:
        valid, begin, end = bounds
        if not valid:
            return None
        if not 0 <= begin <= end <= len(self._data):
            raise ValueError(f"its place in the {self.what} is not within their data")
        return self._data[begin:end]


def _numbers(buffer: Buffer, kind: np.dtype[Any]) -> _Array:
    view = memoryview(buffer).cast("B")
    count = view.nbytes // kind.itemsize
    return np.frombuffer(view, kind, count) if count else np.zeros(0, kind)


def _column(what: str, column: Variable) -> _Column:
    return _Column(what, column, column.data)


class _HeaderColumn:
    def __init__(self, headers: Nested) -> None:
        self.lists = _Column("headers", headers, b"")
        self._names = _column("header names", headers.names)
        self._values = _column("header values", headers.values)

    def of(self, bounds: _Bounds) -> _Headers:
        valid, begin, end = bounds
        if not valid:
            return []
        if not 0 <= begin <= end <= max(min(self._names.count, self._values.count), 0):
            raise ValueError("its headers are not within their columns")
        elements = np.arange(begin, end)
        headers: _Headers = []
        for name_bounds, value_bounds in zip(
            self._names.bounds(elements), self._values.bounds(elements), strict=True
        ):
            name = self._names.content(name_bounds)
            if name is None:
                raise ValueError("a header without a key")
            headers.append((name, self._values.content(value_bounds)))
        return headers


class _Row(NamedTuple):
    row: int
    timestamp: int
    key: _Bounds
    value: _Bounds
    headers: _Bounds


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
    key_column = None if keys is None else _column("keys", keys)
    value_column = None if values is None else _column("values", values)
    header_column = None if headers is None else _HeaderColumn(headers)
    indexes = _indexes(rows, order, first, count)
    times = None if timestamps is None else _numbers(timestamps, np.dtype("<i8"))
    if times is not None and len(times) < rows:
        raise ValueError(f"the timestamps have {len(times)} rows, not {rows}")
    lists = None if header_column is None else header_column.lists
    for column in (key_column, value_column, lists):
        if column is not None:
            column.check(rows)
    out = bytearray()
    taken, latest = 0, _INT64_MIN
    for row in _rows(rows, indexes, times, base_timestamp, (key_column, value_column, lists)):
        if not 0 <= row.row < rows:
            raise ValueError(f"row {row.row}: there is no such row")
        try:
            body = _body(
                taken,
                row.timestamp - base_timestamp,
                None if key_column is None else key_column.content(row.key),
                None if value_column is None else value_column.content(row.value),
                [] if header_column is None else header_column.of(row.headers),
            )
        except ValueError as error:
            raise ValueError(f"row {row.row}: {error}") from error
        length = bytearray()
        write_varint(length, len(body))
        if taken and len(out) + len(length) + len(body) > bytes_max:
            break
        out += length
        out += body
        taken += 1
        latest = max(latest, row.timestamp)
    return bytes(out), taken, latest if taken else NO_TIMESTAMP


def _indexes(rows: int, order: Buffer | None, first: int, count: int) -> _Array | range:
    if rows < 0 or first < 0 or not 0 <= count <= _INT32_MAX:
        raise ValueError(f"rows {first} to {first + count} of {rows} can not be")
    if order is None:
        if first + count > rows:
            raise ValueError(f"rows {first} to {first + count} of {rows} can not be")
        return range(first, first + count)
    indexes = _numbers(order, np.dtype("<i4"))
    if first + count > len(indexes):
        raise ValueError(f"the order has {len(indexes)} rows, not {first + count}")
    return indexes[first : first + count]


def _rows(
    rows: int,
    indexes: _Array | range,
    times: _Array | None,
    base_timestamp: int,
    columns: tuple[_Column | None, ...],
) -> Iterator[_Row]:
    """Some at once, but not all: the caller may have enough after the first few."""
    for begin in range(0, len(indexes), _ROWS_AT_ONCE):
        wanted = np.asarray(indexes[begin : begin + _ROWS_AT_ONCE])
        if not rows:
            yield _Row(int(wanted[0]), 0, _NOTHING, _NOTHING, _NOTHING)
        # The caller finds the wrong ones by their index, when it gets to them.
        there = np.clip(wanted, 0, rows - 1)
        stamps = [base_timestamp] * len(there) if times is None else times[there].tolist()
        bounds = [
            [_NOTHING] * len(there) if column is None else column.bounds(there)
            for column in columns
        ]
        yield from map(_Row, wanted.tolist(), stamps, *bounds)


def _body(
    delta: int,
    timestamp_delta: int,
    key: memoryview | None,
    value: memoryview | None,
    headers: _Headers,
) -> bytearray:
    body = bytearray(1)
    write_varint(body, (timestamp_delta + 2**63 & _UINT64_MASK) - 2**63)
    write_varint(body, delta)
    _put(body, key)
    _put(body, value)
    write_varint(body, len(headers))
    for name, content in headers:
        _put(body, name)
        _put(body, content)
    if len(body) > _INT32_MAX:
        raise ValueError("a record of more than 2^31 bytes")
    return body


def _put(body: bytearray, content: memoryview | None) -> None:
    write_varint(body, -1 if content is None else len(content))
    if content is not None:
        body += content


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
    column = _column("keys", keys)
    column.check(rows)
    chosen = np.full(rows, -1, "<i4")
    for index, bounds in enumerate(column.bounds(np.arange(rows)) if rows else ()):
        try:
            key = column.content(bounds)
        except ValueError as error:
            raise ValueError(f"row {index}: {error}") from error
        number = -1 if key is None else hashed(key)
        if number >= 0:
            chosen[index] = number % partitions
    return bytearray(chosen.tobytes())


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
