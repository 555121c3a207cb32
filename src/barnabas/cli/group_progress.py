"""How far long work has got, said on stderr once it turns out to be long."""

import time
from typing import Final

from barnabas.cli.output import note

_SILENT_S: Final = 1.0


class Progress:
    """Counts what is done of a known number of things; speaks once a second at the most."""

    def __init__(self, things: str, total: int) -> None:
        self._things = things
        self._total = total
        self._done = 0
        self._next_s = time.monotonic() + _SILENT_S

    def advance(self, count: int) -> None:
        """So many more are done."""
        self._done += count
        if time.monotonic() >= self._next_s and self._done < self._total:
            self._next_s = time.monotonic() + _SILENT_S
            note(f"{self._done} of {self._total} {self._things}")
