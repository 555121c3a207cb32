"""`String.hashCode()`: Kafka finds a name's shard by it, and breaks even votes by it."""

from functools import lru_cache
from typing import Final

_MASK: Final = 0xFFFFFFFF
_INT_MAX: Final = 0x7FFFFFFF
_BASE: Final = 31
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstu"

_ONES: Final = bytes(_DIGITS[unit % _BASE] for unit in range(256))
_THIRTY_ONES: Final = bytes(_DIGITS[unit // _BASE] for unit in range(256))
"""The two digits to base 31 of every byte."""

_READ_AT_ONCE: Final = 200
"""Digits; `int` takes longer for each the more there are."""

_REMEMBERED_CHARS_MAX: Final = 255
"""Names come from strangers, and may have 32 KB."""


def java_hash(text: str) -> int:
    """The 32 bits of the hash, as a number without a sign."""
    return _remembered(text) if len(text) <= _REMEMBERED_CHARS_MAX else _hash(text)


def partition_of(group_id: str, partitions: int) -> int:
    """Where Kafka keeps a group, so that logs can be exchanged: by the hash without its sign,
    which is not the hash without its first bit; and -2^31 has no counterpart in Java."""
    value = java_hash(group_id)
    if value > _INT_MAX:
        value = _MASK + 1 - value
    return 0 if value > _INT_MAX else value % partitions


def _hash(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    value = _polynomial(units[1::2])
    if not text.isascii():
        value += _polynomial(units[::2]) << 8
    return value & _MASK


_remembered = lru_cache(4096)(_hash)


def _polynomial(units: bytes) -> int:
    """Bytes as if they were digits to base 31, which a loop over them would take 10 ms for."""
    value = 0
    for at in range(0, len(units), _READ_AT_ONCE):
        part = units[at : at + _READ_AT_ONCE]
        value *= pow(_BASE, len(part), _MASK + 1)
        value += int(part.translate(_ONES), _BASE)
        value += int(part.translate(_THIRTY_ONES), _BASE) * _BASE
        value &= _MASK
    return value
