"""When to strike: what the output's partitions tell of the transaction that is being written."""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from barnabas.spark.cluster.cluster import Cluster
from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place

_LOOK_S: Final = 0.002


class Moment(StrEnum):
    """In the middle of what a strike hits."""

    WRITING = "rows written, not committed"
    COMMITTED = "transaction just committed"
    ANY = "any time"


class Watch:
    """Looks at the ends of the output."""

    def __init__(self, cluster: Cluster, places: list[Place]) -> None:
        self._cluster = cluster
        self._places = places

    def _ends(self) -> tuple[int, int]:
        """Offsets up to the last stable ones, and up to the high watermarks."""
        stable = self._cluster.latest(self._places, committed=True)
        written = self._cluster.latest(self._places, committed=False)
        return sum(stable.values()), sum(written.values())

    def wait_for(self, moment: Moment, wait_s: float) -> bool:
        """Whether it came; at once for ANY."""
        if moment is Moment.ANY:
            return True
        deadline = time.monotonic() + wait_s
        before, _ = self._patiently_ends(deadline)
        while time.monotonic() < deadline:
            stable, written = self._patiently_ends(deadline)
            if moment is Moment.WRITING and written > stable:
                return True
            if moment is Moment.COMMITTED and stable > before:
                return True
            time.sleep(_LOOK_S)
        return False

    def progressed(self, since: int, wait_s: float, check: Callable[[], None]) -> int:
        """Wait until more than `since` is stable; how much is. `check` ends a wait in vain."""
        deadline = time.monotonic() + wait_s
        while True:
            check()
            stable, _ = self._patiently_ends(deadline)
            if stable > since:
                return stable
            if time.monotonic() > deadline:
                raise AssertionError(f"nothing was committed for {wait_s:.0f} s")
            time.sleep(0.05)

    def _patiently_ends(self, deadline: float) -> tuple[int, int]:
        while True:
            try:
                return self._ends()
            except SparkJobError:
                # The broker may be on its way back.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
