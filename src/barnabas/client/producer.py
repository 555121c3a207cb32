"""`Producer`: messages out, with what became of each as a value."""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from barnabas.client.delivery import Delivery, not_delivered
from barnabas.client.errors import (
    ClosedError,
    DeliveryError,
    TimedOutError,
    TopicNotFoundError,
    config_error,
    no_such_topic,
    translated,
    translating,
)
from barnabas.client.message import HeadersGiven, header_pairs, payload, to_milliseconds
from barnabas.client.round_robin import RoundRobin
from barnabas.client.settings import DEFAULT_BOOTSTRAP, LOGGER, REQUEST_S, Config, base_config
from barnabas.client.transactions import OpenTransaction, Transactions

if TYPE_CHECKING:
    import confluent_kafka

Acks = Literal["all", 1, 0]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Serializer = Callable[[Any], str | bytes | None]

_TOPIC_WAIT_S: Final = 10.0
"""How long a broker that creates topics by itself may take for it."""
_LOOK_S: Final = 0.05
_POLL_S: Final = 0.2
"""How long the delivery thread waits for one of those under way; each wakes it at once."""
_ROOM_MESSAGES: Final = 50_000
"""Half of what librdkafka queues by default (queue.buffering.max.messages)."""
_BY_KEY: Final = -1
_UNKNOWN: Final = frozenset({"UNKNOWN_PARTITION", "UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PARTITION"})


