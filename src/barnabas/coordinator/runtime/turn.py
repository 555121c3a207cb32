"""One event's turn at a shard: what it knows, and everything that shall be done about it.

A shard is plain code. An event (a request, a timer, a changed topic) comes with a Turn; the shard
decides, and leaves on the Turn the records to write, the answers to give once they are committed,
and the timers to set. The runtime does all of that; when it can not, it drops the shard and loads
it again from the log, so there is no undoing.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, final

from barnabas.cluster.image import Image
from barnabas.log.verification import VerificationGuard
from barnabas.model.errors import KafkaError
from barnabas.model.transactions import ProducerIdentity

R = TypeVar("R")
T = TypeVar("T")

Answer: TypeAlias = T | asyncio.Future[T]
"""The answer, or a future of it."""


class TimerKey(NamedTuple):
    """Which timer. Setting one that is set already replaces it."""

    kind: str
    group: str
    member: str = ""


class Parked:
    """The answer of a request that has to wait for others: it comes by a later `Turn.reply`."""


PARKED: Final = Parked()


class Waiter:
    """Whoever waits for an answer. Shards only keep it and hand it back."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: Callable[[Any], None] | None = None


class TransactionalWrite(NamedTuple, Generic[R]):
    """Records that belong to a producer's transaction."""

    producer: ProducerIdentity
    records: tuple[R, ...]
    guard: VerificationGuard | None
    """What the partition gave out before the transaction's coordinator was asked."""


@final
class Turn(Generic[R]):
    """One event being decided."""

    __slots__ = (
        "_apply",
        "image",
        "leader_epoch",
        "monotonic_ms",
        "now_ms",
        "records",
        "replies",
        "timers",
        "transactional",
    )

    def __init__(
        self,
        now_ms: int,
        monotonic_ms: int,
        image: Image,
        apply: Callable[[R], None],
        leader_epoch: int = 0,
    ) -> None:
        self.now_ms: Final = now_ms
        """Wall clock: for what is stored. It may jump."""
        self.monotonic_ms: Final = monotonic_ms
        """Never goes back: for deadlines."""
        self.image: Final = image
        """The topics there are now."""
        self.leader_epoch: Final = leader_epoch
        """Of the shard's partition."""
        self._apply = apply
        self.records: list[R] = []
        self.replies: list[tuple[Waiter, Any]] = []
        self.timers: dict[TimerKey, int | None] = {}
        self.transactional: TransactionalWrite[R] | None = None

    def write(self, record: R) -> None:
        """Have `record` written. It counts at once: whatever is decided next sees it."""
        self.records.append(record)
        self._apply(record)

    def write_in_transaction(
        self,
        producer: ProducerIdentity,
        records: Iterable[R],
        guard: VerificationGuard | None = None,
    ) -> None:
        """Have `records` written as part of a transaction, in answer to a request.

        The log has the last word on producers: if it refuses, so is the request, and nothing has
        changed. Otherwise the shard gets the records by `apply_pending`.
        """
        self.transactional = TransactionalWrite(producer, tuple(records), guard)

    def reply(self, waiter: Waiter, answer: Any) -> None:
        """Answer somebody who was PARKED (or is asking now), once all records are committed."""
        self.replies.append((waiter, answer))

    def refuse(self, waiter: Waiter, error: KafkaError) -> None:
        """Answer somebody who was PARKED with an error."""
        self.replies.append((waiter, error))

    def schedule(self, key: TimerKey, delay_ms: int) -> None:
        """Call `fire(turn, key)` in `delay_ms`, once."""
        self.timers[key] = delay_ms

    def cancel(self, key: TimerKey) -> None:
        """Forget the timer, if there is one."""
        self.timers[key] = None
