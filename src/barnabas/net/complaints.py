"""Lines in the log about strangers, few enough that a stranger can not fill the disk with them."""

import logging
from collections.abc import Callable

_INTERVAL_S = 1.0
"""One line of a kind in so long; the next one says how many were left out."""


class Complaints:
    """Says each kind of thing at most once a second."""

    __slots__ = ("_clock", "_due", "_logger", "_unsaid")

    def __init__(self, logger: logging.Logger, clock: Callable[[], float]) -> None:
        self._logger = logger
        self._clock = clock
        self._due: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def say(self, kind: str, sentence: str) -> None:
        """Log `sentence`, unless one of its kind was logged just now. Kinds are few and ours."""
        now = self._clock()
        if now < self._due.get(kind, now):
            self._unsaid[kind] = self._unsaid.get(kind, 0) + 1
            return
        self._due[kind] = now + _INTERVAL_S
        unsaid = self._unsaid.pop(kind, 0)
        more = f" ({unsaid} more like it were not logged)" if unsaid else ""
        self._logger.warning("%s%s", sentence, more)
