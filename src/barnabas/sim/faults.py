"""Which disk errors are injected, and when."""

import errno
import random
from dataclasses import dataclass
from typing import Final, Literal

FaultKind = Literal["read", "write", "sync", "sync_dir"]

ERRNO: Final[dict[FaultKind, int]] = {
    "read": errno.EIO,
    "write": errno.ENOSPC,
    "sync": errno.EIO,
    "sync_dir": errno.EIO,
}


class PowerLostError(OSError):
    """The machine (or the process) this handle belonged to is gone."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, "the simulated process is no more")


@dataclass(slots=True)
class Chances:
    """How likely each fault is, at each call. `cold` is no fault: a read that would wait."""

    read: float = 0.0
    write: float = 0.0
    sync: float = 0.0
    sync_dir: float = 0.0
    cold: float = 0.1


class Faults:
    """Decides for each call whether it fails, by chance or because a test asked for it."""

    def __init__(self, chance: random.Random, chances: Chances) -> None:
        self.chances = chances
        self.injected = 0
        self._random = chance
        self._planned: list[tuple[FaultKind, str]] = []

    def fail_next(self, kind: FaultKind, path_contains: str = "") -> None:
        """The next call of that kind on such a path fails."""
        self._planned.append((kind, path_contains))

    def call_off(self) -> None:
        """Faults that were ordered and have not struck yet will not."""
        self._planned.clear()

    def strikes(self, kind: FaultKind, path: str) -> bool:
        """Whether this call fails."""
        struck = self._is_planned(kind, path) or self._likely(getattr(self.chances, kind))
        self.injected += struck
        return struck

    def is_cold(self) -> bool:
        """Whether a read would have to wait for the disk."""
        return self._likely(self.chances.cold)

    def _is_planned(self, kind: FaultKind, path: str) -> bool:
        for planned in self._planned:
            if planned[0] == kind and planned[1] in path:
                self._planned.remove(planned)
                return True
        return False

    def _likely(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability
