"""Exactly once: each message is handed out inside a transaction of the ledger.

The ledger says where a partition goes on, not the group. The group's committed offsets follow it,
so that lag can be seen from outside, and nothing depends on them.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from barnabas.client.errors import CommitError, FencedError, LedgerError, config_error
from barnabas.client.intake import Intake
from barnabas.client.ledger.base import Handling, Ledger
from barnabas.client.message import Message, message_from
from barnabas.client.semantics import Unshared
from barnabas.client.settings import LOGGER
from barnabas.model.topics import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka


class ExactlyOnce(Unshared):
    """The steps of a consumer with a ledger."""

    def __init__(
        self,
        intake: Intake,
        ledger: Ledger[Any],
        group: str,
        start: Literal["earliest", "latest"],
        *,
        interval_s: float,
    ) -> None:
        self._intake = intake
        self._ledger = ledger
        self._group = group
        self._start = start
        self._interval_s = interval_s
        self._open: Handling[Any] | None = None
        self._done: dict[TopicPartition, int] = {}
        self._committed_at = time.monotonic()

    def came_back(self) -> None:
        try:
            self._commit_open()
        except FencedError as error:
            LOGGER.info("%s", error)

    def _commit_open(self) -> None:
        handling, self._open = self._open, None
        if handling is None:
            return
        try:
            handling.commit()
        except FencedError:
            self._go_back(handling.then)
            raise
        self._done.update(handling.then)

    def admit(self, raw: "Sequence[confluent_kafka.Message]") -> list[Message]:
        messages = [message_from(each) for each in raw]
        handling = self._ledger.open(
            [(message.place, message.offset) for message in messages], group=self._group
        )
        if not handling.fresh:
            handling.rollback()
            return []
        self._open = handling
        fresh = set(handling.fresh)
        return [
            message_from(each, handling.cursor)
            for each, message in zip(raw, messages, strict=True)
            if (message.place, message.offset) in fresh
        ]

    def is_quick(self) -> bool:
        return False

    def tend(self) -> None:
        if self._done and time.monotonic() - self._committed_at >= self._interval_s:
            self._committed_at = time.monotonic()
            self._intake.commit(self._done, wait=False)
            self._done = {}

    def commit(self, message: Message | None, *, wait: bool) -> None:
        del wait
        if message is not None:
            config_error(
                "An exactly-once consumer commits the whole open transaction: call commit() "
                "without a message."
            )
        self._commit_open()

    def moved(self, place: TopicPartition, offset: int) -> None:
        """Only forward: what lies behind the ledger's position would be left out anyway."""
        if self._open is not None:
            config_error(
                "A message's transaction is open: call commit() before going elsewhere, or leave "
                "the loop first."
            )
        if offset < (self._ledger.position(place, group=self._group) or 0):
            config_error(
                f"The ledger has handled {place.topic} [{place.partition}] beyond {offset}, and "
                "would leave those messages out: close the consumer, call "
                "ledger.move(place, offset, group=…), and start it again."
            )

    def give_back(self, firsts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.abandon()
        return firsts

    def abandon(self) -> None:
        handling, self._open = self._open, None
        if handling is not None:
            handling.rollback()
            self._go_back(handling.then)

    def finish(self) -> None:
        handling, self._open = self._open, None
        if handling is not None:
            handling.rollback()
        try:
            self._intake.commit(self._done, wait=True)
        except CommitError as error:
            LOGGER.info("The group's offsets are behind the ledger's: %s", error)
        self._done = {}

    def starting(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        starts = {}
        for place in places:
            low, high = self._intake.ends(place)
            begin = low if self._start == "earliest" else high
            position = self._ledger.begin_at(place, begin, group=self._group)
            if position > high:
                raise LedgerError(
                    f"The ledger is at offset {position} of {place.topic} [{place.partition}], "
                    f"which ends at {high}: if the topic was made anew, call "
                    "ledger.forget(place, group=…)."
                )
            starts[place] = max(position, low)
        return starts

    def leaving(self, places: Collection[TopicPartition], *, lost: bool) -> None:
        going = {place: self._done.pop(place) for place in places if place in self._done}
        if not lost:
            try:
                self._intake.commit(going, wait=True)
            except CommitError as error:
                LOGGER.info("The group's offsets are behind the ledger's: %s", error)

    def _go_back(self, places: Collection[TopicPartition]) -> None:
        """Go on where the ledger says, in partitions that are still ours."""
        for place in places:
            position = self._ledger.position(place, group=self._group)
            if position is not None and place in self._intake.assigned:
                self._intake.seek(place, position)
