"""What a copier is just doing, in a byte that outlives it: written by it, read by who kills it."""

import mmap
import struct
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

_LAYOUT: Final = struct.Struct("<BxxxxxxxQQQ")


class Phase(Enum):
    """The value is how it is told; in the order in which they come."""

    STARTING = "it has not begun"
    JOINING = "it has no partitions"
    POLLING = "between transactions"
    SENDING = "records sent, not all acknowledged"
    OFFSETS = "offsets sent to the transaction"
    COMMITTING = "the commit sent, not answered"
    ABORTING = "an abort sent, not answered"

    @property
    def is_work(self) -> bool:
        """Whether a kill now counts."""
        return self not in (Phase.STARTING, Phase.JOINING)

    @property
    def is_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self in (Phase.SENDING, Phase.OFFSETS, Phase.COMMITTING, Phase.ABORTING)


_PHASES: Final = tuple(Phase)


class Progress(NamedTuple):
    """What one life of a copier has done so far."""

    phase: Phase
    records: int
    """In transactions that were committed."""
    commits: int
    aborts: int


class PhaseFile:
    """A page shared by the copier and those who watch it."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_LAYOUT.size))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _LAYOUT.size)
        self._done = list(_LAYOUT.unpack(self._page)[1:])

    def enter(self, phase: Phase) -> None:
        """From now on this."""
        self._page[0] = _PHASES.index(phase)

    def committed(self, records: int) -> None:
        """One more transaction, of so many records."""
        self._done[0] += records
        self._done[1] += 1
        self._write()

    def aborted(self) -> None:
        """One more transaction that was in vain."""
        self._done[2] += 1
        self._write()

    def _write(self) -> None:
        _LAYOUT.pack_into(self._page, 0, self._page[0], *self._done)

    def read(self) -> Progress:
        """As it is now, or was at the end."""
        phase, *done = _LAYOUT.unpack(self._page)
        return Progress(_PHASES[phase], *done)

    def close(self) -> None:
        """Let go of the page."""
        self._page.close()
