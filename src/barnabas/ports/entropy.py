"""Chance, from one place, so that a simulation can replay it."""

import uuid
from typing import Protocol


class Entropy(Protocol):
    """Random values; in a simulation all of them come from the seed."""

    def uuid(self) -> uuid.UUID:
        """A fresh random UUID; never all zeros, which means "no topic" in the protocol."""
        ...

    def below(self, bound: int) -> int:
        """A whole number from 0 to `bound` - 1."""
        ...

    def sometimes(self, name: str) -> bool:
        """A place where a simulation may take the rare branch. Always false in the real world."""
        ...
