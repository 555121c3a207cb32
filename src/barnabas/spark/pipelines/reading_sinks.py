"""The `sinks` of a pipeline file."""

from typing import Final, get_args

from barnabas.spark.pipelines import values
from barnabas.spark.pipelines.definition import (
    Delivery,
    Mode,
    OtherSink,
    Sink,
    TableSink,
    TopicSink,
)
from barnabas.spark.pipelines.fields import Fields, checked, fields_of
from barnabas.spark.pipelines.places import At
from barnabas.spark.pipelines.problems import Problems, listed, shown
from barnabas.spark.pipelines.reading_options import kafka_options
from barnabas.spark.pipelines.reading_schemas import read_schema
from barnabas.spark.pipelines.reading_sources import FORMATS
from barnabas.spark.pipelines.yaml_nodes import Node

_KEYS: Final = {
    "topic": (
        "from", "topic", "format", "schema", "schema_file", "key", "options", "delivery", "mode",
        "kafka",
    ),
    "table": ("from", "table", "mode", "partition_by", "key", "order_by", "delete_when"),
    "format": ("from", "format", "path", "options", "mode", "partition_by"),
}  # fmt: skip
_ALL_KEYS: Final = tuple(dict.fromkeys(key for keys in _KEYS.values() for key in keys))
_NAMES: Final = {"topic": "topics", "table": "tables", "format": "other formats"}
_MODES: Final[tuple[Mode, ...]] = get_args(Mode)
_FITTING: Final[dict[str, tuple[Mode, ...]]] = {
    "topic": ("append", "update", "complete"),
    "table": ("append", "complete", "upsert"),
    "format": ("append", "update", "complete"),
}
_APPEND_ONLY: Final = frozenset({"csv", "json", "text", "parquet", "orc", "xml", "avro"})
"""Files of rows, of which none can be taken back."""


def read_sink(name: str, at: At, node: Node, folder: str, problems: Problems) -> Sink | None:
    """One sink; None after what is wrong with it was noted."""
    fields = fields_of(f"sinks.{shown(name)}", at, node, problems)
    if fields is None:
        return None
    found = len(problems)
    if {"topic", "table"} <= set(fields.keys):
        problems.add(at, f"{fields.label} has topic and table: make two sinks of it.")
        return None
    kind = next((kind for kind in _KEYS if fields.means([kind], _ALL_KEYS)), None)
    if kind is None:
        fields.refuse_others(_ALL_KEYS)
        if len(problems) == found:
            fields.needs("topic, table, or the format of what else it writes")
        return None
    _refuse_others(fields, kind)
    sink: Sink | None
    if kind == "topic":
        sink = _topic_sink(name, fields, folder)
    else:
        sink = _table_sink(name, fields) if kind == "table" else _other_sink(name, fields)
    return sink if len(problems) == found else None


def _refuse_others(fields: Fields, kind: str) -> None:
    elsewhere = {
        key: "sinks of " + listed([_NAMES[other] for other, has in _KEYS.items() if key in has])
        for keys in _KEYS.values()
        for key in keys
        if key not in _KEYS[kind]
    }
    known = _KEYS[kind]
    if "delivery" in fields.keys and kind != "topic":
        known = (*known, "delivery")
        fields.wrong(
            "delivery",
            "is for topics: a table is always written exactly once."
            if kind == "table"
            else "is for topics: other formats are written at least once, and exactly-once needs "
            "a topic or a table.",
        )
    fields.refuse_others(known, elsewhere)


def _mode(fields: Fields, kind: str) -> Mode:
    mode = fields.word("mode", _MODES, "append")
    if mode == "upsert" and kind != "table":
        fields.wrong("mode", "is upsert, which is for tables: take append, update or complete.")
    elif mode not in _FITTING[kind]:
        fields.wrong("mode", f"is {mode}, and a table takes {listed(_FITTING[kind], 'or')}.")
    return mode


def _topic_sink(name: str, fields: Fields, folder: str) -> TopicSink | None:
    input_ = fields.needed("from", "the source or step whose rows it writes")
    topic = checked(fields.text("topic"), values.topic, fields, "topic")
    format_ = fields.word("format", FORMATS, "json")
    schema = None
    given = [key for key in ("schema", "schema_file") if key in fields.keys]
    if format_ == "avro":
        schema = read_schema(fields, folder, avro=True)
    elif given:
        fields.wrong(given[0], f"is for the format avro, and this is {format_}.")
    key = checked(fields.text("key"), values.sql, fields, "key")
    options = fields.options("options")
    delivery = fields.word("delivery", get_args(Delivery), "exactly-once")
    mode = _mode(fields, "topic")
    kafka = kafka_options(fields)
    if input_ is None or topic is None:
        return None
    return TopicSink(
        name, fields.at, input_, topic, format_, schema, key, options, delivery, mode, kafka
    )


def _table_sink(name: str, fields: Fields) -> TableSink | None:
    input_ = fields.needed("from", "the source or step whose rows it writes")
    path = checked(fields.text("table"), values.path, fields, "table")
    mode = _mode(fields, "table")
    partition_by = tuple(text.value for text in fields.texts("partition_by"))
    key = tuple(text.value for text in fields.texts("key"))
    order_by = checked(fields.text("order_by"), values.sql, fields, "order_by")
    delete_when = checked(fields.text("delete_when"), values.sql, fields, "delete_when")
    if mode == "upsert" and fields.lacks("key"):
        fields.needs("key for the mode upsert: the columns that say which row is replaced")
    if mode != "upsert":
        for only in ("key", "order_by", "delete_when"):
            if only in fields.keys:
                fields.wrong(only, f"is for the mode upsert, and this is {mode}.")
    if input_ is None or path is None:
        return None
    return TableSink(name, fields.at, input_, path, mode, partition_by, key, order_by, delete_when)


def _other_sink(name: str, fields: Fields) -> OtherSink | None:
    input_ = fields.needed("from", "the source or step whose rows it writes")
    format_ = fields.text("format")
    path = checked(fields.text("path"), values.path, fields, "path")
    options = fields.options("options")
    mode = _mode(fields, "format")
    partition_by = tuple(text.value for text in fields.texts("partition_by"))
    if input_ is None or format_ is None:
        return None
    short = format_.value.lower()
    if short in ("barnabas", "kafka"):
        fields.wrong("format", f"is {format_.value}, which writes topics: write topic instead.")
    if short in _APPEND_ONLY:
        if mode in ("update", "complete"):
            fields.wrong(
                "mode", f"is {mode}, and files of {format_.value} can only be appended to."
            )
        if not {"path"} & (options.keys() | fields.keys):
            fields.needs(f"path (or topic) for the format {format_.value}")
    written_to = None if path is None else path.value
    return OtherSink(
        name, fields.at, input_, format_.value, written_to, options, mode, partition_by
    )
