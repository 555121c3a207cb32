"""DataFrames that both connectors write: a stranger's consumer reads the same topics back."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from tests.compat.clients.spark.harness import (
    FORMATS,
    OFFICIAL,
    OURS,
    STREAM_S_MAX,
    Bench,
    Options,
    differences,
)
from tests.compat.clients.spark.topics import Stored, read_topic

Row = tuple[Any, ...]


class SinkCase(NamedTuple):
    """Rows of a schema, and where they go."""

    name: str
    schema: str
    rows: Sequence[Row]
    options: Options = {}  # noqa: RUF012 - a mapping that nobody changes
    topics: tuple[str, ...] = ("",)
    """Suffixes of the topics that are written, which the rows' topic column may name."""
    is_keyed: bool = True
    """Whether every row's partition follows from the row: without a key it is anybody's choice."""


HEADERS: Final = "array<struct<key: string, value: binary>>"
_KEYED: Final = [(f"key {number % 40}", f"value {number}") for number in range(400)]
_ODD_HEADERS: Final = [
    (b"0", None),
    (b"1", []),
    (b"2", [("one", b"1")]),
    (b"3", [("twice", b"1"), ("twice", b"2")]),
    (b"4", [("nothing", None), ("empty", b"")]),
    (b"5", [("schön", "grün".encode())]),
]

CASES: Final = (
    SinkCase("strings", "key string, value string", _KEYED),
    SinkCase(
        "bytes",
        "key binary, value binary",
        [(bytes([n, 255 - n]), bytes(range(n))) for n in range(200)],
    ),
    SinkCase("empty keys and values", "key string, value string", [("", ""), ("a", ""), ("", "b")]),
    SinkCase("tombstones", "key string, value string", [("a", None), ("b", "kept"), ("a", None)]),
    SinkCase("letters", "key string, value string", [("ключ", "значение"), ("鍵", "🗝")]),
    SinkCase("large values", "key string, value string",
             [(f"{n}", "x" * 200_000) for n in range(12)]),
    SinkCase("columns in another order", "value string, key string", [("v", "k"), ("w", "l")]),
    SinkCase("more columns than a topic takes", "id long, key string, value string, note double",
             [(n, f"{n}", f"v{n}", 0.5) for n in range(20)]),
    SinkCase("no key column", "value string", [(f"{n}",) for n in range(50)], is_keyed=False),
    SinkCase(
        "some keys are null",
        "key string, value string",
        [(None if n % 3 else f"{n}", f"v{n}") for n in range(50)],
        is_keyed=False,
    ),
    SinkCase("no rows", "key string, value string", []),
    SinkCase("headers", f"key binary, headers {HEADERS}, value string",
             [(key, headers, f"v{n}") for n, (key, headers) in enumerate(_ODD_HEADERS)]),
    SinkCase(
        "a partition column",
        "key string, value string, partition int",
        [(f"{n}", f"v{n}", n % 3) for n in range(60)],
    ),
    SinkCase(
        "a partition column with nulls",
        "key string, value string, partition int",
        [(f"{n}", f"v{n}", None if n % 2 else 2) for n in range(60)],
    ),
    SinkCase(
        "a topic column",
        "topic string, key string, value string",
        [("one" if n % 3 else "two", f"{n}", f"v{n}") for n in range(60)],
        topics=("one", "two"),
    ),
    SinkCase(
        "the option outranks the column",
        "topic string, key string, value string",
        [("two", f"{n}", f"v{n}") for n in range(20)],
        {"topic": "one"},
        topics=("one", "two"),
    ),
    *(
        SinkCase(f"compressed with {codec}", "key string, value string", _KEYED,
                 {"kafka.compression.type": codec})
        for codec in ("gzip", "snappy", "lz4", "zstd")
    ),
    SinkCase("acks=1", "key string, value string", _KEYED, {"kafka.acks": "1"}),
)  # fmt: skip

PARTITIONS: Final = 4


def compare(bench: Bench, case: SinkCase) -> Iterator[str]:
    """What the two connectors write differently."""
    written = {name: _written(bench, case, name, _save) for name in FORMATS}
    yield from _compared(f"sink, {case.name}", case, written)


def compare_streamed(bench: Bench, case: SinkCase) -> Iterator[str]:
    """The same rows, through a query that ends in a topic."""
    written = {name: _written(bench, case, name, _stream) for name in FORMATS}
    yield from _compared(f"streaming sink, {case.name}", case, written)


def frame(spark: SparkSession, schema: str | StructType, rows: Sequence[Row]) -> DataFrame:
    """In one task, so that rows have an order."""
    return spark.createDataFrame(list(rows), schema).coalesce(1)


def _written(
    bench: Bench, case: SinkCase, format_name: str, write: Callable[..., None]
) -> dict[str, list[Stored]]:
    base = (
        f"{write.__name__.strip('_')}-{case.name.replace(' ', '-').replace('=', '-')}-{format_name}"
    )
    for suffix in case.topics:
        bench.topics.create(base + suffix, PARTITIONS)
    options = dict(case.options)
    if "topic" in options or len(case.topics) == 1:
        options["topic"] = base + options.get("topic", "")
    df = frame(bench.spark, case.schema, case.rows)
    if "topic" in df.columns:
        df = df.selectExpr(f"concat('{base}', topic) AS topic", "key", "value")
    write(bench, format_name, df, options, base)
    return {suffix: read_topic(bench.topics.bootstrap, base + suffix) for suffix in case.topics}


def _save(bench: Bench, format_name: str, df: DataFrame, options: Options, base: str) -> None:
    bench.write(format_name, df, options)


def _stream(bench: Bench, format_name: str, df: DataFrame, options: Options, base: str) -> None:
    folder = bench.home / f"{base}-files"
    df.write.parquet(str(folder))
    query = (
        bench.spark.readStream.schema(df.schema)
        .parquet(str(folder))
        .coalesce(1)
        .writeStream.format(format_name)
        .options(**bench.servers, **options)
        .option("checkpointLocation", str(bench.home / f"{base}-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        if not query.awaitTermination(STREAM_S_MAX):
            raise TimeoutError(f"the query into {format_name} does not end")
    finally:
        query.stop()


def _compared(
    name: str, case: SinkCase, written: dict[str, dict[str, list[Stored]]]
) -> Iterator[str]:
    total = 0
    for suffix in case.topics:
        both = [_comparable(written[each][suffix], case.is_keyed) for each in (OFFICIAL, OURS)]
        total += len(both[0])
        for line in differences(*both):
            yield f"{name}: topic {suffix!r}: {line}"
    if total != len(case.rows):
        yield f"{name}: official wrote {total} of {len(case.rows)} rows"


def _comparable(records: list[Stored], is_keyed: bool) -> list[Row]:
    """Partition by partition in order; without keys, whatever partition they took."""
    if is_keyed:
        return [(each.partition, each.key, each.value, each.headers) for each in records]
    return sorted(((each.key, each.value, each.headers) for each in records), key=repr)
