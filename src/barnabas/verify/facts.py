"""What is known of a history once it was read: who wrote what, who saw it where."""

from enum import Enum, auto
from typing import Final, NamedTuple

from barnabas.model.topics import TopicPartition
from barnabas.verify.history import EventType, Function

NEVER: Final = -1


class Fate(Enum):
    """Whether what an operation wrote is there."""

    COMMITTED = auto()
    FAILED = auto()
    UNKNOWN = auto()


class Operation:
    """One thing that a process did. Moments are the numbers of events."""

    __slots__ = ("asked", "ended", "ended_ns", "f", "floors", "idempotent", "invoked",
                 "outcome", "process", "writes")  # fmt: skip

    def __init__(self, process: str, f: Function, invoked: int, *, idempotent: bool) -> None:
        self.process = process
        self.f = f
        self.invoked = invoked
        self.idempotent = idempotent
        self.asked = NEVER
        """When a transaction was about to be asked to commit."""
        self.ended = NEVER
        self.ended_ns = 0
        self.outcome = EventType.INFO
        self.writes: list[Write] = []
        self.floors: dict[TopicPartition, int] = {}
        """The highest offset of each partition that was known to anybody before it began."""

    @property
    def is_transaction(self) -> bool:
        """Else each of its sends stands for itself."""
        return self.f is Function.TXN

    @property
    def fate(self) -> Fate:
        """As its own process knows it."""
        if self.outcome is EventType.OK:
            return Fate.COMMITTED
        if self.outcome is EventType.FAIL or (self.is_transaction and self.asked == NEVER):
            return Fate.FAILED
        return Fate.UNKNOWN


class Write:
    """One value in one partition, sent or only seen."""

    __slots__ = ("acknowledged", "key", "offset", "operation", "others", "place", "reader", "seen",
                 "seen_committed", "value")  # fmt: skip

    def __init__(self, place: TopicPartition, value: str) -> None:
        self.place = place
        self.value = value
        self.operation: Operation | None = None
        """None: nobody has sent it."""
        self.key: str | None = None
        self.acknowledged: int | None = None
        """The offset its producer was told."""
        self.offset: int | None = None
        """The offset it was first seen at."""
        self.others: tuple[int, ...] = ()
        """Further offsets it was seen at."""
        self.seen = NEVER
        """When any consumer got it first."""
        self.seen_committed = NEVER
        """When a consumer of committed records got it first."""
        self.reader = ""
        """Who got it first, if possible of those who read what is committed."""

    @property
    def fate(self) -> Fate:
        """Of its operation; but a send that was acknowledged is there whatever became of the
        others that were sent with it."""
        operation = self.operation
        if operation is None:
            return Fate.UNKNOWN
        if self.acknowledged is not None and not operation.is_transaction:
            return Fate.COMMITTED
        return operation.fate

    @property
    def offsets(self) -> tuple[int, ...]:
        """Everywhere it was seen or is said to be, lowest first."""
        known = {each for each in (self.offset, self.acknowledged) if each is not None}
        return tuple(sorted(known | set(self.others)))

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is at more than one offset."""
        if self.others:
            return True
        told = self.offset is not None and self.acknowledged is not None
        return told and self.offset != self.acknowledged


class Gap(NamedTuple):
    """A consumer got one offset right after another, and nothing between them."""

    reader: str
    after: int
    before: int
    of_committed: bool
    within_one: bool
    """Within one operation."""


class PartitionFacts:
    """What is known of one partition."""

    def __init__(self, place: TopicPartition) -> None:
        self.place = place
        self.writes: dict[str, Write] = {}
        self.at: dict[int, Write] = {}
        """What was first seen at each offset."""
        self.clashes: dict[int, list[Write]] = {}
        """What else was seen at some."""
        self.gaps: list[Gap] = []
        self.is_read = False
        """Somebody was to read it."""
        self.has_committed_readers = False
        self.high = NEVER
        """The highest offset that consumers have passed."""
        self.high_committed = NEVER
        """The same, of those who read what is committed."""
        self.known_high = NEVER
        """The highest offset that a record was seen or acknowledged at."""
        self.has_sends = False

    def write_of(self, value: str) -> Write:
        """What is known of a value."""
        write = self.writes.get(value)
        if write is None:
            write = self.writes[value] = Write(self.place, value)
        return write

    def has_seen(self, write: Write) -> bool:
        """Whether those got it who read what is committed; where nobody does, whether any did."""
        return (write.seen_committed if self.has_committed_readers else write.seen) != NEVER

    def has_passed(self, offset: int, write: Write) -> bool:
        """Whether readers came beyond an offset without having seen what is there."""
        high = self.high_committed if self.has_committed_readers else self.high
        return offset < high or (write.seen == NEVER and offset < self.high)
