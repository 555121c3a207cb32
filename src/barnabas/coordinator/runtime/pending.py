"""What was written in transactions that have not ended: it counts once they are committed.

A value takes its place in the log when it is written, not when its transaction is committed. So
whatever was written behind it, plainly or by a transaction that was committed meanwhile, stays;
the transaction is open all the same, and those who ask for stable values are told so.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _Written(Generic[V]):
    value: V
    overtaken: bool = False
    """Something that counts already lies behind it in the log."""


class Pending(Generic[K, V]):
    """Values by key and producer id, in the order they were written."""

    __slots__ = ("_keys", "_producers")

    def __init__(self) -> None:
        self._keys: dict[K, dict[int, _Written[V]]] = {}
        self._producers: dict[int, dict[K, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __contains__(self, key: K) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[K]:
        """The keys with something pending."""
        return iter(self._keys)

    def write(self, producer_id: int, key: K, value: V) -> None:
        """The last word of a transaction on `key`, so far."""
        written = self._keys.setdefault(key, {})
        # Away first: the order of the dict is the order of the last writes.
        written.pop(producer_id, None)
        written[producer_id] = _Written(value)
        self._producers.setdefault(producer_id, {})[key] = None

    def overtake(self, key: K) -> None:
        """A value that counts at once was written: what is pending now will never count."""
        for written in self._keys.get(key, {}).values():
            written.overtaken = True

    def remove(self, key: K) -> None:
        """The key was removed, and with it what is pending for it."""
        for producer_id in self._keys.pop(key, {}):
            self._forget(producer_id, key)

    def end(self, producer_id: int, *, committed: bool) -> list[tuple[K, V]]:
        """The producer's transaction has ended: what counts from now on."""
        counting: list[tuple[K, V]] = []
        for key in self._producers.pop(producer_id, {}):
            others = self._keys[key]
            written = others[producer_id]
            if committed and not written.overtaken:
                counting.append((key, written.value))
                _overtake_older(others, producer_id)
            del others[producer_id]
            if not others:
                del self._keys[key]
        return counting

    def values(self, key: K) -> list[V]:
        """Everything that is pending for the key, the oldest first."""
        return [written.value for written in self._keys.get(key, {}).values()]

    def writes(self, *, overtaken: bool) -> Iterator[tuple[int, K, V]]:
        """Producer id, key and value of those that were overtaken, or of all others."""
        for key, by_producer in self._keys.items():
            for producer_id, written in by_producer.items():
                if written.overtaken is overtaken:
                    yield producer_id, key, written.value

    def _forget(self, producer_id: int, key: K) -> None:
        keys = self._producers[producer_id]
        del keys[key]
        if not keys:
            del self._producers[producer_id]


def _overtake_older(written: dict[int, _Written[V]], producer_id: int) -> None:
    for other, each in written.items():
        if other == producer_id:
            return
        each.overtaken = True
