"""The options of `spark.read` and `spark.readStream`: Kafka's own connector's, and a few more.

What a name means there it means here. Names that are nearly right are pointed out: Spark hands
every option over, and one that is misspelt would go unnoticed.
"""

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from barnabas.spark.cluster.connection import CONNECTION_OPTIONS, Connection
from barnabas.spark.errors import SparkJobError
from barnabas.spark.source import texts
from barnabas.spark.source.starting import (
    EARLIEST,
    LATEST,
    Edge,
    Everywhere,
    Position,
    check_for_batch,
    parse_assignment,
    parse_position,
)
from barnabas.spark.source.subscription import Subscription, compile_pattern

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_log = logging.getLogger("barnabas.spark")

COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)
"""In the order of the connector's schema; `headers` only where it is asked for."""

_FETCH_BYTES: Final = 8 * 1024 * 1024
"""Of one answer: large enough that a round trip is nothing, small enough for several in a task."""

_FETCH_BYTES_MAX: Final = 1024 * 1024 * 1024
"""A frame must stay well below 2 GiB, and an answer is held in memory as a whole."""

_POLL_TIMEOUT_MS: Final = 120_000
"""`spark.network.timeout`'s default, as the connector has it."""

_BYTES_PER_TASK: Final = 64 * 1024 * 1024
"""About half a second's work of a task: enough to be worth a task, not enough to be waited for."""

_TO_THE_END: Final = Everywhere(LATEST)
_ONE_OF: Final = ("subscribe", "subscribepattern", "assign")
BATCH_ONLY: Final = ("endingoffsets", "endingoffsetsbytimestamp", "endingtimestamp")
_STREAM_ONLY: Final = (
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "maxtriggerdelay",
    "maxbytespertrigger",
)
_NAMES: Final = {
    name.lower(): name
    for name in (
        "subscribe",
        "subscribePattern",
        "assign",
        "startingOffsets",
        "startingOffsetsByTimestamp",
        "startingTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingOffsets",
        "endingOffsetsByTimestamp",
        "endingTimestamp",
        "failOnDataLoss",
        "includeHeaders",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "maxBytesPerTrigger",
        "minPartitions",
        "maxRecordsPerPartition",
        "bytesPerTask",
        "columns",
        "pushdown",
        "groupIdPrefix",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "partition.metadata.cache.ttl.ms",
    )
}
_KAFKA_NAMES: Final = CONNECTION_OPTIONS | {
    "kafka.group.id",
    "kafka.isolation.level",
    "kafka.fetch.max.bytes",
    # Means nothing here, but is close to one that does.
    "kafka.socket.connection.setup.timeout.max.ms",
}
_REFUSED: Final = {
    "kafka.auto.offset.reset": "set startingOffsets to earliest or latest instead",
    "kafka.key.deserializer": "keys arrive as bytes: cast the column instead",
    "kafka.value.deserializer": "values arrive as bytes: cast the column instead",
    "kafka.enable.auto.commit": "progress is committed after each batch to kafka.group.id",
    "kafka.interceptor.classes": "transform the DataFrame instead",
}


@dataclass(frozen=True)
class SourceOptions:
    """What a query reads, and how. It travels to the tasks."""

    connection: Connection
    subscription: Subscription
    start: Position
    end: Position = _TO_THE_END
    late_start: bool = False
    """Where nothing is as young as the time to start at: begin at the end, instead of failing."""
    columns: tuple[str, ...] = COLUMNS[:-1]
    committed: bool = True
    """Whether aborted and open transactions are passed over (`kafka.isolation.level`)."""
    fail_on_data_loss: bool = True
    group: str | None = None
    """The consumer group that progress is committed to."""
    offsets_max: int | None = None
    offsets_min: int | None = None
    bytes_max: int | None = None
    trigger_delay_max_s: float = 900.0
    tasks_min: int | None = None
    task_offsets_max: int | None = None
    task_bytes: int = _BYTES_PER_TASK
    pushdown: bool = False
    fetch_bytes: int = _FETCH_BYTES
    poll_timeout_s: float = _POLL_TIMEOUT_MS / 1000
    offset_attempts: int = 3
    offset_attempt_interval_s: float = 1.0
    partitions_cache_s: float = 0.0
    """How long the list of partitions is taken to be true; 0 asks every time."""

    @property
    def include_headers(self) -> bool:
        """Whether headers are read at all."""
        return "headers" in self.columns


