"""Everything a broker needs from outside, as one value."""

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.ports.clock import Clock
from barnabas.ports.coordination import Coordination
from barnabas.ports.entropy import Entropy
from barnabas.ports.files import Files
from barnabas.ports.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """The ports, each with one implementation: the real one, or the simulated one."""

    clock: Clock
    entropy: Entropy
    files: Files
    work: Work
    open_coordination: Callable[[Callable[[str], None]], Coordination]
    """Called once the data directory is locked: nobody else may have it open. What it is handed is
    told, in a sentence, that the store is lost for good."""
    descriptors: int = 1 << 20
    """How many files and sockets the process may have open."""
