"""What can be wrong with a history, and how it is told."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

KEPT_MAX: Final = 1000
"""Of one kind: a history that is wrong everywhere must not fill the memory with complaints."""


class Anomaly(StrEnum):
    """The names are those of Jepsen's tests where these have one; most serious first."""

    LOST_WRITE = "lost-write"
    """Acknowledged, passed by those who read on, and never read by anybody."""
    TORN_TRANSACTION = "torn-transaction"
    """A part of a committed transaction was read, another part never was."""
    ABORTED_READ = "aborted-read"
    """G1a: what has definitely not happened was read."""
    PRECOMMITTED_READ = "precommitted-read"
    """A record was read before its transaction was asked to commit, or by itself."""
    DUPLICATE = "duplicate"
    """One value at two offsets."""
    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    """Two values at one offset."""
    UNKNOWN_VALUE = "unknown-value"
    """Read, and never sent (or not yet)."""
    ABORTED_OFFSET = "aborted-offset"
    """A group's committed offset is one that was only offered in what was aborted."""
    LOST_OFFSET = "lost-offset"
    """A group's committed offset went back behind an acknowledged one."""
    UNSEEN = "unseen"
    """Acknowledged, and not read by the end of the history."""
    POLL_SKIP = "poll-skip"
    """Between two polls a consumer skipped a record that others have read."""
    INT_POLL_SKIP = "int-poll-skip"
    """The same within one operation."""
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    """Between two polls a consumer went back."""
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    """The same within one operation."""
    NONMONOTONIC_SEND = "nonmonotonic-send"
    """A producer's later send got the lower offset."""
    INT_NONMONOTONIC_SEND = "int-nonmonotonic-send"
    """The same within one operation."""
    REALTIME_ORDER = "realtime-order"
    """A record got an offset that was not above all that were known before it was sent."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that can not be right."""

    anomaly: Anomaly
    sentence: str
    partitions: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()
    processes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As `barnabas verify --json` prints it."""
        return {
            "anomaly": self.anomaly.value,
            "finding": self.sentence,
            "partitions": list(self.partitions),
            "values": list(self.values),
            "offsets": list(self.offsets),
            "processes": list(self.processes),
        }


class Findings:
    """Collects what is found; the first of each kind are kept, all are counted."""

    def __init__(self) -> None:
        self.counts: Counter[Anomaly] = Counter()
        self._kept: dict[Anomaly, list[Finding]] = {each: [] for each in Anomaly}

    def add(self, finding: Finding) -> None:
        """One more."""
        self.counts[finding.anomaly] += 1
        kept = self._kept[finding.anomaly]
        if len(kept) < KEPT_MAX:
            kept.append(finding)

    @property
    def kept(self) -> list[Finding]:
        """Kind by kind."""
        return [finding for each in Anomaly for finding in self._kept[each]]


@dataclass(frozen=True, slots=True)
class Lag:
    """How long an acknowledged record stayed invisible."""

    nanoseconds: int = 0
    value: str = ""
    partition: str = ""
    reader: str = ""


@dataclass(slots=True)
class Verdict:
    """What there is to say of a history."""

    findings: list[Finding]
    counts: dict[Anomaly, int]
    """All that was found, also what is not kept in `findings`."""
    tally: dict[str, int] = field(default_factory=dict)
    """How much of what was looked at."""
    worst_lag: Lag = Lag()

    @property
    def is_clean(self) -> bool:
        """Nothing was found."""
        return not self.counts

    def to_json(self) -> dict[str, Any]:
        """The summary."""
        return {
            "anomalies": {each.value: count for each, count in self.counts.items()},
            "tally": self.tally,
            "worst_realtime_lag_ms": self.worst_lag.nanoseconds / 1e6,
        }
