"""What a pipeline file says, read and checked as far as that goes without Spark and brokers.

Plain values: `reading` makes them, everything else takes them as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from barnabas.spark.pipelines.places import At, Text

Format = Literal["json", "csv", "text", "avro", "raw"]
Delivery = Literal["at-least-once", "exactly-once"]
Mode = Literal["append", "update", "complete", "upsert"]


@dataclass(frozen=True, slots=True)
class Watermark:
    """How late rows may be: older ones than `delay` behind the newest are left out of state."""

    column: str
    delay: str
    at: At


@dataclass(frozen=True, slots=True)
class TopicSource:
    """Records of topics as rows.

    Its columns are those of the schema (`json` without one: `value` VARIANT; `text`: `value`
    STRING; `raw`: `value` BINARY), and `_key`, `_topic`, `_partition`, `_offset`, `_timestamp`,
    `_headers`.
    """

    name: str
    at: At
    topics: tuple[str, ...]
    """Empty when there is a `pattern`."""
    pattern: str | None = None
    format: Format = "json"
    schema: Text | None = None
    """Columns as SQL writes them (`id BIGINT, at TIMESTAMP`); for avro the schema's JSON."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the format, as Spark's from_json and from_csv take them."""
    framing: Literal["none", "confluent"] = "none"
    """avro: whether five bytes of a schema registry stand before each value."""
    key: Literal["text", "binary"] = "text"
    """What `_key` is."""
    cast: Mapping[str, Text] = field(default_factory=dict)
    """Columns to other types; a value that does not fit is a dead letter."""
    expect: tuple[Text, ...] = ()
    """SQL conditions; a row of which one is not true is a dead letter."""
    nulls: Literal["keep", "skip", "dead-letter"] = "keep"
    """What becomes of records without a value (tombstones); kept ones have nulls for columns."""
    dead_letter: Text | None = None
    """The topic for what can not be decoded or cast; without one it ends the query."""
    watermark: Watermark | None = None
    starting: Literal["earliest", "latest"] = "earliest"
    beginning: str | None = None
    """Not of the file: the offsets, as JSON, that `latest` means in one run."""
    dead_beginning: str | None = None
    """The same for its dead letters."""
    max_per_trigger: int | None = None
    table: bool = False
    """Read whole at each batch, the newest record of each key: the table side of a join."""
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Options `kafka.…` for this source alone, without that prefix."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """Anything else that Spark can read: a table of ours, parquet, csv, jdbc, rate …."""

    name: str
    at: At
    format: str
    """Spark's name of it; `table` is a table that a pipeline wrote."""
    path: str | None = None
    schema: Text | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    stream: bool = False
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A Python function of values, which SQL in steps can call by its name."""

    name: str
    at: At
    python: Text
    """`module:function`."""
    returns: Text | None = None
    """Its type as SQL writes it; without it the function's annotation decides."""


@dataclass(frozen=True, slots=True)
class SqlStep:
    """A SELECT over sources and other steps, by their names."""

    name: str
    at: At
    sql: Text


@dataclass(frozen=True, slots=True)
class PythonStep:
    """A Python function from DataFrames to a DataFrame."""

    name: str
    at: At
    python: Text
    inputs: tuple[Text, ...]
    schema: Text | None = None
    """What it must return; checked."""


@dataclass(frozen=True, slots=True)
class DeduplicateStep:
    """The first row of each key, as long as the watermark remembers it."""

    name: str
    at: At
    input: Text
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicSink:
    """Rows as records of a topic."""

    name: str
    at: At
    input: Text
    topic: Text
    format: Format = "json"
    schema: Text | None = None
    """avro: the schema to write with; without it one that fits the columns."""
    key: Text | None = None
    """A SQL expression; left out: `_key` if there is one, else no key."""
    options: Mapping[str, str] = field(default_factory=dict)
    delivery: Delivery = "exactly-once"
    mode: Mode = "append"
    kafka: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableSink:
    """Rows as a table of Parquet files; always exactly once."""

    name: str
    at: At
    input: Text
    path: Text
    """As written in the file; `folder` of the pipeline makes it absolute."""
    mode: Mode = "append"
    partition_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    """upsert: the columns that say which row is replaced."""
    order_by: Text | None = None
    """upsert: of several rows of a key the one with the greatest of this counts."""
    delete_when: Text | None = None
    """upsert: a condition under which the row of the key goes."""


@dataclass(frozen=True, slots=True)
class OtherSink:
    """Anything else that Spark can write to: jdbc, csv, orc, console, ….  At least once."""

    name: str
    at: At
    input: Text
    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = "append"
    partition_by: tuple[str, ...] = ()


Source = TopicSource | FileSource
Step = SqlStep | PythonStep | DeduplicateStep
Sink = TopicSink | TableSink | OtherSink


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One file."""

    file: str
    """As it was given, for places in sentences."""
    folder: str
    """Absolute; relative paths in the file begin here, and Python modules are looked for here."""
    name: str
    servers: str
    state: str
    """Absolute: where checkpoints, the lock and the status of this pipeline are."""
    sources: Mapping[str, Source]
    steps: Mapping[str, Step]
    """In an order in which each stands behind those it needs."""
    sinks: Mapping[str, Sink]
    functions: Mapping[str, Function] = field(default_factory=dict)
    trigger: str | None = None
    """`1 second`: how often a batch begins; without it one begins when the last has ended."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark's."""
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Options `kafka.…` for every topic, without that prefix."""