class Producer:
    """Sends messages; any number of threads may share one.

    A message with a key goes where Java's client would send it (murmur2), one with a `partition`
    goes there, and those with neither go to the partitions in turn.

    `acks` says whose word counts: "all" in-sync replicas, 1 for the leader's, 0 for nobody's.
    `idempotent` (the default with acks="all") makes the broker drop what a retry sent twice.
    `timeout` is how many seconds a message has to be acknowledged before it counts as lost.
    With a `transactional_id`, everything is sent within `with producer.transaction():`, and is seen
    as a whole or not at all. The newest producer of an id fences those before it. The broker
    aborts a transaction that stays open for more than `transaction_timeout` seconds.
    Use it in a `with` block: leaving it waits for every message and raises if one was lost.
    """

    def __init__(
        self,
        bootstrap_servers: str = DEFAULT_BOOTSTRAP,
        *,
        acks: Acks = "all",
        idempotent: bool | None = None,
        compression: Compression = "none",
        linger_ms: float = 5,
        timeout: float = 120.0,
        transactional_id: str | None = None,
        transaction_timeout: float = 60.0,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        config: Config | None = None,
    ) -> None:
        if idempotent and acks != "all":
            config_error('An idempotent producer needs acks="all".')
        if transactional_id is not None and (acks != "all" or idempotent is False):
            config_error('A transactional producer is idempotent and has acks="all".')
        from confluent_kafka import Producer as RawProducer

        settings = {
            "acks": acks,
            "enable.idempotence": acks == "all" if idempotent is None else idempotent,
            "compression.type": compression,
            "linger.ms": linger_ms,
            **_time_limits(timeout, transactional_id, transaction_timeout),
            "partitioner": "murmur2_random",
            "logger": LOGGER,
            **base_config(bootstrap_servers, config),
        }
        with translating("making a producer"):
            self._raw = RawProducer(settings)
        self._transactions = (
            None
            if transactional_id is None
            else Transactions(self._raw, transactional_id, timeout, self._lost_is_taken_back)
        )
        self._serialize_key = key_serializer
        self._serialize_value = value_serializer
        self._turns = RoundRobin(self._writable_partitions)
        self._lost: list[Delivery | DeliveryError] = []
        self._under_way = threading.Event()
        self._closing = False
        self._closed = False
        threading.Thread(
            target=self._serve_deliveries, name="barnabas-deliveries", daemon=True
        ).start()

    def send(
        self,
        topic: str,
        value: object = None,
        *,
        key: object = None,
        partition: int | None = None,
        headers: HeadersGiven | None = None,
        timestamp: int | datetime | None = None,
    ) -> Delivery:
        """Send one message and return at once; `.result()` waits until it is acknowledged.

        Text is sent as UTF-8; None as the value is a tombstone. `timestamp` is milliseconds since
        1970 or a datetime. Waits only while the queue is full or the topic is not known yet;
        raises TopicNotFoundError when there is no such topic and the broker makes none.
        """
        delivery = Delivery(topic, self._settled)
        self._enqueue(topic, value, key, partition, headers, timestamp, delivery.settle)
        return delivery

    def send_to(
        self,
        settled: Callable[[Delivery], None],
        topic: str,
        value: object = None,
        *,
        key: object = None,
        partition: int | None = None,
        headers: HeadersGiven | None = None,
        timestamp: int | datetime | None = None,
    ) -> None:
        """Like `send`, for event loops: `settled` is called on another thread when it is done."""
        delivery = Delivery(topic, settled)
        self._enqueue(topic, value, key, partition, headers, timestamp, delivery.settle)

    def post(
        self,
        topic: str,
        value: object = None,
        *,
        key: object = None,
        partition: int | None = None,
        headers: HeadersGiven | None = None,
        timestamp: int | datetime | None = None,
    ) -> None:
        """Fire and forget, as fast as the broker takes it: waits while the queue is full.

        What was lost is told by the next `flush` or `close`.
        """
        self._enqueue(topic, value, key, partition, headers, timestamp, self._posted)

    def transaction(self) -> OpenTransaction:
        """`with producer.transaction():` commits on leaving, and aborts when an exception leaves.

        Raises TransactionError when it had to be aborted (begin again), ProducerFencedError when
        another producer has the transactional id.
        """
        return OpenTransaction(self.transactions)

    @property
    def transactions(self) -> Transactions:
        """For a consumer whose offsets go with what this producer sends."""
        if self._transactions is None:
            config_error('Transactions need a name that lasts: Producer(transactional_id="…").')
        return self._transactions

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every message so far is acknowledged.

        Raises DeliveryError when one was lost that nobody asked about, and TimedOutError when
        `timeout` seconds were not enough.
        """
        left = self._raw.flush(-1 if timeout is None else timeout)
        if left:
            raise TimedOutError(
                f"{left} messages are not acknowledged after {timeout} s: is the broker up? "
                "flush() again to wait on.",
                code="TIMED_OUT",
                retriable=True,
            )
        self._raise_losses()

    def close(self, timeout: float | None = None) -> None:
        """Flush and let go. What is not acknowledged after `timeout` seconds counts as lost."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._transactions is not None:
                self._transactions.abort()
            if not self._is_over() and self._raw.flush(-1 if timeout is None else timeout):
                self._raw.purge()
                self._raw.flush(REQUEST_S)
        finally:
            self._closing = True
            self._under_way.set()
        if not self._is_over():
            self._raise_losses()

    def partitions(self, topic: str) -> Sequence[int]:
        """The partitions that messages without a key take turns on."""
        return self._turns.partitions(topic)

    def is_ready(self, topic: str) -> bool:
        """Whether sending to the topic would not have to ask a broker about it first."""
        return self._turns.is_known(topic)

    def has_room(self) -> bool:
        """Whether the queue is far from full, so that sending would not wait."""
        return len(self._raw) < _ROOM_MESSAGES

    def __len__(self) -> int:
        """How many messages are on their way."""
        return len(self._raw)

    def __bool__(self) -> bool:
        """A producer with nothing under way is a producer all the same."""
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except DeliveryError as loss:
            if error is None:
                raise
            # The first trouble is the one to show.
            error.add_note(f"On closing the producer: {loss}")

    def _enqueue(
        self,
        topic: str,
        value: object,
        key: object,
        partition: int | None,
        headers: HeadersGiven | None,
        timestamp: int | datetime | None,
        settled: "Callable[[Any, Any], None]",
    ) -> None:
        if self._closed:
            raise ClosedError("This producer is closed: make a new one.", code="CLOSED")
        if self._transactions is not None and not self._transactions.is_open:
            config_error("A transactional producer sends within `with producer.transaction():`.")
        if self._serialize_key is not None:
            key = self._serialize_key(key)
        if self._serialize_value is not None:
            value = self._serialize_value(value)
        # Most values are bytes already, and this is the path that must be quick.
        value_bytes = value if type(value) is bytes else payload("value", value)
        key_bytes = None if key is None else payload("key", key)
        if partition is not None:
            self._check_partition(topic, partition)
        elif key_bytes is None:
            partition = self._turns.next(topic)
        else:
            partition = _BY_KEY
            if not self._turns.is_known(topic):
                self._turns.partitions(topic)
        fields: dict[str, Any] = {"on_delivery": settled}
        if headers:
            fields["headers"] = list(header_pairs(headers))
        if timestamp is not None:
            fields["timestamp"] = (
                timestamp if isinstance(timestamp, int) else to_milliseconds(timestamp)
            )
        while True:
            try:
                self._raw.produce(topic, value_bytes, key_bytes, partition, **fields)
                break
            except BufferError:
                # Each message in the queue ends in time, one way or the other.
                self._raw.poll(_LOOK_S)
            except Exception as error:
                raise self._refused(error, topic) from error
        if not self._under_way.is_set():
            self._under_way.set()

    def _refused(self, error: Exception, topic: str) -> Exception:
        from confluent_kafka import KafkaException

        if not isinstance(error, KafkaException):
            return error
        self._turns.forget(topic)
        return translated(error, f"sending to {topic}")

    def _check_partition(self, topic: str, partition: int) -> None:
        if partition in self._turns.partitions(topic):
            return
        # It may have been added since the broker was asked.
        self._turns.forget(topic)
        known = self._turns.partitions(topic)
        if partition not in known:
            raise TopicNotFoundError(
                f"{topic} has no partition {partition}: it has {len(known)}, counted from 0.",
                code="UNKNOWN_PARTITION",
            )

    def _writable_partitions(self, topic: str) -> Sequence[int]:
        """Those with a leader. Asking for an unknown topic creates it where brokers allow that."""
        deadline = time.monotonic() + _TOPIC_WAIT_S
        while True:
            with translating(f"asking for the partitions of {topic}"):
                found = self._raw.list_topics(topic, timeout=REQUEST_S).topics[topic]
            numbers = sorted(found.partitions)
            if found.error is None and numbers:
                led = [number for number in numbers if found.partitions[number].leader >= 0]
                return led or numbers
            if found.error is not None:
                problem = translated(found.error, f"sending to {topic}")
                if not problem.retriable:
                    raise problem
            if time.monotonic() > deadline:
                raise no_such_topic(topic)
            time.sleep(_LOOK_S)

    def _serve_deliveries(self) -> None:
        """Settle deliveries while there are any; sleep while there are none."""
        from confluent_kafka import KafkaException

        while not self._closing:
            try:
                self._raw.poll(_POLL_S)
            except KafkaException as fatal:
                # Raised once, to whoever polls next; every later send and commit is told by itself.
                LOGGER.info("%s", fatal)
            if not len(self._raw):
                self._under_way.clear()
                # What was queued, or closed, between the look and the clearing wakes us again.
                if len(self._raw) or self._closing:
                    self._under_way.set()
            self._under_way.wait()

    def _posted(
        self,
        error: "confluent_kafka.KafkaError | None",
        message: "confluent_kafka.Message",
    ) -> None:
        if error is not None:
            loss = not_delivered(error, message.topic() or "")
            self._lost.append(loss)
            self._note_failure(message.topic() or "", loss)

    def _settled(self, delivery: Delivery) -> None:
        outcome = delivery.outcome
        if isinstance(outcome, DeliveryError):
            self._lost.append(delivery)
            self._note_failure(delivery.topic, outcome)

    def _is_over(self) -> bool:
        """Nothing is waited for any more: it will not come, and the reason was told."""
        return self._transactions is not None and self._transactions.is_over

    def _lost_is_taken_back(self) -> None:
        """An aborted transaction takes back what was on its way, too."""
        self._lost.clear()

    def _note_failure(self, topic: str, loss: DeliveryError) -> None:
        if loss.code in _UNKNOWN:
            self._turns.forget(topic)

    def _raise_losses(self) -> None:
        lost, self._lost = self._lost, []
        unclaimed = [each for each in lost if isinstance(each, DeliveryError) or not each.claimed]
        if not unclaimed:
            return
        first = unclaimed[0]
        why = first if isinstance(first, DeliveryError) else first.outcome
        if isinstance(why, DeliveryError):
            count = len(unclaimed)
            sentence = str(why) if count == 1 else f"{count} messages were lost; the first: {why}"
            raise DeliveryError(
                sentence, code=why.code, retriable=why.retriable, fatal=why.fatal, lost=count
            )


def _time_limits(
    timeout: float, transactional_id: str | None, transaction_timeout: float
) -> dict[str, Any]:
    if transactional_id is None:
        return {"message.timeout.ms": int(timeout * 1000)}
    # A message may not take longer than its transaction.
    return {
        "message.timeout.ms": int(min(timeout, transaction_timeout) * 1000),
        "transactional.id": transactional_id,
        "transaction.timeout.ms": int(transaction_timeout * 1000),
        # Otherwise librdkafka (2.16) can wait for ever for offsets to be taken: after a restart it
        # forgets the broker that it has just sent them to.
        "metadata.recovery.strategy": "none",
        # It also waits for a coordinator that was restarted until some connection comes or goes
        # (its issue 5511): while it waits all are idle, and so one goes.
        "connections.max.idle.ms": 10_000,
    }
