"""`Consumer`: messages in, with a choice of how often each may be delivered."""

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, Literal, Self

from barnabas.client.admin import Isolation, Questions
from barnabas.client.errors import config_error
from barnabas.client.intake import Intake, Rebalance
from barnabas.client.ledger.base import Ledger
from barnabas.client.message import Message, to_milliseconds
from barnabas.client.producer import Producer
from barnabas.client.semantics import Delivery, chosen_semantics
from barnabas.client.settings import DEFAULT_BOOTSTRAP, LOGGER, REQUEST_S, Config, base_config
from barnabas.model.topics import TopicPartition

Commit = Literal["auto", "manual"]
Protocol = Literal["classic", "consumer"]
Start = Literal["earliest", "latest"]
Place = TopicPartition | tuple[str, int]
Moment = Literal["beginning", "end"] | int | datetime | timedelta
"""A point in a partition: an end, an offset, a time, or how long ago."""

_SLICE_S: Final = 0.25
"""How long one look may take: a signal or `stop()` is noticed after that."""
_BEGINNING: Final = -2
_END: Final = -1
_COMMITTED: Final = -1001
"""librdkafka's way to write these offsets."""


class Consumer:
    """Reads topics: `for message in consumer`. One thread at a time may use it.

    With a `group`, its members divide the partitions and the group remembers how far it is;
    without one, this consumer reads all partitions of its topics from `start`. `assign` names
    partitions instead of topics.

    `delivery` says how often a message may be handed out when something crashes:

    * "at-least-once" (the default): never lost. A message is done when the loop comes back for
      the next; what is done is committed every `commit_interval` seconds or `commit_every`
      messages, when partitions go, and on closing. `commit="manual"`: only by `commit()`.
    * "at-most-once": never repeated. Committed before it is handed out.
    * "exactly-once": neither. With a `ledger`, for effects in a database: they go through
      `message.transaction`, which commits together with the position when the loop comes back.
      With a `producer` that has a transactional_id, for messages to other topics: what the loop
      sends by it commits together with the position, many messages at a time.

    Leaving a loop by `break` or an exception leaves its last message undone: the next loop, or the
    next consumer, gets it again. Call `commit()` first when it is done.

    `timeout` ends a loop when no message comes for so many seconds. `start` is where a group
    begins that has committed nothing. Any setting of librdkafka can be given in `config`.
    """

    def __init__(
        self,
        topics: str | Iterable[str] | None = None,
        group: str | None = None,
        bootstrap_servers: str = DEFAULT_BOOTSTRAP,
        *,
        assign: Iterable[Place] | None = None,
        delivery: Delivery = "at-least-once",
        commit: Commit = "auto",
        commit_interval: float = 5.0,
        commit_every: int | None = None,
        ledger: Ledger[Any] | None = None,
        producer: Producer | None = None,
        start: Start = "earliest",
        timeout: float | None = None,
        isolation: Isolation = "read_committed",
        protocol: Protocol = "classic",
        instance_id: str | None = None,
        on_rebalance: Callable[[Rebalance], None] | None = None,
        config: Config | None = None,
    ) -> None:
        named = [topics] if isinstance(topics, str) else list(topics or ())
        places = [TopicPartition(*each) for each in assign or ()]
        _check(named, places, group, delivery, commit, ledger, producer)
        self.group = group
        self.timeout = timeout
        self._start = start
        self._stopped = threading.Event()
        self._positions: dict[TopicPartition, int] = {}
        self._last: list[Message] = []
        settings = _settings(bootstrap_servers, group, start, isolation, protocol, instance_id)
        self._intake = Intake(
            settings | dict(config or {}),
            self._rebalanced,
            lambda: Questions(bootstrap_servers, config, isolation),
        )
        self._on_rebalance = on_rebalance
        self._semantics = chosen_semantics(
            self._intake,
            delivery=delivery,
            commit=commit,
            group=group,
            ledger=ledger,
            producer=producer,
            start=start,
            interval_s=commit_interval,
            every=commit_every,
        )
        self._begin(named, places)

    def _begin(self, topics: list[str], places: list[TopicPartition]) -> None:
        if self.group is not None and topics:
            self._intake.subscribe(topics, self._semantics)
            return
        try:
            if not places:
                places = [place for topic in topics for place in self._intake.partitions(topic)]
            nowhere = _BEGINNING if self._start == "earliest" else _END
            start = nowhere if self.group is None else _COMMITTED
            starts = dict.fromkeys(places, start) | dict(self._semantics.starting(places))
            self._intake.assign(starts)
        except BaseException:
            self._intake.close()
            raise

    def __iter__(self) -> Iterator[Message]:
        """Hand out messages until `stop()`, or until none comes for `timeout` seconds."""
        self.abandon()
        while (message := self.poll_at_hand() or self.poll(self.timeout)) is not None:
            yield message

    def batches(self, size: int = 500, *, linger: float = 0.1) -> Iterator[list[Message]]:
        """Hand out lists: when `size` messages are there, or `linger` seconds after the first.

        A list is done, committed or in a transaction as a whole.
        """
        self.abandon()
        while batch := self.poll_batch(size, linger=linger, timeout=self.timeout):
            yield batch

    def poll(self, timeout: float | None = None) -> Message | None:
        """The next message; None after `timeout` seconds or `stop()`. Calls the last one done."""
        batch = self.poll_batch(1, linger=0, timeout=timeout)
        return batch[0] if batch else None

    def poll_batch(
        self, size: int, *, linger: float = 0.1, timeout: float | None = None
    ) -> list[Message]:
        """The next messages, as `batches` gives them; none after `timeout` seconds or `stop()`."""
        self._semantics.came_back()
        deadline = None if timeout is None else time.monotonic() + timeout
        stopped = self._stopped.is_set
        while not stopped():
            self._semantics.tend()
            left = _SLICE_S if deadline is None else deadline - time.monotonic()
            gathered = self._intake.receive(size, max(0.0, min(_SLICE_S, left)), linger, stopped)
            if gathered:
                messages = self._semantics.admit(gathered)
                if messages:
                    return self._handed(messages)
            elif deadline is not None and time.monotonic() >= deadline:
                break
        return []

    def poll_at_hand(self) -> Message | None:
        """The next message if it can be had without waiting for anything; else None.

        None says nothing about whether there are more, and calls nothing done.
        """
        if self._stopped.is_set() or not self._semantics.is_quick():
            return None
        if not self._intake.is_served():
            return None
        raw = self._intake.at_hand()
        if raw is None:
            return None
        self._semantics.came_back()
        messages = self._semantics.admit([raw])
        return self._handed(messages)[0] if messages else None

    def _handed(self, messages: list[Message]) -> list[Message]:
        for message in messages:
            self._positions[message.place] = message.offset + 1
        self._last = messages
        return messages

    def abandon(self) -> None:
        """What was handed out last is not done: it comes again. Every new loop begins with this."""
        self._semantics.abandon()

    def give_back(self) -> None:
        """What was handed out last was seen by nobody: it comes again, and no commit counts it."""
        last, self._last = self._last, []
        firsts = {each.place: each.offset for each in reversed(last)}
        for place, first in self._semantics.give_back(firsts).items():
            if place in self._intake.assigned:
                self._intake.seek(place, first)
                self._positions[place] = first

    @property
    def is_stopped(self) -> bool:
        """Whether `stop()` was called."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """End the loop after the current message; from any thread, or from a signal handler."""
        self._stopped.set()

    def commit(self, message: Message | None = None, *, wait: bool = True) -> None:
        """Remember that everything handed out is done, or what stands up to `message`.

        With exactly-once: commit the open transaction now. Raises CommitError when it failed.
        """
        self._semantics.commit(message, wait=wait)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on with this offset of this partition; one out of range means the nearest there is."""
        self._move(self._ours((topic, partition)), offset)

    def rewind(
        self, to: Moment = "beginning", *, partitions: Iterable[Place] | None = None
    ) -> None:
        """Go back: to the beginning, an offset, a time, or a timedelta ago.

        Concerns all assigned partitions, or those named. The group remembers it with the next
        commit, so that the messages in between come again even after a crash.
        """
        if isinstance(to, timedelta):
            to = datetime.now(UTC) - to
        for place in self._chosen(partitions):
            self._move(place, to)

    def skip(
        self,
        count: int | None = None,
        *,
        to: Literal["end"] | None = None,
        partitions: Iterable[Place] | None = None,
    ) -> None:
        """Leave out `count` offsets of each partition, or all there are: `skip(to="end")`."""
        if (count is None) == (to is None):
            config_error('skip takes a count or to="end".')
        places = self._chosen(partitions)
        positions = {} if count is None else self._position(places)
        for place in places:
            self._move(place, "end" if count is None else positions[place] + count)

    def pause(self, partitions: Iterable[Place] | None = None) -> None:
        """Hand out nothing of these partitions (all, when none is named) until `resume`."""
        self._intake.pause(self._chosen(partitions))

    def resume(self, partitions: Iterable[Place] | None = None) -> None:
        """Hand out messages of these partitions again."""
        self._intake.resume(self._chosen(partitions))

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions this consumer reads now."""
        return frozenset(self._intake.assigned)

    @property
    def member_id(self) -> str:
        """The name the group gave this consumer; "" while it has none."""
        return "" if self.group is None else self._intake.member_id()

    def position(self) -> dict[TopicPartition, int]:
        """The next offset of each assigned partition."""
        return self._position(self._intake.assigned)

    def committed(self) -> dict[TopicPartition, int | None]:
        """What the group remembers of each assigned partition; None where it knows nothing."""
        if self.group is None:
            config_error('A consumer without a group commits nothing: give it group="…".')
        return self._intake.committed(self._intake.assigned)

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets of each assigned partition have not been handed out."""
        positions = self.position()
        ends = self._intake.questions.ends(positions)
        return {place: max(0, ends[place][1] - at) for place, at in positions.items()}

    def close(self) -> None:
        """Commit what is done and leave the group. The message in hand is not done."""
        if self._intake.closed:
            return
        try:
            self._semantics.finish()
        finally:
            self._intake.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _rebalanced(self, rebalance: Rebalance) -> None:
        for place in rebalance.partitions:
            self._positions.pop(place, None)
        if self._on_rebalance is not None:
            self._on_rebalance(rebalance)

    def _chosen(self, partitions: Iterable[Place] | None) -> list[TopicPartition]:
        self._intake.await_assignment(REQUEST_S)
        if partitions is None:
            return sorted(self._intake.assigned)
        return [self._ours(each) for each in partitions]

    def _ours(self, place: Place) -> TopicPartition:
        self._intake.await_assignment(REQUEST_S)
        found = TopicPartition(*place)
        if found not in self._intake.assigned:
            config_error(
                f"{found.topic} [{found.partition}] is not assigned to this consumer; "
                "`assignment` tells what is."
            )
        return found

    def _move(
        self, place: TopicPartition, to: Literal["beginning", "end"] | int | datetime
    ) -> None:
        low, high = self._intake.ends(place)
        if isinstance(to, int):
            wanted: int | None = to
        elif isinstance(to, datetime):
            wanted = self._intake.questions.offset_at(place, to_milliseconds(to))
        elif to in ("beginning", "end"):
            wanted = low if to == "beginning" else high
        else:
            config_error('rewind takes "beginning", "end", an offset, a datetime or a timedelta.')
        # Out of range, the broker would send us to `start`, which may be the other end.
        offset = high if wanted is None else min(max(wanted, low), high)
        self._semantics.moved(place, offset)
        self._intake.seek(place, offset)
        self._positions[place] = offset

    def _position(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        unknown = [place for place in places if place not in self._positions]
        committed = self._intake.committed(unknown) if unknown and self.group is not None else {}
        found = {}
        for place in places:
            position = self._positions.get(place)
            if position is None:
                position = committed.get(place)
            if position is None:
                position = self._intake.ends(place)[0 if self._start == "earliest" else 1]
            found[place] = position
        return found


def _check(
    topics: list[str],
    places: list[TopicPartition],
    group: str | None,
    delivery: str,
    commit: str,
    ledger: object,
    producer: object,
) -> None:
    if bool(topics) == bool(places):
        config_error("A consumer needs topics, or partitions to `assign`, and not both.")
    if delivery not in ("at-most-once", "at-least-once", "exactly-once"):
        config_error(
            f'delivery is "at-most-once", "at-least-once" or "exactly-once", not {delivery!r}.'
        )
    if commit not in ("auto", "manual"):
        config_error(f'commit is "auto" or "manual", not {commit!r}.')
    if group == "":
        config_error("The name of a group can not be empty.")
    if group is None and (delivery != "at-least-once" or commit == "manual"):
        config_error(f'{delivery} needs a name to remember by: give the consumer group="…".')
    if commit == "manual" and delivery != "at-least-once":
        config_error(f'commit="manual" goes with delivery="at-least-once", not with {delivery}.')
    if (delivery == "exactly-once") != ((ledger is None) != (producer is None)):
        config_error(
            'delivery="exactly-once" needs, and only it takes, one of two: a ledger such as '
            'SqliteLedger("app.db") for effects in a database, or a producer with a '
            "transactional_id for messages to other topics."
        )


def _settings(
    bootstrap_servers: str,
    group: str | None,
    start: Start,
    isolation: Isolation,
    protocol: Protocol,
    instance_id: str | None,
) -> dict[str, Any]:
    settings = {
        **base_config(bootstrap_servers, None),
        # The library wants a name even where nothing is ever committed by it.
        "group.id": group if group is not None else f"barnabas-reader-{uuid.uuid4()}",
        "auto.offset.reset": start,
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "group.protocol": protocol,
        "logger": LOGGER,
    }
    if instance_id is not None:
        settings["group.instance.id"] = instance_id
    return settings
