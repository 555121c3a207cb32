"""`barnabas produce`: lines in, messages out."""

import random
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from barnabas.cli.client import (
    DEFAULT_BOOTSTRAP,
    REQUEST_S,
    Bootstrap,
    Properties,
    check_answers,
    errors_as_sentences,
    existing_topics,
    no_such_topic,
    pairs,
    sentence,
    settings,
)
from barnabas.cli.lines import LineRules, NewMessage, messages
from barnabas.cli.moments import parse_moment
from barnabas.cli.output import note
from barnabas.model.errors import BarnabasError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

EXAMPLES: Final = """\b
Examples:
  echo hello | barnabas produce greetings
  barnabas produce greetings --message hello --message 'good night'
  barnabas produce users --key-separator : < users.txt        lines such as 42:Olga
  barnabas produce users --key 42 --null-value '' --message ''   a tombstone
  barnabas produce events --header source=shell --compression zstd --file events.txt
  barnabas consume events --json --until-end | barnabas produce copy --from-json
"""

_TOPIC_WAIT_S: Final = 10.0
_POLL_S: Final = 0.05


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    message: Annotated[
        list[str] | None,
        typer.Option("--message", "-m", help="Send this, instead of lines from stdin."),
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Send the lines of a file.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The key of every message.")] = None,
    key_separator: Annotated[
        str | None, typer.Option(help="What stands before it in a line is the key.")
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(min=0, help="[default: by the key; without one, each in its turn]"),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header of every message.")
    ] = None,
    timestamp: Annotated[
        str | None, typer.Option(help="ISO 8601, or -10m for ten minutes ago.  [default: now]")
    ] = None,
    null_value: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A value that reads so is null.")
    ] = None,
    from_json: Annotated[
        bool,
        typer.Option(
            "--from-json",
            help='Each line is {"key", "value", "headers", "partition", "timestamp"}; only '
            "value is needed.",
        ),
    ] = False,
    acks: Annotated[
        Literal["all", "1", "0"], typer.Option(help="Whose word is waited for.")
    ] = "all",
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"], typer.Option(help="Of batches.")
    ] = "none",
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds a message has to be acknowledged.")
    ] = 30.0,
    properties: Properties = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Send messages to a topic: each line of stdin is one.

    Messages with a key go where Java's client would send them (murmur2); those without one are
    spread over the partitions in turn. Ends with 0 only when every message was acknowledged.
    """
    if key is not None and key_separator is not None:
        raise typer.BadParameter("--key and --key-separator exclude each other.")
    if key_separator == "":
        raise typer.BadParameter("--key-separator can not be empty.")
    rules = LineRules(
        key=None if key is None else _encoded(key),
        key_separator=None if key_separator is None else _encoded(key_separator),
        headers=[(name, _encoded(text)) for name, text in pairs("--header", header).items()],
        partition=partition,
        timestamp=None if timestamp is None else parse_moment(timestamp),
        null_value=None if null_value is None else _encoded(null_value),
        from_json=from_json,
    )
    check_answers(bootstrap)
    with errors_as_sentences():
        sending = _Sending(
            topic,
            settings(bootstrap)
            | {
                "acks": acks,
                # A retry then never makes two of one message, as in Java's client.
                "enable.idempotence": acks == "all",
                "compression.type": compression,
                "message.timeout.ms": int(timeout * 1000),
                "partitioner": "murmur2_random",
            }
            | pairs("-X", properties),
        )
        _send_all(sending, message, file, rules)


def _encoded(text: str) -> bytes:
    # What came from the shell as bytes that are no text goes out as the same bytes.
    return text.encode("utf-8", "surrogateescape")


def _send_all(
    sending: "_Sending", message: list[str] | None, file: str | None, rules: LineRules
) -> None:
    try:
        if message is not None:
            sending.send(messages(map(_encoded, message), rules))
        elif file is not None:
            with open(file, "rb") as lines:
                sending.send(messages(lines, rules))
        else:
            sending.send(messages(sys.stdin.buffer, rules))
    finally:
        # What was read before a bad line is sent all the same, as in any pipe.
        sending.finish()


class _Sending:
    """A producer, the partitions it may use, and what came of each message."""

    def __init__(self, topic: str, config: dict[str, Any]) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        self._producer = Producer(config | {"on_delivery": self._delivered})
        self._count = self._partitions()
        # Each run begins somewhere else, so that many runs of one message spread as well.
        self._turn = random.randrange(self._count)
        self._failed = 0
        self._first_error: KafkaError | None = None

    def _partitions(self) -> int:
        """How many there are. Asking for an unknown topic creates it where brokers allow that."""
        from confluent_kafka import KafkaError

        known = self._topic in existing_topics(self._producer)
        deadline = time.monotonic() + _TOPIC_WAIT_S
        while True:
            found = self._producer.list_topics(self._topic, timeout=REQUEST_S).topics[self._topic]
            if found.error is None:
                break
            if found.error.code() == KafkaError.TOPIC_EXCEPTION:
                raise BarnabasError(f"{self._topic!r} can not be the name of a topic.")
            if time.monotonic() > deadline:
                raise no_such_topic(self._topic)
            time.sleep(_POLL_S)
        if not known:
            note(f"The topic {self._topic} was created by the broker (auto.create.topics.enable).")
        return len(found.partitions)

    def send(self, new: Iterable[NewMessage]) -> None:
        """Hand every message over; the client library sends them in the background."""
        for message in new:
            self._send_one(message)
            self._producer.poll(0)
            if self._first_error is not None:
                # What follows would fare no better; `finish` tells how it stands.
                self._producer.purge()
                return

    def _send_one(self, message: NewMessage) -> None:
        partition = message.partition
        if partition is None:
            partition = self._next_turn() if message.key is None else -1
        elif partition >= self._count or partition < 0:
            raise BarnabasError(
                f"{self._topic} has no partition {partition}: it has {self._count}, counted from 0."
            )
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    message.value,
                    message.key,
                    partition,
                    timestamp=message.timestamp or 0,
                    headers=list(message.headers),
                )
                return
            except BufferError:
                # The library's queue is full; each of its messages ends in time, one way or other.
                self._producer.poll(_POLL_S)

    def _next_turn(self) -> int:
        self._turn = (self._turn + 1) % self._count
        return self._turn

    def _delivered(self, error: "KafkaError | None", _message: "Message") -> None:
        if error is not None:
            self._failed += 1
            self._first_error = self._first_error or error

    def finish(self) -> None:
        """Wait for the last acknowledgement; raise when any is missing."""
        self._producer.flush()
        if self._first_error is not None:
            from confluent_kafka import KafkaException

            why = sentence(KafkaException(self._first_error))
            raise BarnabasError(f"{self._failed} messages were not acknowledged: {why}")
