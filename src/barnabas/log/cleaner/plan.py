"""What is to be cleaned, and what was: plain values that may go to another process and back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.log import names
from barnabas.log.txn_index import AbortedSearch
from barnabas.model.errors import BarnabasError


class CleaningFailedError(BarnabasError):
    """A log holds what can not be cleaned; nothing of it was changed."""


class Source(NamedTuple):
    """A closed segment, and the offset that it ends before."""

    base_offset: int
    end_offset: int
    size: int


class LastBatch(NamedTuple):
    """The last a log holds of a producer: its newest batch with data, or -1 and the epoch that
    its last marker tells."""

    data_offset: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerLimits:
    """What cleaning may cost."""

    dedupe_bytes: int
    load_factor: float
    buffer_bytes: int
    bytes_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanPlan:
    """All that cleaning one log once needs to know."""

    directory: str
    sources: tuple[Source, ...]
    """Every closed segment below `up_to`, oldest first."""
    first_dirty: int
    up_to: int
    """The base of a segment: cleaning ends before it."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    producers: Mapping[int, LastBatch]
    aborted: AbortedSearch | None
    secret: bytes
    """Sixteen bytes under which keys are hashed."""
    limits: CleanerLimits

    def path(self, base_offset: int, suffix: str, mark: str = "") -> str:
        """Where one of the log's files lies."""
        return f"{self.directory}/{names.file_name(base_offset, suffix)}{mark}"


class CleanedSegment(NamedTuple):
    """A segment that was written to take the place of others. Its files are synced."""

    base_offset: int
    replaces: tuple[int, ...]
    """Bases of the old segments, the first of which is its own too."""
    size: int
    first_timestamp: int


@dataclass(slots=True, kw_only=True)
class CleanReport:
    """What cleaning a log has done."""

    first_dirty: int
    end_offset: int
    """Up to where the log is clean now, once everything is swapped in."""
    keys: int = 0
    map_full: bool = False
    bytes_mapped: int = 0
    bytes_read: int = 0
    bytes_left: int = 0
    records_read: int = 0
    records_kept: int = 0
    map_seconds: float = 0.0
    copy_seconds: float = 0.0
    peak_memory_bytes: int = 0
    """Of the process that did it."""
