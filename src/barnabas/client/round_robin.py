"""`RoundRobin`: messages without a key go to the partitions in turn, in any thread."""

import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.model.check import require

REFRESH_S: Final = 30.0
"""How old a topic's list of partitions may be; added partitions get messages after that."""


class RoundRobin:
    """Whose turn it is, for each topic.

    `partitions` asks a broker which partitions of a topic can be written to; it may block and may
    raise, and is asked again when an answer is older than `refresh_s`. Each topic begins at a
    random partition, so that many short-lived producers of one message spread as well.
    """

    def __init__(
        self,
        partitions: Callable[[str], Sequence[int]],
        *,
        refresh_s: float = REFRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = partitions
        self._refresh_s = refresh_s
        self._clock = clock
        self._topics: dict[str, _Turns] = {}
        self._lock = threading.Lock()

    def next(self, topic: str) -> int:
        """The partition whose turn it is."""
        turns = self._topics.get(topic) or self._turns(topic)
        with turns.lock:
            if self._clock() >= turns.stale_at:
                self._refresh(topic, turns)
            turns.turn = (turns.turn + 1) % len(turns.partitions)
            return turns.partitions[turns.turn]

    def partitions(self, topic: str) -> Sequence[int]:
        """Those that take part, as lately known."""
        turns = self._turns(topic)
        with turns.lock:
            self._refresh(topic, turns)
            return turns.partitions

    def is_known(self, topic: str) -> bool:
        """Whether `next` would answer at once, without asking."""
        turns = self._topics.get(topic)
        return turns is not None and not self._is_stale(turns)

    def forget(self, topic: str) -> None:
        """Ask again next time: the topic has changed."""
        turns = self._turns(topic)
        with turns.lock:
            turns.stale_at = -math.inf

    def _turns(self, topic: str) -> "_Turns":
        found = self._topics.get(topic)
        if found is None:
            with self._lock:
                found = self._topics.setdefault(topic, _Turns())
        return found

    def _is_stale(self, turns: "_Turns") -> bool:
        return self._clock() >= turns.stale_at

    def _refresh(self, topic: str, turns: "_Turns") -> None:
        if not self._is_stale(turns):
            return
        found = tuple(self._ask(topic))
        require(len(found) > 0, f"{topic} has no partitions")
        if not turns.partitions:
            turns.turn = random.randrange(len(found))
        turns.partitions = found
        turns.stale_at = self._clock() + self._refresh_s


class _Turns:
    """One topic; a lock of its own, so that asking about one topic does not hold up another."""

    __slots__ = ("lock", "partitions", "stale_at", "turn")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.partitions: tuple[int, ...] = ()
        self.turn = 0
        self.stale_at = -math.inf
