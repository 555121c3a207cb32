"""The records that are archived and replayed: each is a function of its number."""

import hashlib
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import Message
from tests.chaos.pipelines.feeding import Fed

PARTITIONS: Final = 4
_FIRST_TIMESTAMP: Final = 1_790_000_000_000


def record_of(number: int) -> Fed:
    """Some without a key, some with headers, some tombstones."""
    value = f"{number}:{hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest() * 2}"
    return Fed(
        value=None if number % 101 == 0 else value.encode(),
        key=None if number % 7 == 0 else f"k{number % 5003}".encode(),
        timestamp=_FIRST_TIMESTAMP + number * 3 - number % 11,
        headers=[("n", str(number).encode()), ("none", None)] if number % 13 == 0 else None,
    )


def wanted(partition: int) -> Iterator[Fed]:
    """What the partition holds, in its order, without an end."""
    number = partition
    while True:
        yield record_of(number)
        number += PARTITIONS


def found(message: Message) -> Fed:
    """A record as it was read."""
    headers: list[Any] = list(message.headers() or [])
    kind, timestamp = message.timestamp()
    if kind != 1:
        raise AssertionError(f"the timestamp of {message.offset()} is of kind {kind}")
    return Fed(message.value(), message.key(), timestamp, headers or None)
