"""Records as columns with numpy: the twin of `_columns.pyx`, for where no compiler was.

Reading, only the chain of lengths from record to record and the headers are followed one by one;
the other numbers are read for all records of a batch at once. Where anything is wrong with them,
the plain codec reads the batch again and says what: so both know the same errors.
"""

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from barnabas.model.check import require
from barnabas.model.errors import DecodeError
from barnabas.wire.records._codec_py import (
    RECORD_BYTES_MIN,
    decode_records,
    read_bytes,
    read_varint,
)
from barnabas.wire.records._columns_np_write import (
    encode_columns,
    partitions_by_crc32,
    partitions_by_murmur2,
)
from barnabas.wire.records.batch import Buffer
from barnabas.wire.records.layout import COLUMN_BYTES_MAX, Nested, Taken, Variable

__all__ = ["ColumnDecoder", "encode_columns", "partitions_by_crc32", "partitions_by_murmur2"]

_Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
_Headers: TypeAlias = list[tuple[bytes, bytes | None]]

_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)
_UINT64_MASK: Final = 2**64 - 1
_MILLIS_MAX: Final = _INT64_MAX // 1000


class _Fields(NamedTuple):
    """The records of a batch before their bytes are copied; a size of -1 is null."""

    timestamp_deltas: _Array
    offset_deltas: _Array
    keys: tuple[_Array, _Array]
    values: tuple[_Array, _Array]
    headers: dict[int, _Headers]


class _Gathered:
    """One column: lengths (-1: null) and bytes, in the pieces that batches brought."""

    def __init__(self, what: str, bytes_max: int) -> None:
        self._what = what
        self._bytes_max = bytes_max
        self._lengths: list[_Array] = []
        self._pieces: list[bytes] = []
        self.size = 0

    def check(self, more: int) -> None:
        if self.size + more > self._bytes_max:
            raise OverflowError(
                f"a column of {self._what} has no room for more than {self._bytes_max} bytes: "
                "take() what is there first"
            )

    def add(self, lengths: _Array, piece: bytes) -> None:
        self._lengths.append(lengths)
        self._pieces.append(piece)
        self.size += len(piece)

    def taken(self) -> Variable:
        lengths = _joined(self._lengths)
        return Variable(_validity(lengths >= 0), _running(lengths), b"".join(self._pieces))


class _Lists:
    """The headers of all rows."""

    def __init__(self, bytes_max: int) -> None:
        self._counts: list[_Array] = []
        self._elements_max = bytes_max
        self._elements = 0
        self.names = _Gathered("header names", bytes_max)
        self.values = _Gathered("header values", bytes_max)

    @property
    def size(self) -> int:
        return self.names.size + self.values.size

    def add(self, headers: dict[int, _Headers], kept: _Array) -> None:
        """Those of the rows `kept`; changes nothing where there is no room."""
        rows = kept.tolist()
        lists = [headers.get(row, ()) for row in rows]
        # As other clients read them: what is not UTF-8 becomes replacement characters.
        names = [name.decode("utf-8", "replace").encode() for row in lists for name, _ in row]
        values = [value for row in lists for _, value in row]
        name_bytes = b"".join(names)
        value_bytes = b"".join(value for value in values if value is not None)
        self.names.check(len(name_bytes))
        self.values.check(len(value_bytes))
        if self._elements + len(names) > self._elements_max:
            raise OverflowError(f"no more than {self._elements_max} headers: take() them first")
        self._elements += len(names)
        self._counts.append(np.array([len(row) or -1 for row in lists], np.int64))
        self.names.add(np.array([len(name) for name in names], np.int64), name_bytes)
        sizes = [-1 if value is None else len(value) for value in values]
        self.values.add(np.array(sizes, np.int64), value_bytes)

    def taken(self) -> Nested:
        counts = _joined(self._counts)
        return Nested(
            _validity(counts >= 0), _running(counts), self.names.taken(), self.values.taken()
        )


