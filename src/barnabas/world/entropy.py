"""Chance from the operating system."""

import random
import uuid


class RealEntropy:
    """Values nobody can guess or repeat."""

    def __init__(self) -> None:
        self._system = random.SystemRandom()

    def uuid(self) -> uuid.UUID:
        """A fresh random UUID. Version 4 sets fixed bits, so it is never all zeros."""
        return uuid.uuid4()

    def below(self, bound: int) -> int:
        """A whole number from 0 to `bound` - 1."""
        return self._system.randrange(bound)

    def sometimes(self, name: str) -> bool:  # noqa: ARG002 - the port's parameter
        """Never: rare branches are for simulations."""
        return False
