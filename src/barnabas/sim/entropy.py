"""Chance that can be replayed."""

import random
import uuid
from collections import Counter

_RARITIES = (0.0, 0.001, 0.01, 0.1, 0.5)
"""How often a rare branch is taken. Zero is among them, so that some seeds never take it."""


class SimEntropy:
    """Every value follows from the seed and the order of the questions."""

    def __init__(self, seed: int | str) -> None:
        self._seed = seed
        self._random = random.Random(f"{seed}/entropy")
        self._places: dict[str, tuple[random.Random, float]] = {}
        self.asked: Counter[str] = Counter()
        self.hits: Counter[str] = Counter()

    def uuid(self) -> uuid.UUID:
        """A fresh UUID. Version 4 sets fixed bits, so it is never all zeros."""
        return uuid.UUID(int=self._random.getrandbits(128), version=4)

    def below(self, bound: int) -> int:
        """A whole number from 0 to `bound` - 1."""
        return self._random.randrange(bound)

    def sometimes(self, name: str) -> bool:
        """True with a probability that the seed gives to this name."""
        chance, probability = self._place(name)
        self.asked[name] += 1
        taken = chance.random() < probability
        if taken:
            self.hits[name] += 1
        return taken

    def _place(self, name: str) -> tuple[random.Random, float]:
        # Each name has a stream of its own: a new place in the code leaves the others as they were.
        if name not in self._places:
            chance = random.Random(f"{self._seed}/sometimes/{name}")
            self._places[name] = (chance, chance.choice(_RARITIES))
        return self._places[name]