class ColumnDecoder:
    """Gathers the records of many batches into one set of columns.

    No column takes more than `column_bytes_max` bytes: OverflowError asks for a take() before.
    """

    def __init__(
        self,
        *,
        keys: bool,
        values: bool,
        headers: bool,
        column_bytes_max: int = COLUMN_BYTES_MAX,
    ) -> None:
        if not 0 <= column_bytes_max <= COLUMN_BYTES_MAX:
            raise ValueError(f"a column has at most {COLUMN_BYTES_MAX} bytes")
        self._asked = (keys, values, headers)
        self._column_bytes_max = column_bytes_max
        self._begin()

    def _begin(self) -> None:
        keys, values, headers = self._asked
        self._rows = 0
        self._offsets: list[_Array] = []
        self._timestamps: list[_Array] = []
        self._keys = _Gathered("keys", self._column_bytes_max) if keys else None
        self._values = _Gathered("values", self._column_bytes_max) if values else None
        self._headers = _Lists(self._column_bytes_max) if headers else None

    @property
    def rows(self) -> int:
        """Gathered since the last take()."""
        return self._rows

    @property
    def size(self) -> int:
        """Bytes of keys, values and headers gathered since the last take()."""
        columns = (self._keys, self._values, self._headers)
        return sum(column.size for column in columns if column is not None)

    def add(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int,
        first: int,
        end: int,
    ) -> int:
        """Keep the records of one batch with `first` <= offset < `end`; how many these are.

        `data` is exactly `count` records, decompressed. `append_time`, unless -1, is every
        record's timestamp. On an error nothing of the batch is kept.
        """
        raw = bytes(data)
        try:
            fields = _read_all(raw, count, min(_INT64_MAX, _INT64_MAX - base_offset))
        except DecodeError:
            decode_records(raw, count, base_offset, base_timestamp, append_time)
            require(False, "the two readers of records disagree")
        offsets = fields.offset_deltas + base_offset
        kept = np.flatnonzero((offsets >= first) & (offsets < end))
        self._add_bytes(raw, fields, kept)
        self._offsets.append(offsets[kept])
        if append_time == -1:
            base = np.uint64(base_timestamp & _UINT64_MASK)
            # Wraps, as other implementations do.
            millis = (fields.timestamp_deltas[kept].view(np.uint64) + base).view(np.int64)
        else:
            millis = np.full(len(kept), append_time, np.int64)
        self._timestamps.append(_as_micros(millis))
        self._rows += len(kept)
        return len(kept)

    def _add_bytes(self, raw: bytes, fields: _Fields, kept: _Array) -> None:
        """All that can fail comes before the first change."""
        pieces = []
        for column, (starts, sizes) in (
            (self._keys, fields.keys),
            (self._values, fields.values),
        ):
            if column is not None:
                piece = _cut(raw, starts[kept], sizes[kept])
                column.check(len(piece))
                pieces.append((column, sizes[kept], piece))
        if self._headers is not None:
            self._headers.add(fields.headers, kept)
        for column, lengths, piece in pieces:
            column.add(lengths, piece)

    def take(self) -> Taken:
        """All that was gathered, and start again."""
        taken = Taken(
            self._rows,
            _joined(self._offsets).tobytes(),
            _joined(self._timestamps).tobytes(),
            None if self._keys is None else self._keys.taken(),
            None if self._values is None else self._values.taken(),
            None if self._headers is None else self._headers.taken(),
        )
        self._begin()
        return taken


def _read_all(raw: bytes, count: int, last_offset_delta: int) -> _Fields:
    """DecodeError, without words, for all that `decode_records` would refuse."""
    if not 0 <= count <= len(raw) // RECORD_BYTES_MIN:
        raise DecodeError
    starts, ends = _bodies(raw, count)
    octets = np.frombuffer(raw, np.uint8) if raw else np.zeros(0, np.uint8)
    # The attributes of a record, one byte, are unused so far.
    timestamp_deltas, at = _varints(octets, starts + 1, ends, 64)
    offset_deltas, at = _varints(octets, at, ends, 32)
    keys, at = _slices(octets, at, ends)
    values, at = _slices(octets, at, ends)
    header_counts, at = _varints(octets, at, ends, 32)
    plain = header_counts == 0
    if (header_counts < 0).any() or (at[plain] != ends[plain]).any():
        raise DecodeError
    headers = {
        index: _read_headers(raw, int(at[index]), int(ends[index]), int(header_counts[index]))
        for index in np.flatnonzero(header_counts).tolist()
    }
    before = np.concatenate((np.array([-1], np.int64), offset_deltas[:-1]))
    if (offset_deltas <= before[:count]).any() or (offset_deltas > last_offset_delta).any():
        raise DecodeError
    return _Fields(timestamp_deltas, offset_deltas, keys, values, headers)


