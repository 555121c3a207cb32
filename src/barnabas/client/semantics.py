"""How a message may be delivered: what is committed when, and what happens when partitions go.

One class for each promise, all with the same steps: `came_back` (the loop asks for more, so what
it was given is done), `admit` (before messages are handed out), `tend` (whenever there is time),
`starting` and `leaving` (partitions come and go), `abandon` (a loop was left and another begins)
and `finish` (the consumer closes).
"""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from barnabas.client.errors import CommitError, config_error
from barnabas.client.intake import MOVED_ON, Intake, Listener
from barnabas.client.message import Message, message_from
from barnabas.client.settings import LOGGER
from barnabas.model.topics import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka

Delivery = Literal["at-most-once", "at-least-once", "exactly-once"]


class Semantics(Listener, Protocol):
    """The steps of a promise."""

    def came_back(self) -> None:
        """The loop asks for more: what it was given is done."""

    def admit(self, raw: "Sequence[confluent_kafka.Message]") -> list[Message]:
        """What of these may be handed out now."""

    def is_quick(self) -> bool:
        """Whether the next steps would wait for nobody."""

    def tend(self) -> None:
        """Commit what is due."""

    def commit(self, message: Message | None, *, wait: bool) -> None:
        """As the user asks."""

    def moved(self, place: TopicPartition, offset: int) -> None:
        """The user went elsewhere in a partition."""

    def abandon(self) -> None:
        """A loop was left in the middle, and another begins."""

    def give_back(self, firsts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """What was handed out last was seen by nobody. Where partitions go on: where that began,
        or where what has to be undone with it did."""

    def finish(self) -> None:
        """The last step."""


class Unshared:
    """No group: nothing is committed, everything is handed out."""

    def came_back(self) -> None:
        """Nothing is kept."""

    def admit(self, raw: "Sequence[confluent_kafka.Message]") -> list[Message]:
        return [message_from(each) for each in raw]

    def is_quick(self) -> bool:
        return True

    def tend(self) -> None:
        """Nothing is due."""

    def commit(self, message: Message | None, *, wait: bool) -> None:
        del message, wait
        config_error('A consumer without a group has nothing to commit to: give it group="…".')

    def moved(self, place: TopicPartition, offset: int) -> None:
        """Nothing is kept."""

    def abandon(self) -> None:
        """Nothing is kept."""

    def give_back(self, firsts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return firsts

    def finish(self) -> None:
        """Nothing is kept."""

    def starting(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        del places
        return {}

    def leaving(self, places: Collection[TopicPartition], *, lost: bool) -> None:
        """Nothing is kept."""


class AtLeastOnce(Unshared):
    """Commits what is done, every `interval_s` seconds or `every` messages; never loses.

    A message is done when the loop comes back for the next. Those of a loop that was left are
    given out again.
    """

    def __init__(self, intake: Intake, *, interval_s: float, every: int | None) -> None:
        self._intake = intake
        self._interval_s = interval_s
        self._every = every
        self._handed: dict[TopicPartition, tuple[int, int]] = {}
        """First offset given out and not known to be done, and the one after the last."""
        self._done: dict[TopicPartition, int] = {}
        self._sent: dict[TopicPartition, int] = {}
        """Commits that nobody waited for: whether they were taken is not known."""
        self._done_count = 0
        self._handed_count = 0
        self._committed_at = time.monotonic()

    def came_back(self) -> None:
        for place, (_, after) in self._handed.items():
            self._done[place] = after
        self._handed.clear()
        self._done_count += self._handed_count
        self._handed_count = 0

    def admit(self, raw: "Sequence[confluent_kafka.Message]") -> list[Message]:
        messages = [message_from(each) for each in raw]
        for message in messages:
            first, _ = self._handed.get(message.place, (message.offset, 0))
            self._handed[message.place] = (first, message.offset + 1)
        self._handed_count += len(messages)
        return messages

    def is_quick(self) -> bool:
        return not self._is_due(self._handed_count)

    def _is_due(self, coming: int = 0) -> bool:
        if self._every is not None and self._done_count + coming >= self._every:
            return True
        return time.monotonic() - self._committed_at >= self._interval_s

    def tend(self) -> None:
        if not self._is_due():
            return
        self._done = self._intake.take_failed() | self._done
        if self._done:
            self._send(self._done, wait=False)
            self._done = {}
            self._done_count = 0

    def commit(self, message: Message | None, *, wait: bool) -> None:
        if message is None:
            self.came_back()
            self._send(self._done, wait=wait)
            self._done = {}
            self._done_count = 0
            return
        self._send({message.place: message.offset + 1}, wait=wait)
        self._done.pop(message.place, None)
        first, after = self._handed.get(message.place, (0, 0))
        if message.offset >= first:
            self._handed[message.place] = (message.offset + 1, after)
        if message.offset + 1 >= after:
            self._handed.pop(message.place, None)

    def moved(self, place: TopicPartition, offset: int) -> None:
        self._handed.pop(place, None)
        self._done[place] = offset

    def abandon(self) -> None:
        handed, self._handed, self._handed_count = self._handed, {}, 0
        for place, (first, _) in handed.items():
            if place in self._intake.assigned:
                self._intake.seek(place, first)

    def give_back(self, firsts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self._handed, self._handed_count = {}, 0
        return firsts

    def finish(self) -> None:
        self._send_last(self._intake.take_failed() | self._sent | self._done)
        self._done = {}

    def leaving(self, places: Collection[TopicPartition], *, lost: bool) -> None:
        known = self._sent | self._done
        going = {place: known[place] for place in places if place in known}
        for place in places:
            self._done.pop(place, None)
            self._sent.pop(place, None)
            self._handed.pop(place, None)
        if not lost:
            self._send_last(going)

    def _send(self, offsets: Mapping[TopicPartition, int], *, wait: bool) -> None:
        self._committed_at = time.monotonic()
        self._intake.commit(offsets, wait=wait)
        if not wait:
            self._sent |= offsets
            return
        for place in offsets:
            self._sent.pop(place, None)

    def _send_last(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit and wait; when the group has moved on, the messages are delivered again."""
        try:
            self._send(offsets, wait=True)
        except CommitError as error:
            if error.code not in MOVED_ON:
                raise
            LOGGER.info("%s", error)


class Manual(AtLeastOnce):
    """Commits when told to, and only then."""

    def __init__(self, intake: Intake) -> None:
        super().__init__(intake, interval_s=float("inf"), every=None)

    def tend(self) -> None:
        """Nothing is ever due."""

    def abandon(self) -> None:
        """Leaving a loop says nothing: only commits count."""

    def finish(self) -> None:
        """Only commits count."""

    def leaving(self, places: Collection[TopicPartition], *, lost: bool) -> None:
        del lost
        for place in places:
            self._done.pop(place, None)
            self._handed.pop(place, None)


class AtMostOnce(Unshared):
    """Commits before it hands out; never repeats."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    def admit(self, raw: "Sequence[confluent_kafka.Message]") -> list[Message]:
        messages = [message_from(each) for each in raw]
        firsts = {message.place: message.offset for message in reversed(messages)}
        try:
            self._intake.commit(
                {message.place: message.offset + 1 for message in messages}, wait=True
            )
        except CommitError as error:
            # Nobody has seen them: whoever owns the partition next may.
            for place, first in firsts.items():
                if place in self._intake.assigned:
                    self._intake.seek(place, first)
            if error.code not in MOVED_ON:
                raise
            return []
        return messages

    def is_quick(self) -> bool:
        return False

    def commit(self, message: Message | None, *, wait: bool) -> None:
        del message, wait
        config_error("An at-most-once consumer has committed before it handed the message out.")

    def moved(self, place: TopicPartition, offset: int) -> None:
        self._intake.commit({place: offset}, wait=True)


def chosen_semantics(
    intake: Intake,
    *,
    delivery: Delivery,
    commit: Literal["auto", "manual"],
    group: str | None,
    ledger: Any,
    producer: Any,
    start: Literal["earliest", "latest"],
    interval_s: float,
    every: int | None,
) -> Semantics:
    """The steps for a consumer's arguments, which have been checked."""
    if delivery == "exactly-once" and producer is not None:
        from barnabas.client.exactly_once_copy import ExactlyOnceCopy

        return ExactlyOnceCopy(intake, producer.transactions, interval_s=interval_s, every=every)
    if delivery == "exactly-once" and group is not None:
        from barnabas.client.exactly_once import ExactlyOnce

        return ExactlyOnce(intake, ledger, group, start, interval_s=interval_s)
    if group is None:
        return Unshared()
    if delivery == "at-most-once":
        return AtMostOnce(intake)
    if commit == "manual":
        return Manual(intake)
    return AtLeastOnce(intake, interval_s=interval_s, every=every)
