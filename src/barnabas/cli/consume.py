"""`barnabas consume`: messages in, lines out."""

import sys
import time
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from barnabas.cli.client import (
    DEFAULT_BOOTSTRAP,
    REQUEST_S,
    Bootstrap,
    Properties,
    check_answers,
    errors_as_sentences,
    existing_topic,
    pairs,
    settings,
)
from barnabas.cli.ending import check_somebody_reads
from barnabas.cli.moments import (
    AtOffset,
    AtTime,
    Beginning,
    End,
    LastRecords,
    Start,
    parse_start,
)
from barnabas.cli.shapes import Shape, format_shape, json_shape, value_shape
from barnabas.model.errors import BarnabasError

if TYPE_CHECKING:
    from confluent_kafka import Message

EXAMPLES: Final = """\b
Examples:
  barnabas consume events                              from the beginning, and what comes then
  barnabas consume events --until-end | wc -l
  barnabas consume events --from end --timeout 10      new messages, until none comes for 10 s
  barnabas consume events --from -10m --json           of the last ten minutes
  barnabas consume events --from -5 --until-end        the last five of each partition
  barnabas consume events --format '{partition}:{offset} {key} = {value}' --max 3
  barnabas consume events --group billing              goes on where the group stopped last
"""
AT_ONCE: Final = 500
POLL_S: Final = 0.2
"""How long a wait for messages lasts before Ctrl-C and --timeout are looked at."""


class Delivery(Enum):
    """What happens to a message when its consumer dies over it."""

    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


class Commit(Enum):
    """Whether the group remembers what was printed."""

    AUTO = "auto"
    NONE = "none"


class Protocol(Enum):
    """How members and broker agree on who reads what."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Only this one.  [default: all]"),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="beginning (or earliest), end (or latest), an offset, -N for the last N of each "
            "partition, a time in ISO 8601, or -10m for ten minutes ago. With --group: where "
            "nothing is committed yet.",
        ),
    ] = "beginning",
    maximum: Annotated[
        int | None, typer.Option("--max", "-n", min=1, help="Stop after so many messages.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, help="Stop when no message has come for so many seconds."),
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", "-e", help="Stop at what is the end now.")
    ] = False,
    template: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="A line for each message, with {topic} {partition} {offset} {key} {value} "
            "{timestamp} {time} {headers}.",
        ),
    ] = None,
    null: Annotated[
        str, typer.Option("--null-value", metavar="TEXT", help="What a null looks like.")
    ] = "null",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object for each message.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(
            help="Join this group: share the partitions with its other members, and "
            "remember what was printed."
        ),
    ] = None,
    delivery: Annotated[
        Delivery | None,
        typer.Option(
            help="Of a group: commit before or after a message is printed.  [default: "
            "at-least-once]"
        ),
    ] = None,
    commit: Annotated[
        Commit | None,
        typer.Option(help="Of a group: none looks without moving it on.  [default: auto]"),
    ] = None,
    protocol: Annotated[
        Protocol | None,
        typer.Option(help="Of a group: Kafka's first one, or KIP-848.  [default: classic]"),
    ] = None,
    instance_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Of a group: a member that may be away for a moment."),
    ] = None,
    properties: Properties = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Print the messages of a topic, and go on with those that come, until Ctrl-C.

    Without --group nothing is remembered of what was read: every run begins where --from says.
    """
    of_a_group = (delivery, commit, protocol, instance_id)
    if group is None and any(option is not None for option in of_a_group):
        raise typer.BadParameter(
            "--delivery, --commit, --protocol and --instance-id need a --group."
        )
    if group == "":
        raise typer.BadParameter("the name of a group can not be empty.", param_hint="--group")
    if group is not None and partition:
        raise typer.BadParameter("--group and --partition exclude each other: a group shares out.")
    if as_json and template is not None:
        raise typer.BadParameter("--json and --format exclude each other.")
    place = parse_start(start)
    shape: Shape = value_shape(null.encode())
    if as_json:
        shape = json_shape
    elif template is not None:
        shape = format_shape(template, null.encode())
    check_answers(bootstrap)
    limits = Limits(maximum, timeout, until_end)
    with errors_as_sentences():
        if group is not None:
            from barnabas.cli.group_consume import GroupReading, Joining

            joining = Joining(
                group=group,
                at_most_once=delivery is Delivery.AT_MOST_ONCE,
                commits=commit is not Commit.NONE,
                protocol=(protocol or Protocol.CLASSIC).value,
                instance_id=instance_id,
            )
            reading = GroupReading(topic, bootstrap, properties, shape, joining)
            reading.run(place, limits)
            return
        _Reading(topic, bootstrap, properties, shape).run(partition, place, limits)


