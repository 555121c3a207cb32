"""What a write is told: the official connector's options, and a few of our own.

Options of `kafka.` that only tune a Java producer are taken and change nothing, so that a job can
keep them; those that would change what is written, and can not be honoured, are refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, Literal, TypeVar

from barnabas.spark.cluster.connection import CONNECTION_OPTIONS, Connection
from barnabas.spark.errors import SparkJobError
from barnabas.wire.records.compression import CODEC_LEVELS, CODEC_NAMES, CODECS_BY_NAME

T = TypeVar("T")
Delivery = Literal["at-least-once", "exactly-once"]
Partitioner = Literal["murmur2", "crc32"]

AT_LEAST_ONCE: Final[Delivery] = "at-least-once"
EXACTLY_ONCE: Final[Delivery] = "exactly-once"

BATCH_BYTES: Final = 1_000_000
"""Of one record batch: large enough to be cheap, and below every broker's `message.max.bytes`."""
REQUEST_BYTES: Final = 1_048_576
"""Of one record with its batch: Kafka's `max.request.size`."""
IN_FLIGHT_MAX: Final = 5
"""As many batches of a producer as a broker remembers, to know a repeat when it sees one."""
TRANSACTION_TIMEOUT_MS: Final = 600_000
"""Of a micro-batch: Kafka's own default of a minute is too short for many."""

_OWN: Final = {
    name.lower(): name
    for name in (
        "topic", "includeHeaders", "includeTimestamp", "delivery", "partitioner", "sinkId",
        "sourceGroup", "batchId", "checkpointLocation",
    )
}  # fmt: skip

_HONOURED: Final = {
    *(
        "acks", "batch.size", "compression.gzip.level", "compression.lz4.level",
        "compression.type", "compression.zstd.level", "delivery.timeout.ms",
        "enable.idempotence", "max.in.flight.requests.per.connection", "max.request.size",
        "transaction.timeout.ms",
    ),
    *(name.removeprefix("kafka.") for name in CONNECTION_OPTIONS),
}  # fmt: skip
_NO_EFFECT: Final = frozenset(
    (
        "auto.include.jmx.reporter", "buffer.memory", "client.dns.lookup",
        "connections.max.idle.ms", "enable.metrics.push", "linger.ms", "max.block.ms",
        "metadata.max.age.ms", "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy",
        "metric.reporters", "metrics.num.samples", "metrics.recording.level",
        "metrics.sample.window.ms", "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms", "partitioner.ignore.keys",
        "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
        "retries", "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
    )
)  # fmt: skip
_REFUSED: Final = {
    "key.serializer": "keys are written as the bytes they are: serialize them in the DataFrame",
    "value.serializer": "values are written as the bytes they are: serialize them in the DataFrame",
    "interceptor.classes": "there is no Java producer here to run them: change the DataFrame",
    "partitioner.class": "there is no Java producer here to run it: use the option partitioner "
    "(murmur2 or crc32), or a partition column",
    "transactional.id": "it is made of sinkId: use delivery=exactly-once with the option sinkId",
    "transaction.two.phase.commit.enable": "exactly-once needs no two-phase commit: leave it out",
}
_CONNECTION_PREFIXES: Final = ("ssl.", "sasl.", "security.")


@dataclass(frozen=True)
class SinkOptions:
    """Every option of one write, checked."""

    connection: Connection
    topic: str | None = None
    delivery: Delivery = AT_LEAST_ONCE
    partitioner: Partitioner = "murmur2"
    include_timestamp: bool = False
    codec: int = 0
    codec_level: int | None = None
    acks: int = -1
    idempotent: bool = True
    batch_bytes: int = BATCH_BYTES
    """What a record batch grows to, before compression."""
    record_bytes_max: int = REQUEST_BYTES
    """What one record may take, with the header of its batch and before compression."""
    in_flight_max: int = IN_FLIGHT_MAX
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    sink_id: str | None = None
    source_group: str | None = None
    batch_id: int | None = None
    checkpoint: str | None = None


