"""Transactions of a producer: everything sent in one is seen as a whole, or not at all.

`Transactions` is the one place that speaks to the library about them. An error either ends the
transaction (it is aborted here, and may be tried again) or the producer (another one has its
transactional id, or its state is beyond repair).
"""

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from barnabas.client.errors import (
    ClientError,
    ProducerFencedError,
    TransactionError,
    code_of,
    config_error,
    translated,
)
from barnabas.client.intake import Intake, raw_place
from barnabas.model.topics import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka

_AGAIN_S: Final = 0.1
_ARRIVE_S: Final = 5.0
"""How long what is on its way may take before it is taken back all the same."""
_FENCED: Final = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "FENCED"})


class Transactions:
    """The transactions of one producer, one after the other. Made for one thread at a time."""

    def __init__(
        self,
        raw: "confluent_kafka.Producer",
        transactional_id: str,
        timeout_s: float,
        forget_losses: Callable[[], None],
    ) -> None:
        self._raw = raw
        self._id = transactional_id
        self._timeout_s = timeout_s
        self._forget_losses = forget_losses
        self._registered = False
        self.is_open = False
        self.is_over = False
        """Whether this producer can do nothing any more, as its user has been told."""

    def begin(self) -> None:
        """The first one takes the transactional id: whoever had it before is fenced."""
        if self.is_open:
            config_error("A transaction is open: leave its `with` block before the next one.")
        if not self._registered:
            self._call("taking the transactional id", self._raw.init_transactions)
            self._registered = True
        self._call("beginning a transaction", lambda _: self._raw.begin_transaction())
        self.is_open = True

    def commit(
        self, offsets: Mapping[TopicPartition, int] | None = None, intake: Intake | None = None
    ) -> None:
        """Commit, together with how far the consumer of `intake` has got."""
        try:
            if offsets and intake is not None:
                named = [raw_place(place, offset) for place, offset in offsets.items()]
                group = intake.group_metadata()
                self._call(
                    "committing offsets",
                    lambda left_s: self._raw.send_offsets_to_transaction(named, group, left_s),
                )
            self._call("committing a transaction", self._raw.commit_transaction)
        except TransactionError:
            self.abort()
            raise
        self.is_open = False

    def abort(self) -> None:
        """Take everything back that was sent since it began; nothing that was lost is missed."""
        if not self.is_open:
            return
        self.is_open = False
        try:
            self._call("aborting a transaction", self._abort)
        finally:
            self._forget_losses()

    def _abort(self, left_s: float) -> None:
        # An abort that overtakes the first records of its transaction is fatal to librdkafka
        # (2.16): it asks the broker to end what has not begun there. With any broker.
        self._raw.flush(min(left_s, _ARRIVE_S))
        self._raw.abort_transaction(left_s)

    def _call(self, doing: str, call: Callable[[float], Any]) -> None:
        """Ask the library, again and again while it says that this may help."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._timeout_s
        while True:
            left_s = deadline - time.monotonic()
            try:
                call(max(left_s, _AGAIN_S))
                return
            except KafkaException as error:
                cause = error.args[0]
                if not cause.retriable() or left_s <= 0:
                    raise self._translated(cause, f"{doing} of {self._id}") from error
            time.sleep(_AGAIN_S)

    def _translated(self, cause: "confluent_kafka.KafkaError", doing: str) -> ClientError:
        code = code_of(cause)
        if code in _FENCED:
            self._end()
            return ProducerFencedError(
                f"{doing[:1].upper()}{doing[1:]} failed: another producer has taken over this "
                f"transactional id ({code}). Nothing of the open transaction will be seen; give "
                "each producer an id of its own.",
                code=code,
                fatal=True,
            )
        why = translated(cause, doing)
        if cause.fatal():
            self._end()
            return why
        if not self.is_open:
            return why
        sentence = str(why).rstrip(".")
        return TransactionError(
            f"{sentence}. The transaction was aborted, and nothing of it will be seen: begin "
            "again.",
            code=code,
            retriable=True,
        )

    def _end(self) -> None:
        self.is_open, self.is_over = False, True
        self._forget_losses()


class OpenTransaction:
    """`with producer.transaction():` commits on leaving; an exception aborts it."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def abort(self) -> None:
        """Take back everything sent so far; leaving the block then does nothing."""
        self._transactions.abort()

    def __enter__(self) -> Self:
        self._transactions.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._transactions.is_open:
            return
        if error is None:
            self._transactions.commit()
            return
        try:
            self._transactions.abort()
        except ClientError as second:
            # The first trouble is the one to show; the broker aborts by itself in time.
            error.add_note(f"On aborting the transaction: {second}")