def _bodies(raw: bytes, count: int) -> tuple[_Array, _Array]:
    """Where each record begins, behind its length, and where it ends."""
    starts, ends = [], []
    position, size = 0, len(raw)
    for _ in range(count):
        # Two bytes are what most lengths have: read here, because calls are what costs.
        if position + 1 < size and (low := raw[position]) >= 0x80 > (high := raw[position + 1]):
            zigzag = low & 0x7F | high << 7
            length = (zigzag >> 1) ^ -(zigzag & 1)
            position += 2
        else:
            length, position = read_varint(raw, position, size)
        if not 0 < length <= size - position:
            raise DecodeError
        starts.append(position)
        position += length
        ends.append(position)
    if position != size:
        raise DecodeError
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _varints(octets: _Array, at: _Array, ends: _Array, bits: int) -> tuple[_Array, _Array]:
    """The numbers at these places, and the places behind them."""
    if (at >= ends).any():
        raise DecodeError
    byte = octets[at]
    at = at + 1
    zigzags = (byte & 0x7F).astype(np.uint64)
    going = np.flatnonzero(byte >= 0x80)
    shift = 7
    while going.size:
        places = at[going]
        if shift >= bits or (places >= ends[going]).any():
            raise DecodeError
        byte = octets[places]
        low = (byte & 0x7F).astype(np.uint64)
        if shift + 7 > bits and (low >> np.uint64(bits - shift)).any():
            raise DecodeError
        zigzags[going] |= low << np.uint64(shift)
        at[going] += 1
        going = going[byte >= 0x80]
        shift += 7
    halves = (zigzags >> np.uint64(1)).view(np.int64)
    return halves ^ -(zigzags & np.uint64(1)).view(np.int64), at


def _slices(octets: _Array, at: _Array, ends: _Array) -> tuple[tuple[_Array, _Array], _Array]:
    """Start and size of each field, and the places behind them."""
    sizes, at = _varints(octets, at, ends, 32)
    if ((sizes < -1) | (sizes > ends - at)).any():
        raise DecodeError
    return (at, sizes), at + np.maximum(sizes, 0)


def _read_headers(raw: bytes, position: int, end: int, count: int) -> _Headers:
    headers: _Headers = []
    for _ in range(count):
        name, position = read_bytes(raw, position, end)
        value, position = read_bytes(raw, position, end)
        if name is None:
            raise DecodeError
        headers.append((name, value))
    if position != end:
        raise DecodeError
    return headers


def _cut(raw: bytes, starts: _Array, sizes: _Array) -> bytes:
    ends = starts + np.maximum(sizes, 0)
    return b"".join(
        [raw[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    )


def _joined(pieces: list[_Array]) -> _Array:
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)


def _validity(valid: _Array) -> bytes | None:
    return None if valid.all() else np.packbits(valid, bitorder="little").tobytes()


def _running(lengths: _Array) -> bytes:
    """Arrow's offsets of elements of these lengths; nulls have none."""
    ends = np.cumsum(np.maximum(lengths, 0))
    return np.concatenate((np.zeros(1, np.int64), ends)).astype("<i4").tobytes()


def _as_micros(millis: _Array) -> _Array:
    micros = millis * 1000
    micros[millis > _MILLIS_MAX] = _INT64_MAX
    micros[millis < -_MILLIS_MAX] = _INT64_MIN
    return micros