class Limits:
    """When to stop."""

    def __init__(self, maximum: int | None, idle_s: float | None, until_end: bool) -> None:
        self.maximum = maximum
        self.idle_s = idle_s
        self.until_end = until_end


def first_offset(consumer: Any, topic: str, number: int, place: Start) -> tuple[int, int]:
    """Where a partition is read from, and where it ends now. May raise KafkaException."""
    from confluent_kafka import TopicPartition

    low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=REQUEST_S)
    match place:
        case Beginning():
            return low, high
        case End():
            return high, high
        case AtOffset(offset):
            # Beyond the end there is nothing to skip: what comes next is what comes first.
            return min(max(low, offset), high), high
        case LastRecords(count):
            return max(low, high - count), high
        case AtTime(timestamp_ms):
            asked = [TopicPartition(topic, number, timestamp_ms)]
            (found,) = consumer.offsets_for_times(asked, timeout=REQUEST_S)
            return (found.offset if found.offset >= 0 else high), high


class _Reading:
    """A consumer without a group, and what of each partition is still wanted."""

    def __init__(
        self, topic: str, bootstrap: str, properties: list[str] | None, shape: Shape
    ) -> None:
        from confluent_kafka import Consumer

        self._topic = topic
        self._shape = shape
        self._consumer = Consumer(
            settings(bootstrap)
            | {
                # The library wants a name for it, but no group is joined and nothing committed.
                "group.id": "barnabas-consume",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
            | pairs("-X", properties)
        )
        self._unfinished: dict[int, int] = {}
        """Where each partition ends, of those not read up to there."""

    def run(self, partitions: list[int] | None, place: Start, limits: Limits) -> None:
        """Read and print until a limit is reached, or the person has enough."""
        try:
            self._begin(partitions, place)
            self._read(limits)
        except KeyboardInterrupt:
            sys.stdout.flush()
        finally:
            self._consumer.close()

    def _begin(self, partitions: list[int] | None, place: Start) -> None:
        from confluent_kafka import TopicPartition

        known = sorted(existing_topic(self._consumer, self._topic).partitions)
        for number in partitions or ():
            if number not in known:
                raise BarnabasError(
                    f"{self._topic} has no partition {number}: it has {len(known)}, counted from 0."
                )
        chosen = sorted(set(partitions)) if partitions else known
        assigned = []
        for number in chosen:
            offset, high = first_offset(self._consumer, self._topic, number, place)
            if offset < high:
                self._unfinished[number] = high
            assigned.append(TopicPartition(self._topic, number, offset))
        self._consumer.assign(assigned)

    def _read(self, limits: Limits) -> None:
        printed = 0
        heard_s = time.monotonic()
        while not (limits.until_end and not self._unfinished):
            wanted = AT_ONCE
            if limits.maximum is not None:
                wanted = min(wanted, limits.maximum - printed)
            got = self._consumer.consume(wanted, POLL_S)
            for message in got:
                if self._take(message, limits.until_end):
                    printed += 1
                    heard_s = time.monotonic()
            sys.stdout.buffer.flush()
            check_somebody_reads()
            if limits.maximum is not None and printed >= limits.maximum:
                return
            if limits.idle_s is not None and time.monotonic() - heard_s >= self._patience(limits):
                return

    def _patience(self, limits: Limits) -> float:
        """Silence before what is known to be there is no reason to stop: it is on its way."""
        idle_s = limits.idle_s or 0.0
        return max(idle_s, REQUEST_S) if self._unfinished else idle_s

    def _take(self, message: "Message", until_end: bool) -> bool:
        """Print a message; whether it was one (the end of a partition is told the same way)."""
        from confluent_kafka import KafkaError, KafkaException

        number: Any = message.partition()
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self._unfinished.pop(number, None)
                return False
            raise KafkaException(error)
        offset: Any = message.offset()
        end = self._unfinished.get(number)
        if until_end and end is None:
            return False
        if end is not None and offset + 1 >= end:
            del self._unfinished[number]
        sys.stdout.buffer.write(self._shape(message))
        return True
