"""What is committed in one partition, and that every replica has the same.

The truth grows when a leader's high watermark does: what the leader has up to there is committed,
for ever. Replicas are compared with it byte by byte, each from where it was compared last.
"""

from bisect import bisect_left
from dataclasses import dataclass

from barnabas.log.log import PartitionLog
from barnabas.model.topics import INTERNAL_TOPICS, TopicPartition
from barnabas.sim.files import SimFiles
from barnabas.wire.records.batch import parse_header
from barnabas.wire.records.record import decode_batch


class BrokenPromiseError(Exception):
    """What must never be, is. The first word says which promise it was."""


def demand(condition: bool, promise: str, words: str) -> None:
    """Raise unless the condition holds."""
    if not condition:
        raise BrokenPromiseError(f"{promise}: {words}")


@dataclass(slots=True)
class Cursor:
    """How far a replica's log has been compared with the truth."""

    offset: int = 0
    segment: int = -1
    position: int = 0


class Truth:
    """The committed batches of one partition."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.end = 0
        self.values: dict[int, bytes] = {}
        """The records of clients by offset; markers and internal topics are left out."""
        self.once: set[bytes] = set()
        """Values of idempotent producers that are sent and must not come twice."""
        self._places: dict[bytes, int] = {}
        self._starts: list[int] = []
        self._batches: list[bytes] = []
        self._last_of: dict[bytes, int] = {}
        self._open: dict[int, int] = {}
        """Producers of transactions without a committed end, and where each began."""

    @property
    def stable_end(self) -> int:
        """Up to where the fate of every record is committed."""
        return min(self._open.values(), default=self.end)

    def extend(self, log: PartitionLog, files: SimFiles, cursor: Cursor, up_to: int) -> None:
        """A leader has committed what it has below `up_to`; it was compared up to the end."""
        for base, batch in _batches(log, files, cursor, up_to):
            self._take(base, batch)
        demand(self.end == up_to, "HighWatermark", f"{self} is committed to {up_to}, in mid-batch")

    def _take(self, base: int, batch: bytes) -> None:
        header = parse_header(batch)
        self._starts.append(base)
        self._batches.append(batch)
        self.end = header.last_offset + 1
        if header.is_control:
            self._open.pop(header.producer_id, None)
        elif header.is_transactional:
            self._open.setdefault(header.producer_id, base)
        if header.is_control or self.partition.topic in INTERNAL_TOPICS:
            return
        for record in decode_batch(batch):
            value = record.value or b""
            if value in self.once:
                earlier = self._places.get(value)
                words = f"{value!r} is at {earlier} and at {record.offset} of {self}"
                demand(earlier is None, "Once", words)
                self._check_order(value, record.offset)
            self._places.setdefault(value, record.offset)
            self.values[record.offset] = value

    def _check_order(self, value: bytes, offset: int) -> None:
        name, _, number = value.partition(b"/")
        last = self._last_of.get(name, -1)
        words = f"{value!r} at {offset} of {self} comes behind number {last}"
        demand(int(number) == last + 1, "Order", words)
        self._last_of[name] = int(number)

    def compare(
        self, log: PartitionLog, files: SimFiles, cursor: Cursor, up_to: int, who: str
    ) -> None:
        """Whether a replica has the same below `up_to`, as far as that is committed."""
        for base, batch in _batches(log, files, cursor, min(self.end, up_to)):
            at = bisect_left(self._starts, base)
            same = at < len(self._starts) and self._batches[at] == batch
            demand(same, "LogMatching", f"{who} has something else at {base} of {self}")

    def __str__(self) -> str:
        return self.partition.directory


def _batches(
    log: PartitionLog, files: SimFiles, cursor: Cursor, up_to: int
) -> "list[tuple[int, bytes]]":
    """Whole batches from the cursor on that begin below `up_to`; the cursor is moved behind."""
    found: list[tuple[int, bytes]] = []
    for segment, end in log.spans():
        if end <= cursor.offset or segment.base_offset >= up_to:
            continue
        data = files.peek(f"{segment.directory}/{segment.base_offset:020}.log")
        position = cursor.position if cursor.segment == segment.base_offset else 0
        while position < segment.size:
            header = parse_header(data, position)
            if header.base_offset >= up_to:
                break
            following = position + header.size
            if header.base_offset >= cursor.offset:
                found.append((header.base_offset, bytes(data[position:following])))
            position = following
            cursor.offset = max(cursor.offset, header.last_offset + 1)
            cursor.segment, cursor.position = segment.base_offset, position
    return found
