"""`Intake`: the client library's consumer, its assignment, and what it fetched ahead.

Messages wait here, never longer than the group may have to wait for us: the library is asked
again every moment, so that heartbeats, rebalances and seeks are served in between.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from barnabas.client.admin import Questions
from barnabas.client.errors import (
    ClientError,
    ClosedError,
    CommitError,
    TopicNotFoundError,
    code_of,
    no_such_topic,
    translated,
    translating,
)
from barnabas.client.settings import LOGGER, REQUEST_S
from barnabas.model.topics import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka

_AHEAD_MESSAGES: Final = 500
"""How many messages are taken from the library at once."""
_SERVE_S: Final = 0.25
"""How old the last look at the library may be when a message is handed out."""
_RETRY_S: Final = 0.05
_PASSING: Final = frozenset(
    {
        "ALL_BROKERS_DOWN", "TRANSPORT", "RESOLVE", "TIMED_OUT", "TIMED_OUT_QUEUE",
        "PARTITION_EOF", "WAIT_COORD", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR",
        "COORDINATOR_LOAD_IN_PROGRESS",
    }
)  # fmt: skip
"""The library tries again by itself."""
MOVED_ON: Final = frozenset(
    {
        "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "STALE_MEMBER_EPOCH",
        "ASSIGNMENT_LOST", "FENCED_MEMBER_EPOCH",
    }
)  # fmt: skip
"""The group has divided its partitions anew; these offsets are another member's business now."""


@dataclass(frozen=True, slots=True)
class Rebalance:
    """What the group gave or took. "lost": taken without notice; nothing can be committed."""

    kind: Literal["assigned", "revoked", "lost"]
    partitions: tuple[TopicPartition, ...]


