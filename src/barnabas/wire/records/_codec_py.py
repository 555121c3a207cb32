"""The record codec in plain Python: the twin of `_codec.pyx`, for where no compiler was.

A record is, after its own length (all lengths, deltas and counts are zigzag varints):

    attributes i8 · timestamp delta · offset delta · key · value · header count · headers

where key, value and header value are a length (-1: null) and bytes, and a header's key is UTF-8.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Final

from barnabas.model.errors import DecodeError
from barnabas.wire.records.batch import Buffer
from barnabas.wire.records.errors import RecordError

Header = tuple[str, bytes | None]
Fields = tuple[int, int, bytes | None, bytes | None, list[Header]]

RECORD_BYTES_MIN: Final = 7
"""A length, the attributes, two deltas, two null lengths and a count of headers."""
_HEADER_BYTES_MIN: Final = 2
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)
_UINT64_MASK: Final = 2**64 - 1

SLOT_BYTES: Final = 216
"""What a key costs in `KeyOffsets` at most: a hash, an offset, and their place in a dictionary."""


def decode_records(
    data: Buffer, count: int, base_offset: int, base_timestamp: int, append_time: int
) -> list[Fields]:
    """Exactly `count` records, as (offset, timestamp, key, value, headers).

    `append_time`, unless -1, is every record's timestamp. DecodeError when the bytes say anything
    else than `count` records with ascending offsets.
    """
    records = []
    for delta, timestamp_delta, key, value, headers in _read_all(
        data, count, min(_INT64_MAX, _INT64_MAX - base_offset)
    ):
        timestamp = append_time if append_time != -1 else _wrap(base_timestamp + timestamp_delta)
        records.append((base_offset + delta, timestamp, key, value, headers))
    return records


def keyless_records(data: Buffer, count: int, last_offset_delta: int) -> list[int]:
    """Indexes of the records without a key, after reading all `count` as `decode_records` does.

    No record may lie behind the batch's `last_offset_delta`.
    """
    records = _read_all(data, count, last_offset_delta)
    return [index for index, record in enumerate(records) if record[2] is None]


def encode_records(
    records: Iterable[tuple[int, int, bytes | None, bytes | None, Sequence[Header]]],
    base_offset: int,
    base_timestamp: int,
) -> bytes:
    """The bytes of `records`, whose offsets ascend from `base_offset` or later."""
    out = bytearray()
    previous = -1
    for offset, timestamp, key, value, headers in records:
        delta = offset - base_offset
        if not previous < delta <= _INT32_MAX:
            raise ValueError(f"offset {offset} does not ascend from {base_offset} within 2^31")
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise OverflowError(f"timestamp {timestamp} does not fit 64 bits")
        previous = delta
        body = bytearray(1)
        write_varint(body, _wrap(timestamp - base_timestamp))
        write_varint(body, delta)
        _write_bytes(body, key)
        _write_bytes(body, value)
        write_varint(body, len(headers))
        for name, content in headers:
            _write_bytes(body, name.encode("utf-8", "surrogateescape"))
            _write_bytes(body, content)
        if len(body) > _INT32_MAX:
            raise ValueError("a record of more than 2^31 bytes")
        write_varint(out, len(body))
        out += body
    return bytes(out)


def _read_all(data: Buffer, count: int, last_offset_delta: int) -> Iterator[Fields]:
    raw = bytes(data)
    # Before anything is allocated for records that can not be there.
    if not 0 <= count <= len(raw) // RECORD_BYTES_MIN:
        raise DecodeError(f"{count} records can not be in {len(raw)} bytes")
    position, previous = 0, -1
    for index in range(count):
        try:
            position, fields = _read_record(raw, position)
            if fields[0] <= previous:
                raise DecodeError("its offset does not ascend")
            if fields[0] > last_offset_delta:
                raise DecodeError("its offset is too large")
        except DecodeError as error:
            raise RecordError(f"record {index}: {error}", (index,)) from error
        previous = fields[0]
        yield fields
    if position != len(raw):
        raise DecodeError(f"{len(raw) - position} bytes are left over after {count} records")


def _read_record(raw: bytes, position: int) -> tuple[int, Fields]:
    """Where the record ends, and its fields with the two deltas in front."""
    length, position = read_varint(raw, position, len(raw))
    if not 0 < length <= len(raw) - position:
        raise DecodeError("its length is not what follows")
    end = position + length
    # The attributes of a record are unused so far: they are skipped.
    timestamp_delta, position = _read_varlong(raw, position + 1, end)
    offset_delta, position = read_varint(raw, position, end)
    key, position = read_bytes(raw, position, end)
    value, position = read_bytes(raw, position, end)
    count, position = read_varint(raw, position, end)
    if not 0 <= count <= (end - position) // _HEADER_BYTES_MIN:
        raise DecodeError("its count of headers is not what follows")
    headers: list[Header] = []
    for _ in range(count):
        name, position = read_bytes(raw, position, end)
        if name is None:
            raise DecodeError("a header without a key")
        content, position = read_bytes(raw, position, end)
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    if position != end:
        raise DecodeError("it is longer than its fields")
    return position, (offset_delta, timestamp_delta, key, value, headers)


def read_bytes(raw: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(raw, position, end)
    if size == -1:
        return None, position
    if not 0 <= size <= end - position:
        raise DecodeError("the length of a field is not what follows")
    return raw[position : position + size], position + size


def read_varint(raw: bytes, position: int, end: int) -> tuple[int, int]:
    """At most five bytes and 32 bits."""
    if position < end and (byte := raw[position]) < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read_zigzag(raw, position, end, 32)


def _read_varlong(raw: bytes, position: int, end: int) -> tuple[int, int]:
    """At most ten bytes and 64 bits."""
    return _read_zigzag(raw, position, end, 64)


def _read_zigzag(raw: bytes, position: int, end: int, bits: int) -> tuple[int, int]:
    number = shift = 0
    while shift < bits:
        if position >= end:
            raise DecodeError("it ends inside a number")
        byte = raw[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> bits:
                break
            return (number >> 1) ^ -(number & 1), position
        shift += 7
    raise DecodeError("a number is too large")


def write_varint(out: bytearray, number: int) -> None:
    zigzag = ((number << 1) ^ (number >> 63)) & _UINT64_MASK
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def _write_bytes(out: bytearray, content: bytes | None) -> None:
    if content is None:
        out.append(1)
        return
    # memoryview() refuses what is not bytes; bytes(5) would silently be five zeros.
    view = memoryview(content)
    write_varint(out, view.nbytes)
    out += view


def _wrap(number: int) -> int:
    """Into 64 bits, as the arithmetic of other implementations does."""
    return (number + 2**63 & _UINT64_MASK) - 2**63


class KeyOffsets:
    """The latest offset of each key, by a keyed hash of it, in about `memory` bytes at most."""

    def __init__(self, memory: int, load_factor: float, secret: bytes) -> None:
        if len(secret) != 16:
            raise ValueError("the secret of the hash has 16 bytes")
        self._secret = secret
        self._offsets: dict[bytes, int] = {}
        self.capacity = max(int(memory // SLOT_BYTES * load_factor), 1)

    def __len__(self) -> int:
        return len(self._offsets)

    def _hash(self, key: bytes) -> bytes:
        # Keyed, as the compiled one: without the secret nobody can make two keys meet.
        return blake2b(key, digest_size=16, key=self._secret).digest()

    def note(
        self, data: Buffer, count: int, base_offset: int, last_offset_delta: int, first_offset: int
    ) -> int:
        """Remember the keys of the records from `first_offset` on.

        The offset of the first that found no room, or -1.
        """
        offsets = self._offsets
        for delta, _, key, _, _ in _read_all(data, count, last_offset_delta):
            offset = base_offset + delta
            if key is None or offset < first_offset:
                continue
            hashed = self._hash(key)
            if len(offsets) >= self.capacity and hashed not in offsets:
                return offset
            offsets[hashed] = offset
        return -1

    def keep(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        last_offset_delta: int,
        base_timestamp: int,
        latest: int,
        tombstones: bool,
    ) -> tuple[int, bytes | None, bool, int]:
        """Which records stay: those after `latest`, and the last of each key.

        How many, their bytes (None: all of them), whether there are tombstones among them, and
        the greatest of their timestamps.
        """
        raw = bytes(data)
        ends = _record_ends(raw, count)
        out = bytearray()
        kept, has_tombstones, max_timestamp, start = 0, False, _INT64_MIN, 0
        for (delta, timestamp_delta, key, value, _), end in zip(
            _read_all(raw, count, last_offset_delta), ends, strict=True
        ):
            offset = base_offset + delta
            if offset > latest:
                stays = True
            elif key is None or (value is None and not tombstones):
                stays = False
            else:
                stays = self._offsets.get(self._hash(key), -1) <= offset
            if stays:
                kept += 1
                has_tombstones |= value is None
                max_timestamp = max(max_timestamp, _wrap(base_timestamp + timestamp_delta))
                out += raw[start:end]
            start = end
        return kept, None if kept == count else bytes(out), has_tombstones, max_timestamp


def rebase_records(data: Buffer, count: int, shift: int) -> bytes:
    """The same records with `shift` added to their timestamp deltas."""
    raw = bytes(data)
    out = bytearray()
    for _, start, end in _spans(raw, count):
        delta, rest = _read_varlong(raw, start + 1, end)
        body = bytearray(raw[start : start + 1])
        write_varint(body, _wrap(delta + shift))
        body += raw[rest:end]
        if len(body) > _INT32_MAX:
            raise ValueError("a record of more than 2^31 bytes")
        write_varint(out, len(body))
        out += body
    return bytes(out)


def _record_ends(raw: bytes, count: int) -> Iterator[int]:
    """Where each record ends, from the lengths in front of them alone."""
    return (end for _, _, end in _spans(raw, count))


def _spans(raw: bytes, count: int) -> Iterator[tuple[int, int, int]]:
    """Where each record begins, where its body begins and where it ends; checked as it goes."""
    if not 0 <= count <= len(raw) // RECORD_BYTES_MIN:
        raise DecodeError(f"{count} records can not be in {len(raw)} bytes")
    position = 0
    for index in range(count):
        begin = position
        try:
            length, start = read_varint(raw, position, len(raw))
            if not 0 < length <= len(raw) - start:
                raise DecodeError("its length is not what follows")
        except DecodeError as error:
            raise RecordError(f"record {index}: {error}", (index,)) from error
        position = start + length
        yield begin, start, position
    if position != len(raw):
        raise DecodeError(f"{len(raw) - position} bytes are left over after {count} records")