def parse(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """What the options say; SparkJobError for what can not be."""
    given = {name.lower(): str(value) for name, value in options.items()}
    _check_names(given, streaming=streaming)
    connection = Connection.from_options(given)
    start = parse_position(Edge.START, given, LATEST if streaming else EARLIEST)
    end: Position = _TO_THE_END
    if not streaming:
        end = parse_position(Edge.END, given, LATEST)
        check_for_batch(start, end)
    read = _Reading(given)
    most, least = read.count("maxoffsetspertrigger"), read.count("minoffsetspertrigger")
    if most is not None and least is not None and least > most:
        raise SparkJobError(
            f"minOffsetsPerTrigger is {least} and more than maxOffsetsPerTrigger, which is {most}: "
            "lower it."
        )
    return SourceOptions(
        connection=connection,
        subscription=_subscription(given),
        start=start,
        end=end,
        late_start=_late_start(given),
        columns=_columns(given, headers=read.truth("includeheaders", default=False)),
        committed=_committed(given),
        fail_on_data_loss=read.truth("failondataloss", default=True),
        group=given.get("kafka.group.id") or None,
        offsets_max=most,
        offsets_min=least,
        bytes_max=read.size("maxbytespertrigger"),
        trigger_delay_max_s=texts.seconds("maxTriggerDelay", given.get("maxtriggerdelay", "15m")),
        tasks_min=read.count("minpartitions", most=2**31 - 1),
        task_offsets_max=read.count("maxrecordsperpartition"),
        task_bytes=read.size("bytespertask") or _BYTES_PER_TASK,
        pushdown=read.truth("pushdown", default=False),
        fetch_bytes=min(read.size("kafka.fetch.max.bytes") or _FETCH_BYTES, _FETCH_BYTES_MAX),
        poll_timeout_s=read.number("kafkaconsumer.polltimeoutms", _POLL_TIMEOUT_MS, least=1) / 1000,
        offset_attempts=read.number("fetchoffset.numretries", 3, least=1),
        offset_attempt_interval_s=read.number("fetchoffset.retryintervalms", 1000, least=0) / 1000,
        partitions_cache_s=_partitions_cache_s(given),
    )


class _Reading:
    """Options by the name Spark hands over, in errors by the name people write."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def truth(self, name: str, *, default: bool) -> bool:
        text = self._given.get(name)
        return default if text is None else texts.truth(_spelt(name), text)

    def count(self, name: str, *, most: int = 2**63 - 1) -> int | None:
        text = self._given.get(name)
        return None if text is None else texts.integer(_spelt(name), text, least=1, most=most)

    def number(self, name: str, default: int, *, least: int) -> int:
        text = self._given.get(name, str(default))
        return texts.integer(_spelt(name), text, least=least, most=2**31 - 1)

    def size(self, name: str) -> int | None:
        text = self._given.get(name)
        return None if text is None else texts.size(_spelt(name), text)


def _spelt(name: str) -> str:
    return _NAMES.get(name, name)


def _check_names(given: Mapping[str, str], *, streaming: bool) -> None:
    for name, advice in _REFUSED.items():
        if name in given:
            raise SparkJobError(f"The option {name} is not supported: {advice}.")
    for name in given:
        meant = _meant(name)
        if meant is not None:
            raise SparkJobError(f"There is no option {name}: did you mean {meant}?")
    if streaming:
        for name in BATCH_ONLY:
            if name in given:
                raise SparkJobError(
                    f"{_spelt(name)} is for batch queries (spark.read): a stream ends when it is "
                    "stopped, or with trigger(availableNow=True)."
                )
    else:
        for name in _STREAM_ONLY:
            if name in given:
                _log.warning("The option %s is ignored in batch queries.", _spelt(name))


def _meant(name: str) -> str | None:
    """The option that somebody who wrote `name` had in mind, if it is none but nearly one."""
    if name in _NAMES or name in _KAFKA_NAMES:
        return None
    if f"kafka.{name}" in _KAFKA_NAMES:
        return f"kafka.{name}"
    if name.startswith("kafka."):
        # Kafka has many options that mean nothing here; only slips of the pen are meant.
        near = difflib.get_close_matches(name, _KAFKA_NAMES, n=1, cutoff=0.93)
        return near[0] if near else None
    near = difflib.get_close_matches(name, _NAMES, n=1, cutoff=0.85)
    return _NAMES[near[0]] if near else None


def _subscription(given: Mapping[str, str]) -> Subscription:
    chosen = [name for name in _ONE_OF if name in given]
    if len(chosen) != 1:
        what = "one" if not chosen else "only one"
        raise SparkJobError(
            f"Give {what} of the options subscribe (topics), subscribePattern (a regular "
            "expression) and assign (partitions)."
        )
    name = chosen[0]
    text = given[name].strip()
    if name == "assign":
        return Subscription(assigned=parse_assignment(text))
    if name == "subscribe":
        topics = texts.names(text)
        if not topics:
            raise SparkJobError(f"subscribe is {given[name]!r}: name a topic, or several: a,b.")
        return Subscription(topics=topics)
    if not text:
        raise SparkJobError("subscribePattern is empty: give a regular expression, such as ^a-.*$.")
    compile_pattern(text)
    return Subscription(pattern=text)


def _columns(given: Mapping[str, str], *, headers: bool) -> tuple[str, ...]:
    text = given.get("columns")
    if text is None:
        return COLUMNS if headers else COLUMNS[:-1]
    known = {column.lower(): column for column in COLUMNS}
    wanted = texts.names(text)
    for name in wanted:
        if name.lower() not in known:
            raise SparkJobError(
                f"columns names {name!r}, which there is not: choose of {', '.join(COLUMNS)}."
            )
    if not wanted:
        raise SparkJobError(f"columns is {text!r}: choose of {', '.join(COLUMNS)}.")
    return tuple(dict.fromkeys(known[name.lower()] for name in wanted))


def _committed(given: Mapping[str, str]) -> bool:
    level = given.get("kafka.isolation.level", "read_committed").strip().lower()
    if level not in ("read_committed", "read_uncommitted"):
        raise SparkJobError(
            f"kafka.isolation.level is {level!r}: read_committed or read_uncommitted is what it "
            "can be."
        )
    return level == "read_committed"


def _late_start(given: Mapping[str, str]) -> bool:
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise SparkJobError(
            f"startingOffsetsByTimestampStrategy is {strategy!r}: error or latest is what it can "
            "be."
        )
    return strategy == "latest"


def _partitions_cache_s(given: Mapping[str, str]) -> float:
    name = "partition.metadata.cache.ttl.ms"
    ms = texts.integer(name, given.get(name, "-1"), least=-1)
    if ms == 0:
        raise SparkJobError(f"{name} is 0: give milliseconds, or -1 to keep nothing.")
    return max(ms, 0) / 1000


def schema_of(options: SourceOptions) -> "StructType":
    """The connector's schema, every column nullable; those of `columns`, in its order."""
    from pyspark.sql import types

    headers = types.ArrayType(
        types.StructType(
            [
                types.StructField("key", types.StringType()),
                types.StructField("value", types.BinaryType()),
            ]
        )
    )
    kinds: dict[str, types.DataType] = {
        "key": types.BinaryType(),
        "value": types.BinaryType(),
        "topic": types.StringType(),
        "partition": types.IntegerType(),
        "offset": types.LongType(),
        "timestamp": types.TimestampType(),
        "timestampType": types.IntegerType(),
        "headers": headers,
    }
    return types.StructType([types.StructField(name, kinds[name]) for name in options.columns])