class Listener(Protocol):
    """Who is told when partitions come and go; called while the library is being asked."""

    def starting(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Partitions come; the offsets where to begin, where it is not the group's to say."""

    def leaving(self, places: Collection[TopicPartition], *, lost: bool) -> None:
        """Partitions go."""


class Intake:
    """One consumer of the client library. Made for one thread at a time."""

    def __init__(
        self,
        settings: dict[str, Any],
        on_rebalance: Callable[[Rebalance], None] | None,
        questions: Callable[[], Questions],
    ) -> None:
        from confluent_kafka import Consumer as RawConsumer

        strategy = str(settings.get("partition.assignment.strategy", ""))
        self._incremental = (
            strategy.startswith("cooperative") or settings.get("group.protocol") == "consumer"
        )
        with translating("making a consumer"):
            self._raw = RawConsumer(settings | {"on_commit": self._committed_later})
        self._on_rebalance = on_rebalance
        self._make_questions = questions
        self._listener: Listener | None = None
        self._ahead: deque[confluent_kafka.Message] = deque()
        self._polled_at = 0.0
        self._failed: dict[TopicPartition, int] = {}
        self.assigned: set[TopicPartition] = set()
        self.paused: set[TopicPartition] = set()
        self.closed = False

    def subscribe(self, topics: Sequence[str], listener: Listener) -> None:
        """Join the group."""
        self._listener = listener
        with translating("subscribing"):
            self._raw.subscribe(
                list(topics),
                on_assign=self._on_assign,
                on_revoke=lambda _, places: self._on_leave(places, lost=False),
                on_lost=lambda _, places: self._on_leave(places, lost=True),
            )

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets, whatever a group says."""
        with translating("assigning partitions"):
            self._raw.assign([raw_place(place, offset) for place, offset in starts.items()])
        self.assigned = set(starts)

    def receive(
        self, size: int, timeout: float, linger: float, stopped: Callable[[], bool]
    ) -> "list[confluent_kafka.Message]":
        """Up to `size` messages, `linger` seconds after the first; none when none came in time.

        All wait here until then, so that those of partitions that go meanwhile are not among them:
        they are another member's, who would hand them out as well.
        """
        if not self.is_served():
            self._pump(0)
        if not self._ready(1):
            self._pump(timeout)
        if self._ready(1):
            full_at = time.monotonic() + linger
            while not self._ready(size) and not stopped():
                left = full_at - time.monotonic()
                if left <= 0:
                    break
                self._pump(min(_SERVE_S, left))
        return list(islice(iter(self.at_hand, None), size))

    def _ready(self, count: int) -> bool:
        """Whether so many can be handed out."""
        if not self.paused:
            return len(self._ahead) >= count
        return sum(_place(raw) not in self.paused for raw in self._ahead) >= count

    def is_served(self) -> bool:
        """Whether the library was asked lately, and need not be asked before the next message."""
        return time.monotonic() - self._polled_at <= _SERVE_S

    def has_ahead(self) -> bool:
        """Whether a message that was fetched already can be handed out."""
        return self._ready(1)

    def at_hand(self) -> "confluent_kafka.Message | None":
        """The next message, if it was fetched already."""
        if not self.paused:
            return self._ahead.popleft() if self._ahead else None
        for index, raw in enumerate(self._ahead):
            if _place(raw) not in self.paused:
                del self._ahead[index]
                return raw
        return None

    def await_assignment(self, timeout: float) -> None:
        """Ask the library until it has partitions; what comes meanwhile waits."""
        deadline = time.monotonic() + timeout
        while not self.assigned:
            if time.monotonic() > deadline:
                raise ClientError(
                    f"The group gave this consumer no partition within {timeout} s: it may have "
                    "more members than the topics have partitions.",
                    code="NOT_ASSIGNED",
                    retriable=True,
                )
            self._pump(_RETRY_S)

    def seek(self, place: TopicPartition, offset: int, timeout: float = REQUEST_S) -> None:
        """Go on from there; what was fetched ahead is dropped."""
        from confluent_kafka import KafkaError, KafkaException

        self._drop([place])
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._raw.seek(raw_place(place, offset))
                return
            except KafkaException as error:
                # A partition that was just assigned does not fetch yet.
                if error.args[0].code() != KafkaError._STATE or time.monotonic() > deadline:
                    raise translated(error, f"seeking in {place.topic}") from error
            self._pump(_RETRY_S)
            self._drop([place])

    def pause(self, places: Collection[TopicPartition]) -> None:
        """Hand out nothing of these."""
        with translating("pausing"):
            self._raw.pause([raw_place(place) for place in places])
        self.paused.update(places)

    def resume(self, places: Collection[TopicPartition]) -> None:
        """Hand out these again."""
        with translating("resuming"):
            self._raw.resume([raw_place(place) for place in places])
        self.paused.difference_update(places)

    def commit(self, offsets: Mapping[TopicPartition, int], *, wait: bool) -> None:
        """Tell the group. Without `wait`, a failure is logged and kept for `take_failed`."""
        from confluent_kafka import KafkaException

        if not offsets:
            return
        named = [raw_place(place, offset) for place, offset in offsets.items()]
        try:
            if not wait:
                self._raw.commit(offsets=named, asynchronous=True)
                return
            answers = self._raw.commit(offsets=named, asynchronous=False)
        except KafkaException as error:
            raise commit_error(error.args[0]) from error
        for answer in answers:
            if answer.error is not None:
                raise commit_error(answer.error)
        for place in offsets:
            self._failed.pop(place, None)

    def take_failed(self) -> dict[TopicPartition, int]:
        """Offsets whose commit was not waited for and failed: they are due again."""
        failed, self._failed = self._failed, {}
        return {place: offset for place, offset in failed.items() if place in self.assigned}

    def committed(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int | None]:
        """What the group has committed."""
        with translating("asking for committed offsets"):
            found = self._raw.committed([raw_place(place) for place in places], timeout=REQUEST_S)
        return {
            TopicPartition(each.topic, each.partition): each.offset if each.offset >= 0 else None
            for each in found
        }

    @cached_property
    def questions(self) -> Questions:
        """Who answers about the ends of partitions; made when first asked."""
        return self._make_questions()

    def ends(self, place: TopicPartition) -> tuple[int, int]:
        """The earliest offset and the one after the last."""
        return self.questions.ends([place])[place]

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Those a topic has."""
        with translating(f"asking for the partitions of {topic}"):
            found = self._raw.list_topics(topic, timeout=REQUEST_S).topics[topic]
        if found.error is not None or not found.partitions:
            raise no_such_topic(topic)
        return [TopicPartition(topic, number) for number in sorted(found.partitions)]

    def group_metadata(self) -> Any:
        """Who this consumer is in its group, for a producer that commits its offsets."""
        return self._raw.consumer_group_metadata()

    def member_id(self) -> str:
        """The name the group knows this consumer by."""
        return self._raw.memberid()

    def close(self) -> None:
        """Leave the group."""
        if not self.closed:
            with translating("closing the consumer"):
                self._raw.close()
            self.closed = True

    def _pump(self, timeout: float) -> None:
        """Ask the library once, and take what it has fetched; may call the listener."""
        if self.closed:
            raise ClosedError("This consumer is closed: make a new one.", code="CLOSED")
        first = self._raw.poll(timeout)
        self._polled_at = time.monotonic()
        if first is None:
            return
        error = first.error()
        if error is not None:
            problem = self._problem(error)
            if problem is not None:
                raise problem
            return
        # It waits with the others before the library is asked again, which may take its partition.
        self._ahead.append(first)
        self._take(self._raw.consume(_AHEAD_MESSAGES - 1, 0))

    def _take(self, fetched: "Iterable[confluent_kafka.Message]") -> None:
        problem: ClientError | None = None
        for raw in fetched:
            error = raw.error()
            if error is None:
                self._ahead.append(raw)
            else:
                problem = problem or self._problem(error)
        if problem is not None:
            raise problem

    def _problem(self, error: "confluent_kafka.KafkaError") -> ClientError | None:
        code = code_of(error)
        if code in _PASSING and not error.fatal():
            LOGGER.info("%s", error.str())
            return None
        if code == "MAX_POLL_EXCEEDED":
            LOGGER.warning(
                "The loop took longer than max.poll.interval.ms for a message: the group gave this "
                "consumer's partitions away; it joins again now."
            )
            # They may be another member's by now, though we are not told before the next look.
            self._ahead.clear()
            return None
        problem = translated(error, "consuming")
        if isinstance(problem, TopicNotFoundError):
            return TopicNotFoundError(
                f"{error.str().rstrip('.')}: Admin().create_topic(name) makes a topic.",
                code=code,
                retriable=True,
            )
        return problem

    def _on_assign(self, _: Any, raw_places: "list[confluent_kafka.TopicPartition]") -> None:
        places = [TopicPartition(each.topic, each.partition) for each in raw_places]
        starts = self._listener.starting(places) if self._listener is not None else {}
        if starts:
            for each in raw_places:
                each.offset = starts.get(TopicPartition(each.topic, each.partition), each.offset)
            if self._incremental:
                self._raw.incremental_assign(raw_places)
            else:
                self._raw.assign(raw_places)
        self.assigned.update(places)
        self.paused.difference_update(places)
        self._tell("assigned", places)

    def _on_leave(self, raw_places: "list[confluent_kafka.TopicPartition]", *, lost: bool) -> None:
        places = [TopicPartition(each.topic, each.partition) for each in raw_places]
        self._drop(places)
        if self._listener is not None:
            self._listener.leaving(places, lost=lost)
        self._tell("lost" if lost else "revoked", places)
        self.assigned.difference_update(places)
        self.paused.difference_update(places)

    def _tell(
        self, kind: Literal["assigned", "revoked", "lost"], places: Iterable[TopicPartition]
    ) -> None:
        if self._on_rebalance is not None:
            self._on_rebalance(Rebalance(kind, tuple(sorted(places))))

    def _drop(self, places: Collection[TopicPartition]) -> None:
        self._ahead = deque(raw for raw in self._ahead if _place(raw) not in places)

    def _committed_later(
        self,
        error: "confluent_kafka.KafkaError | None",
        raw_places: "list[confluent_kafka.TopicPartition]",
    ) -> None:
        for each in raw_places:
            failure = error or each.error
            place = TopicPartition(each.topic, each.partition)
            if failure is None:
                # A later commit went through: an earlier one must not be repeated after it.
                self._failed.pop(place, None)
            elif place in self.assigned:
                LOGGER.warning("The offset of %s was not committed: %s", place, failure.str())
                self._failed[place] = each.offset


def raw_place(place: TopicPartition, offset: int | None = None) -> "confluent_kafka.TopicPartition":
    """A place as the library writes it."""
    from confluent_kafka import TopicPartition as RawPlace

    if offset is None:
        return RawPlace(place.topic, place.partition)
    return RawPlace(place.topic, place.partition, offset)


def _place(raw: "confluent_kafka.Message") -> TopicPartition:
    return TopicPartition(raw.topic() or "", raw.partition() or 0)


def commit_error(error: "confluent_kafka.KafkaError") -> CommitError:
    """Why offsets were not committed, and what that means."""
    why = translated(error, "committing")
    return CommitError(
        f"{str(why).rstrip('.')}. The messages since the last commit may be delivered again.",
        code=why.code,
        retriable=why.retriable,
        fatal=why.fatal,
    )