def parse(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """The options of `write` or `writeStream`; keys in any case."""
    given = {key.lower(): value for key, value in options.items()}
    _check_names(given)
    reader = _Reader(given)
    delivery = reader.choice("delivery", {AT_LEAST_ONCE: AT_LEAST_ONCE, EXACTLY_ONCE: EXACTLY_ONCE})
    acks = reader.choice("kafka.acks", {"all": -1, "-1": -1, "1": 1, "0": 0})
    codec = reader.choice("kafka.compression.type", dict(CODECS_BY_NAME), default="none")
    record_bytes_max = reader.number("kafka.max.request.size", REQUEST_BYTES, 1)
    batch_bytes = reader.number("kafka.batch.size", BATCH_BYTES, 0)
    parsed = SinkOptions(
        connection=_connection(reader),
        topic=_topic(given),
        delivery=delivery,
        partitioner=reader.choice("partitioner", {"murmur2": "murmur2", "crc32": "crc32"}),
        include_timestamp=reader.flag("includetimestamp", default=False),
        codec=codec,
        codec_level=_level(reader, codec),
        acks=acks,
        idempotent=acks == -1 and reader.flag("kafka.enable.idempotence", default=True),
        batch_bytes=min(batch_bytes, record_bytes_max),
        record_bytes_max=record_bytes_max,
        in_flight_max=reader.number(
            "kafka.max.in.flight.requests.per.connection", IN_FLIGHT_MAX, 1, IN_FLIGHT_MAX
        ),
        transaction_timeout_ms=reader.number(
            "kafka.transaction.timeout.ms", TRANSACTION_TIMEOUT_MS, 1
        ),
        sink_id=reader.text("sinkid"),
        source_group=reader.text("sourcegroup"),
        batch_id=reader.number("batchid", 0, 0) if "batchid" in given else None,
        checkpoint=given.get("checkpointlocation"),
    )
    reader.flag("includeheaders", default=True)
    _check_together(parsed, given, streaming=streaming)
    return parsed


def _connection(reader: "_Reader") -> Connection:
    connection = Connection.from_options(reader.given)
    if "kafka.delivery.timeout.ms" not in reader.given:
        return connection
    return replace(connection, patience_s=reader.number("kafka.delivery.timeout.ms", 0, 1) / 1000)


def _topic(given: Mapping[str, str]) -> str | None:
    topic = given.get("topic")
    if topic is None:
        return None
    if not topic.strip():
        raise SparkJobError("The option topic is empty: name the topic to write to.")
    return topic.strip()


def _level(reader: "_Reader", codec: int) -> int | None:
    levels = CODEC_LEVELS.get(codec)
    key = f"kafka.compression.{CODEC_NAMES[codec]}.level"
    if levels is None or key not in reader.given:
        return None
    # Kafka's gzip takes -1 for its default.
    if reader.given[key].strip() == "-1" and -1 not in levels:
        return None
    return reader.number(key, 0, levels.start, levels.stop - 1)


def _check_names(given: Mapping[str, str]) -> None:
    for key in given:
        if key.startswith("kafka."):
            _check_kafka_name(key.removeprefix("kafka."))
        elif key not in _OWN:
            # Spark and other sources have options of their own: only a slip is worth an error.
            close = get_close_matches(key, [*_OWN, "kafka.bootstrap.servers"], 1, 0.85)
            if close:
                meant = _OWN.get(close[0], close[0])
                raise SparkJobError(f"There is no option {key}: did you mean {meant}?")
    if given.get("kafka.partitioner.ignore.keys", "false").strip().lower() == "true":
        raise SparkJobError(
            "The option kafka.partitioner.ignore.keys=true is not supported: leave it out, and "
            "give a partition column where keys are not to decide."
        )


def _check_kafka_name(name: str) -> None:
    reason = _REFUSED.get(name)
    if reason is not None:
        raise SparkJobError(f"The option kafka.{name} is not supported, because {reason}.")
    known = _HONOURED | _NO_EFFECT
    if name in known or name.startswith(_CONNECTION_PREFIXES):
        return
    close = get_close_matches(name, sorted(known | _REFUSED.keys()), 1, 0.85)
    if close:
        raise SparkJobError(f"There is no option kafka.{name}: did you mean kafka.{close[0]}?")


def _check_together(parsed: SinkOptions, given: Mapping[str, str], *, streaming: bool) -> None:
    idempotence_asked = given.get("kafka.enable.idempotence", "").strip().lower() == "true"
    if parsed.delivery == EXACTLY_ONCE and not parsed.idempotent:
        raise SparkJobError(
            "delivery=exactly-once needs kafka.acks=all and kafka.enable.idempotence=true: leave "
            "both options out."
        )
    if idempotence_asked and parsed.acks != -1:
        raise SparkJobError(
            "kafka.enable.idempotence=true needs kafka.acks=all: change one of the two options."
        )
    if parsed.batch_id is not None and streaming:
        raise SparkJobError(
            "The option batchId is for batch writes, as from foreachBatch: a streaming write has "
            "its batch ids from Spark, so leave it out."
        )


class _Reader:
    """Values of options by their type, with one sentence for each that does not fit."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = given

    def text(self, key: str) -> str | None:
        value = self.given.get(key)
        if value is not None and not value.strip():
            raise SparkJobError(f"The option {_shown(key)} is empty: give it a value or drop it.")
        return None if value is None else value.strip()

    def flag(self, key: str, *, default: bool) -> bool:
        flags = {"true": True, "false": False}
        return self.choice(key, flags, default="true" if default else "false")

    def number(self, key: str, default: int, least: int, most: int = 2**31 - 1) -> int:
        text = self.given.get(key)
        if text is None:
            return default
        try:
            number = int(text.strip())
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise SparkJobError(
                f"The option {_shown(key)} must be a whole number from {least} to {most}, "
                f"not {text!r}."
            )
        return number

    def choice(self, key: str, choices: Mapping[str, T], *, default: str | None = None) -> T:
        """The first choice is the default, unless another is named."""
        text = self.given.get(key)
        if text is None:
            return choices[default] if default is not None else next(iter(choices.values()))
        chosen = choices.get(text.strip().lower())
        if chosen is None:
            raise SparkJobError(
                f"The option {_shown(key)} must be one of {', '.join(choices)}, not {text!r}."
            )
        return chosen


def _shown(key: str) -> str:
    return _OWN.get(key, key)
