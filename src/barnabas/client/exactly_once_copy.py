"""Exactly once from topics to topics: what a loop sends, and how far it has read, commit as one.

A transaction of the producer opens when a message is handed out, and is committed when the loop
comes back and nothing more is at hand, or after `interval_s` seconds or `every` messages: many
messages share one when many come. A crash, an exception or a `break` aborts it: what was sent is
never seen, and the messages come again.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.client.errors import TransactionError, config_error
from barnabas.client.intake import Intake
from barnabas.client.message import Message, message_from
from barnabas.client.semantics import Unshared
from barnabas.client.settings import LOGGER
from barnabas.client.transactions import Transactions
from barnabas.model.topics import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka


class ExactlyOnceCopy(Unshared):
    """The steps of a consumer with a transactional producer."""

    def __init__(
        self, intake: Intake, transactions: Transactions, *, interval_s: float, every: int | None
    ) -> None:
        self._intake = intake
        self._transactions = transactions
        self._interval_s = interval_s
        self._every = every
        self._firsts: dict[TopicPartition, int] = {}
        """Where each partition goes on if the transaction is aborted."""
        self._afters: dict[TopicPartition, int] = {}
        """Where it goes on once the transaction is committed."""
        self._astray: dict[TopicPartition, int] = {}
        """Partitions that were read further than they should be, and where they go on."""
        self._count = 0
        self._in_hand = False
        self._began_at = 0.0

    def came_back(self) -> None:
        self._in_hand = False
        if self._is_due():
            self._commit()

    def admit(self, raw: "Sequence[confluent_kafka.Message]") -> list[Message]:
        messages = [message_from(each) for each in raw]
        if self._astray:
            # They were fetched before a transaction was aborted, and follow what comes again.
            for message in messages:
                self._astray.setdefault(message.place, message.offset)
            return []
        if not self._transactions.is_open:
            self._transactions.begin()
            self._began_at = time.monotonic()
        for message in messages:
            self._firsts.setdefault(message.place, message.offset)
            self._afters[message.place] = message.offset + 1
        self._count += len(messages)
        self._in_hand = True
        return messages

    def is_quick(self) -> bool:
        return self._transactions.is_open and not self._is_due()

    def _is_due(self) -> bool:
        if self._every is not None and self._count >= self._every:
            return True
        return time.monotonic() - self._began_at >= self._interval_s

    def tend(self) -> None:
        """Before the broker is waited for: nobody shall wait for what is done already."""
        self._put_right()
        if self._is_due() or not self._intake.has_ahead():
            self._commit()

    def commit(self, message: Message | None, *, wait: bool) -> None:
        del wait
        if message is not None:
            config_error(
                "An exactly-once consumer commits the whole open transaction: call commit() "
                "without a message."
            )
        self._commit_now()

    def _commit(self) -> None:
        """Nobody waits to hear of it: what is aborted comes again."""
        try:
            self._commit_now()
        except TransactionError as error:
            if not error.retriable:
                raise
            LOGGER.warning("%s", error)

    def _commit_now(self) -> None:
        if not self._transactions.is_open:
            return
        try:
            self._transactions.commit(self._afters, self._intake)
        except TransactionError:
            self._astray |= self._firsts
            self._clear()
            raise
        self._clear()

    def moved(self, place: TopicPartition, offset: int) -> None:
        if self._transactions.is_open:
            config_error(
                "A transaction is open: call commit() before going elsewhere, or leave the loop "
                "first."
            )
        self._astray.pop(place, None)
        self._intake.commit({place: offset}, wait=True)

    def abandon(self) -> None:
        """What was done before the message in hand is taken back with it, and comes again."""
        if self._in_hand:
            self._transactions.abort()
            self._astray |= self._firsts
            self._clear()
            self._put_right()

    def give_back(self, firsts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self._transactions.abort()
        starts = {**firsts, **self._firsts, **self._astray}
        self._astray.clear()
        self._clear()
        return starts

    def finish(self) -> None:
        """The message in hand is not done, nor is what shares its transaction."""
        if self._in_hand:
            self._transactions.abort()
        else:
            self._commit()
        self._clear()

    def leaving(self, places: Collection[TopicPartition], *, lost: bool) -> None:
        """What is done goes with the partition, if it is still ours to give."""
        if not self._firsts.keys().isdisjoint(places):
            if lost or self._in_hand:
                self._transactions.abort()
                # The library is in the midst of a rebalance: those that stay are moved afterwards.
                self._astray |= self._firsts
                self._clear()
            else:
                self._commit()
        for place in places:
            self._astray.pop(place, None)

    def _put_right(self) -> None:
        while self._astray:
            place, first = self._astray.popitem()
            if place in self._intake.assigned:
                self._intake.seek(place, first)

    def _clear(self) -> None:
        self._firsts.clear()
        self._afters.clear()
        self._count = 0
        self._in_hand = False
