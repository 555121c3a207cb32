"""What a history is made of: events of processes, each with the steps that it took.

A history is a file of JSON lines; docs/verify.md describes them, `parsing` reads them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from barnabas.model.errors import BarnabasError
from barnabas.model.topics import TopicPartition


class HistoryError(BarnabasError):
    """What was recorded makes no sense; says where and why."""


class EventType(StrEnum):
    """What an event tells about the operation of its process."""

    INVOKE = "invoke"
    """It is about to begin: whatever it sends may be anywhere from now on."""
    COMMIT = "commit"
    """A transaction is about to be asked to commit; before that it can not be committed."""
    OK = "ok"
    """It has succeeded: acknowledged, or committed."""
    FAIL = "fail"
    """It has definitely not happened: refused, or aborted."""
    INFO = "info"
    """Nobody knows. An operation that never ended counts as this, too."""


ENDS = frozenset({EventType.OK, EventType.FAIL, EventType.INFO})


class Function(StrEnum):
    """What an operation does."""

    SEND = "send"
    POLL = "poll"
    TXN = "txn"
    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    CRASH = "crash"
    OFFSET_COMMIT = "offset-commit"
    OFFSET_FETCH = "offset-fetch"


class Isolation(StrEnum):
    """What a consumer has asked to see."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Send(NamedTuple):
    """A record for a partition. No value is sent twice to one partition."""

    place: TopicPartition
    value: str
    offset: int | None = None
    """As it was acknowledged, at the end of the operation; None: not told. Of a send whose end is
    `info` those with an offset are acknowledged, and only the others not known of."""
    key: str | None = None
    """Given for topics that are compacted: a later record of the key may replace this one."""


class Poll(NamedTuple):
    """What a consumer got of one partition."""

    place: TopicPartition
    records: tuple[tuple[int, str], ...]
    """Offsets and values, as they came."""
    position: int | None = None
    """Where the consumer stands now, if it knows: there is nothing for it in between."""


class CommittedOffset(NamedTuple):
    """How far a group has read a partition: to be committed, or found."""

    group: str
    place: TopicPartition
    offset: int | None
    """None: nothing is committed."""


class Start(NamedTuple):
    """A partition that a consumer was told to read."""

    place: TopicPartition
    offset: int | None
    """From where; None where that is not known."""


Step = Send | Poll | CommittedOffset | Start


@dataclass(slots=True)
class Event:
    """One line of a history."""

    process: str
    """A client. It does one thing at a time."""
    type: EventType
    f: Function
    time: int
    """Nanoseconds of a clock that all processes share."""
    steps: tuple[Step, ...] = ()
    isolation: Isolation = Isolation.READ_COMMITTED
    """Of the polls in it."""
    idempotent: bool = True
    """Whether its sends may be stored once only, and in their order."""
    rebalanced: bool = False
    """Partitions came and went meanwhile: what is skipped within is no wonder."""
    source: str = ""
    """Where it was read, for complaints."""
