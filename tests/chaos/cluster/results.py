"""What a run has found so far, part by part; saved, so that it can go on later."""

import json
import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.chaos.cluster.faults import Kind
from tests.chaos.cluster.hosting import SESSION_S

GRACE_S: Final = 5.0
"""How long writes may take to resume, beyond a session."""
CHANGED: Final = "+"
"""Behind a commit: with changes that are in no commit."""
BOUND_S: Final = SESSION_S + GRACE_S


@dataclass
class Struck:
    """A fault that was carried out."""

    number: int
    at_s: float
    """Since the part began."""
    kind: str
    target: str
    whom: str
    broken_s: float
    """How long it was before everything ran and arrived again."""
    resumed_s: dict[str, float] = field(default_factory=dict)
    """After that, until each writer had an acknowledgement."""


@dataclass
class Part:
    """Some minutes on one cluster, and the verdict on them."""

    number: int
    seed: int
    seconds: float = 0.0
    struck: list[Struck] = field(default_factory=list)
    tally: dict[str, int] = field(default_factory=dict)
    anomalies: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    worst_lag_s: float = 0.0
    in_sync_s: float = 0.0
    """After the last fault, until every replica was in sync again."""
    broke_off: bool = False
    """It did not come to its end."""
    evidence: str = ""
    """Where the files are kept when something is wrong."""
    commit: str = ""
    """What was tested, in short; "" where nobody knows."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Faults that can not be done on this machine: how many of each kind."""

    @property
    def is_clean(self) -> bool:
        """Nothing was found."""
        return not self.problems and not self.anomalies and not self.broke_off


@dataclass
class Results:
    """All parts of one run."""

    seed: int
    network: str = ""
    """What there was of one."""
    parts: list[Part] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Of all parts."""
        return sum(part.seconds for part in self.parts)

    @property
    def next_fault(self) -> int:
        """The number of the first fault that was not carried out yet."""
        return max((each.number + 1 for part in self.parts for each in part.struck), default=0)

    @property
    def acknowledged(self) -> int:
        """Records."""
        return sum(part.tally.get("values acknowledged", 0) for part in self.parts)

    @property
    def is_clean(self) -> bool:
        """There are parts, nothing was found in any, and writers went on in time."""
        return bool(self.parts) and all(part.is_clean for part in self.parts) and self.is_in_time

    @property
    def is_in_time(self) -> bool:
        """Whether the slowest writer after each heal was quick enough, 99 times of 100."""
        return percentile(self.slowest(), 0.99) <= BOUND_S

    def struck(self) -> Counter[tuple[str, str]]:
        """How often what was done to whom."""
        return Counter((each.kind, each.target) for part in self.parts for each in part.struck)

    def left_out(self) -> Counter[str]:
        """How often a fault of which kind had to be left out."""
        total: Counter[str] = Counter()
        for part in self.parts:
            total.update(part.left_out)
        return total

    def is_of(self, commit: str) -> bool:
        """Whether all of it was done with the code of this commit, and nothing but it."""
        is_exact = bool(commit) and not commit.endswith(CHANGED)
        return is_exact and all(part.commit == commit for part in self.parts)

    def tally(self) -> Counter[str]:
        """Of all parts."""
        total: Counter[str] = Counter()
        for part in self.parts:
            total.update(part.tally)
        return total

    def slowest(self, kind: str | None = None) -> list[float]:
        """Times until the last writer had an acknowledgement after a heal, shortest first.

        Of one kind of faults, or of all but hijacks, after which nothing is to be healed."""
        return sorted(
            max(each.resumed_s.values())
            for part in self.parts
            for each in part.struck
            if each.resumed_s and (each.kind == kind if kind else each.kind != Kind.HIJACK)
        )

    def resumed(self) -> list[float]:
        """Times until any writer had an acknowledgement after any fault, shortest first."""
        return sorted(
            took for part in self.parts for each in part.struck for took in each.resumed_s.values()
        )


def load(path: Path, seed: int) -> Results:
    """What was saved of a run with this seed; a fresh one otherwise."""
    if not path.exists():
        return Results(seed)
    saved: dict[str, Any] = json.loads(path.read_text())
    if saved["seed"] != seed:
        return Results(seed)
    parts = []
    for each in saved["parts"]:
        struck = [Struck(**one) for one in each.pop("struck")]
        parts.append(Part(**each, struck=struck))
    return Results(seed, saved["network"], parts)


def save(path: Path, results: Results) -> None:
    """All at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(asdict(results)))
    os.replace(fresh, path)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The least value that so many of them do not exceed."""
    if not ordered:
        return 0.0
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]
