"""The `sources` of a pipeline file."""

from typing import Final, get_args

from barnabas.model.check import BrokenInvariantError
from barnabas.spark.pipelines import values
from barnabas.spark.pipelines.definition import FileSource, Format, Source, TopicSource, Watermark
from barnabas.spark.pipelines.fields import Fields, checked, fields_of
from barnabas.spark.pipelines.places import At, Text
from barnabas.spark.pipelines.problems import Problems, listed, meant, shown
from barnabas.spark.pipelines.reading_options import kafka_options
from barnabas.spark.pipelines.reading_schemas import columns, read_schema
from barnabas.spark.pipelines.yaml_nodes import Entries, Node

FORMATS: Final[tuple[Format, ...]] = get_args(Format)
METADATA: Final = ("_key", "_topic", "_partition", "_offset", "_timestamp", "_headers")
"""Columns that every source of topics has."""

_TOPICS: Final = ("topic", "topics", "pattern")
_TOPIC_KEYS: Final = (
    *_TOPICS, "format", "schema", "schema_file", "options", "framing", "key", "cast", "expect",
    "nulls", "dead_letter", "watermark", "starting", "max_per_trigger", "table", "kafka",
)  # fmt: skip
_FILE_KEYS: Final = ("format", "path", "schema", "schema_file", "options", "stream", "watermark")
_ALL_KEYS: Final = tuple(dict.fromkeys(_TOPIC_KEYS + _FILE_KEYS))
_FOR_TOPICS: Final = {key: "sources of topics" for key in _TOPIC_KEYS if key not in _FILE_KEYS}
_FOR_FILES: Final = {"path": "sources of files", "stream": "sources of files"}
_FILE_FORMATS: Final = frozenset({"csv", "json", "text", "parquet", "orc", "xml", "avro", "table"})
"""Those that can not be read without a path."""


def read_source(name: str, at: At, node: Node, folder: str, problems: Problems) -> Source | None:
    """One source; None after what is wrong with it was noted."""
    fields = fields_of(f"sources.{shown(name)}", at, node, problems)
    if fields is None:
        return None
    given = [key for key in _TOPICS if key in fields.keys]
    if len(given) > 1:
        problems.add(at, f"{fields.label} has {listed(given)}: take one of them.")
        return None
    if given or ("path" not in fields.keys and fields.means(_TOPICS, _ALL_KEYS)):
        return _topic_source(name, fields, folder)
    if "format" in fields.keys or "path" in fields.keys:
        return _file_source(name, fields, folder)
    found = len(problems)
    fields.refuse_others(_ALL_KEYS)
    if len(problems) == found:
        fields.needs("topic, topics or pattern, or the format and path of what else it reads")
    return None


def _topic_source(name: str, fields: Fields, folder: str) -> TopicSource | None:
    found = len(fields.problems)
    fields.refuse_others(_TOPIC_KEYS, _FOR_FILES)
    topics, pattern = _subscription(fields)
    format_ = fields.word("format", FORMATS, "json")
    schema = _topic_schema(fields, folder, format_)
    source = TopicSource(
        name,
        fields.at,
        topics,
        pattern,
        format_,
        schema,
        options=fields.options("options"),
        framing=fields.word("framing", ("none", "confluent"), "none"),
        key=fields.word("key", ("text", "binary"), "text"),
        cast=fields.texts_by_key("cast", "columns, each with a type"),
        expect=fields.texts("expect"),
        nulls=fields.word("nulls", ("keep", "skip", "dead-letter"), "keep"),
        dead_letter=checked(fields.text("dead_letter"), values.topic, fields, "dead_letter"),
        watermark=_watermark(fields),
        starting=fields.word("starting", ("earliest", "latest"), "earliest"),
        max_per_trigger=fields.whole("max_per_trigger"),
        table=fields.flag("table"),
        kafka=kafka_options(fields),
    )
    if len(fields.problems) == found:
        _check_columns(fields, source)
        _check_together(fields, source)
    return source if len(fields.problems) == found else None


def _subscription(fields: Fields) -> tuple[tuple[str, ...], str | None]:
    pattern = checked(fields.text("pattern"), values.pattern, fields, "pattern")
    topic = checked(fields.text("topic"), values.topic, fields, "topic")
    listed_ = [checked(text, values.topic, fields, "topics") for text in fields.texts("topics")]
    topics = tuple(text.value for text in (topic, *listed_) if text is not None)
    return topics, None if pattern is None else pattern.value


def _topic_schema(fields: Fields, folder: str, format_: Format) -> Text | None:
    key = "schema_file" if "schema_file" in fields.keys else "schema"
    given = key in fields.keys
    if format_ in ("text", "raw") and given:
        fields.wrong(key, f"is not for the format {format_}, which has one column, value.")
        return None
    if format_ in ("csv", "avro") and fields.lacks(key):
        like = "its columns, as in `id BIGINT, at TIMESTAMP`" if format_ == "csv" else "its JSON"
        fields.needs(f"schema ({like}) or schema_file for the format {format_}")
        return None
    return read_schema(fields, folder, avro=format_ == "avro")


