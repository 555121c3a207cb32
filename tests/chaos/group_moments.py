"""When to strike: members say what they are just doing, and whoever is first pulls the trigger."""

import threading
import time
from collections.abc import Callable
from enum import Enum


class Phase(Enum):
    """What a group may be in the middle of; the value is how it is told."""

    JOINED = "JoinGroup answered, SyncGroup not sent"
    SYNCING = "the leader's SyncGroup sent, not answered"
    COMMITTING = "OffsetCommit sent, not answered"
    REVOKING = "a revocation told, not acknowledged"
    IDLE = "nothing"


class Moments:
    """One moment at a time is waited for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: Phase | None = None
        self._strike: Callable[[], None] = lambda: None
        self._delay_s = 0.0
        self._lasts_s: dict[Phase, float] = {}
        self._struck = threading.Event()

    def took(self, phase: Phase, seconds: float) -> None:
        """An answer was waited for so long."""
        self._lasts_s[phase] = 0.8 * self._lasts_s.get(phase, seconds) + 0.2 * seconds

    def strike_at(
        self, phase: Phase, strike: Callable[[], None], part: float, within_s: float
    ) -> bool:
        """Have `strike` called once the next such moment is over to that part, as far as one can
        know; False if none came."""
        self._struck.clear()
        self._strike, self._delay_s = strike, part * self._lasts_s.get(phase, 0.0)
        with self._lock:
            self._wanted = phase
        if self._struck.wait(within_s):
            return True
        with self._lock:
            missed, self._wanted = self._wanted is not None, None
        # Somebody may have come at the very last moment, and is about to strike.
        return not missed and self._struck.wait()

    def at(self, phase: Phase) -> None:
        """Somebody is just there."""
        with self._lock:
            if self._wanted is not phase:
                return
            self._wanted = None
        time.sleep(self._delay_s)
        self._strike()
        self._struck.set()
