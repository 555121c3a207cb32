"""What goes wrong, and when: a list that can be cut anywhere and still makes sense.

Each fault begins and ends by itself, and aims at a broker by number, or at whoever leads a
partition or is the controller at that moment. Drawn from the seed before anything happens.
"""

import random
import re
from dataclasses import dataclass
from typing import Final, Self

from barnabas.sim.cluster.settings import Settings

CRASHES: Final = frozenset({"kill", "power", "kill all", "blackout"})
PARTITIONS: Final = frozenset({"cut", "cut one way", "isolate", "cut store"})

_KINDS: Final = {
    "kill": 5,
    "power": 4,
    "stop": 2,
    "pause": 4,
    "cut": 4,
    "cut one way": 3,
    "isolate": 3,
    "cut store": 3,
    "expire": 2,
    "lose answer": 3,
    "quorum": 1,
    "break": 2,
    "slow link": 2,
    "slow disk": 2,
    "kill all": 1,
    "blackout": 1,
}

_LINE: Final = re.compile(r"([\d.]+) ([a-z ]+) (\w+) for ([\d.]+) \((\d+)\)")


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that goes wrong."""

    at_s: float
    kind: str
    target: str
    """A broker's number, `leader` of some partition, or `controller`."""
    for_s: float = 0.0
    other: int = 0
    """A number that the kind makes something of: another broker, a partition, a way."""

    def __str__(self) -> str:
        return f"{self.at_s:.3f} {self.kind} {self.target} for {self.for_s:.3f} ({self.other})"

    @classmethod
    def read(cls, line: str) -> Self:
        """The fault that is told by this line."""
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise ValueError(f"no fault: {line!r}")
        at_s, kind, target, for_s, other = found.groups()
        return cls(float(at_s), kind, target, float(for_s), int(other))


def draw_plan(seed: int | str, settings: Settings) -> list[Fault]:
    """The faults of a seed, in order."""
    chance = random.Random(f"{seed}/plan")
    crashes = ["kill", "power", "kill", "power", "blackout" if settings.synced else "kill all"]
    kinds = [chance.choice(crashes) for _ in range(3)]
    kinds += [chance.choice(["cut", "cut one way", "isolate", "cut store"]) for _ in range(2)]
    drawn = settings.faults - len(kinds)
    kinds += chance.choices(list(_KINDS), list(_KINDS.values()), k=max(drawn, 0))
    return sorted(_fault(chance, kind, settings) for kind in kinds)


def _fault(chance: random.Random, kind: str, settings: Settings) -> Fault:
    at_s = round(chance.uniform(0, settings.faults_s), 3)
    number = str(chance.randint(1, settings.brokers))
    target = chance.choice([number, number, "leader", "leader", "controller"])
    return Fault(
        at_s, kind, target, round(_length(chance, kind, settings), 3), chance.getrandbits(8)
    )


def _length(chance: random.Random, kind: str, settings: Settings) -> float:
    session = settings.session_s
    if kind == "pause":
        return chance.uniform(0.05, 3 * session)
    if kind in CRASHES or kind == "stop":
        return chance.choice([chance.uniform(0.01, 0.5), chance.uniform(0, 2.5 * session)])
    return chance.choice([chance.uniform(0.1, session), chance.uniform(session, 3 * session)])