def _file_source(name: str, fields: Fields, folder: str) -> FileSource | None:
    found = len(fields.problems)
    fields.refuse_others(_FILE_KEYS, _FOR_TOPICS)
    format_ = fields.needed("format", "what Spark calls it, such as csv, parquet or jdbc")
    path = checked(fields.text("path"), values.path, fields, "path")
    stream = fields.flag("stream")
    schema = read_schema(fields, folder, avro=False)
    options = fields.options("options")
    watermark = _watermark(fields)
    if watermark is not None and not stream:
        fields.wrong("watermark", "is for streams: add stream: true, or leave it out.")
    if format_ is not None and format_.value in ("barnabas", "kafka"):
        fields.wrong("format", f"is {format_.value}, which reads topics: write topic instead.")
    if (
        format_ is not None
        and format_.value.lower() in _FILE_FORMATS
        and not {"path", "paths"} & (options.keys() | fields.keys)
    ):
        fields.needs(f"path (or topic) for the format {format_.value}")
    if watermark is not None and schema is not None:
        known = columns(schema, avro=False)
        if known is not None:
            _check_known(fields, "watermark", watermark.at, watermark.column, known)
    if len(fields.problems) > found or format_ is None:
        return None
    return FileSource(
        name,
        fields.at,
        format_.value,
        None if path is None else path.value,
        schema,
        options,
        stream,
        watermark,
    )


def _watermark(fields: Fields) -> Watermark | None:
    node = fields.node("watermark")
    if isinstance(node, Entries):
        inner = fields.under("watermark")
        if inner is None:
            raise BrokenInvariantError("inner is there by now")
        inner.refuse_others(("column", "delay"))
        column = inner.needed("column", "a column with timestamps")
        delay = inner.needed("delay", "how late a row may be, such as 30 seconds")
        where, key = inner, "delay"
    else:
        short = fields.text("watermark")
        if short is None:
            return None
        name, comma, late = (part.strip() for part in short.value.partition(","))
        if not (name and comma and late):
            fields.wrong(
                "watermark",
                f"wants a column and a delay, as in `at, 30 seconds`, and {shown(short.value)} "
                "stands there.",
            )
            return None
        column, delay = Text(name, short.at), Text(late, short.at)
        where, key = fields, "watermark"
    delay = checked(delay, values.duration, where, key)
    if column is None or delay is None:
        return None
    return Watermark(column.value, delay.value, column.at)


def _check_columns(fields: Fields, source: TopicSource) -> None:
    """Columns that are named must be there, as far as the schema can be understood here."""
    avro = source.format == "avro"
    known = ("value",) if source.schema is None else columns(source.schema, avro=avro)
    if known is None:
        return
    for name in known:
        if source.schema is not None and name.lower() in METADATA:
            sentence = f"has the column {name}, which every source of topics has already."
            fields.problems.add(source.schema.at, f"{fields.path('schema')} {sentence}")
    for name, type_ in source.cast.items():
        _check_known(fields, "cast", type_.at, name, known)
    if source.watermark is not None:
        both = (*known, "_timestamp")
        _check_known(fields, "watermark", source.watermark.at, source.watermark.column, both)


def _check_known(fields: Fields, key: str, at: At, column: str, known: tuple[str, ...]) -> None:
    if column.strip("`").lower() not in {name.lower() for name in known}:
        has = f": there are {listed(known)}." if len(known) > 1 else f": there is {listed(known)}."
        sentence = f"names the column {shown(column)}, which is not there"
        fields.problems.add(at, f"{fields.path(key)} {sentence}{meant(column, known, has)}")


def _check_together(fields: Fields, source: TopicSource) -> None:
    for type_ in source.cast.values():
        checked(type_, values.sql, fields, "cast")
    for condition in source.expect:
        checked(condition, values.sql, fields, "expect")
    if source.framing != "none" and source.format != "avro":
        fields.wrong("framing", f"is for the format avro, and this is {source.format}.")
    if source.nulls == "dead-letter" and source.dead_letter is None:
        fields.wrong("nulls", "is dead-letter: add dead_letter, the topic for them.")
    if source.table:
        for key in ("watermark", "dead_letter", "starting", "max_per_trigger"):
            if key in fields.keys:
                fields.wrong(key, "is for streams: table: true reads the topic whole each time.")
    if source.dead_letter is not None and reads(source, source.dead_letter.value):
        fields.wrong(
            "dead_letter",
            f"is {source.dead_letter.value}, which this source reads itself: take another topic.",
        )


def reads(source: Source, topic: str) -> bool:
    """Whether a source reads a topic."""
    from barnabas.spark.source.subscription import compile_pattern

    if not isinstance(source, TopicSource):
        return False
    if source.pattern is not None:
        return compile_pattern(source.pattern).search(topic) is not None
    return topic in source.topics
