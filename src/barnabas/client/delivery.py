"""`Delivery`: what will become of one message, as a value; `Delivered`: what became of it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barnabas.client.errors import ClientError, DeliveryError, TimedOutError, code_of, translated
from barnabas.model.check import require
from barnabas.model.topics import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka

_EVENTS: Final = threading.Lock()
"""Held while an event is made, so that two who wait for one delivery wait for the same event."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """Where a message stands now. With acks=0 the broker says nothing and `offset` is None."""

    topic: str
    partition: int
    offset: int | None
    timestamp: int | None

    @property
    def place(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)


class Delivery:
    """A message on its way: `result()` waits for it, `done()` only looks.

    A failure that nobody asked about is raised by the producer's `flush` or `close`.
    """

    __slots__ = ("_claimed", "_outcome", "_settled_cb", "_waiting", "topic")

    def __init__(self, topic: str, settled: "Callable[[Delivery], None]") -> None:
        self.topic = topic
        self._settled_cb = settled
        self._outcome: Delivered | DeliveryError | None = None
        self._waiting: threading.Event | None = None
        self._claimed = False

    def done(self) -> bool:
        """Whether the broker acknowledged it, or it failed."""
        return self._outcome is not None

    def result(self, timeout: float | None = None) -> Delivered:
        """Where the message stands; raises DeliveryError when it was not acknowledged.

        Raises TimedOutError when `timeout` seconds pass first: the message is still on its way.
        """
        error = self.error(timeout)
        if error is not None:
            raise error
        require(isinstance(self._outcome, Delivered), "a delivery without error has a place")
        return self._outcome  # type: ignore[return-value]

    def error(self, timeout: float | None = None) -> DeliveryError | None:
        """Wait like `result`, and return the error instead of raising it; None when all is well."""
        if self._outcome is None:
            self._wait(timeout)
        self._claimed = True
        return self._outcome if isinstance(self._outcome, DeliveryError) else None

    @property
    def claimed(self) -> bool:
        """Whether somebody asked how it ended."""
        return self._claimed

    @property
    def outcome(self) -> Delivered | DeliveryError | None:
        """How it ended, without waiting; None while it is on its way."""
        return self._outcome

    def _wait(self, timeout: float | None) -> None:
        with _EVENTS:
            waiting = self._waiting = self._waiting or threading.Event()
        # Settled between the look and the event's making: then nobody sets the event.
        if self._outcome is None and not waiting.wait(timeout) and self._outcome is None:
            raise TimedOutError(
                f"The message to {self.topic} is still on its way after {timeout} s; ask again, "
                "or flush().",
                code="TIMED_OUT",
                retriable=True,
            )

    def settle(
        self, error: "confluent_kafka.KafkaError | None", message: "confluent_kafka.Message"
    ) -> None:
        """Called by the client library, once, on the producer's own thread."""
        if error is None:
            self._outcome = delivered(message)
        else:
            self._outcome = not_delivered(error, self.topic)
        if self._waiting is not None:
            self._waiting.set()
        self._settled_cb(self)


def delivered(message: "confluent_kafka.Message") -> Delivered:
    """The place a broker gave."""
    offset = message.offset()
    kind, milliseconds = message.timestamp()
    return Delivered(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=offset if offset is not None and offset >= 0 else None,
        timestamp=milliseconds if kind else None,
    )


def not_delivered(error: "confluent_kafka.KafkaError", topic: str) -> DeliveryError:
    """Why a message was not acknowledged."""
    if code_of(error) in ("PURGE_QUEUE", "PURGE_INFLIGHT"):
        why = ClientError(
            f"The producer was closed before the message to {topic} was acknowledged.",
            code="CLOSED",
        )
    else:
        why = translated(error, f"sending to {topic}")
    return DeliveryError(str(why), code=why.code, retriable=why.retriable, fatal=why.fatal)
