"""How a broker's last life ended, as far as its data directory tells."""

from enum import Enum, auto


class Stop(Enum):
    """What may be missing of what that life had written."""

    CLEAN = auto()
    """Nothing: all of it was synced, and said to be."""

    KILLED = auto()
    """Nothing but the end of a batch that was being written: the process died, and the system that
    has kept the rest still runs."""

    LOSSY = auto()
    """Whatever was not synced."""
