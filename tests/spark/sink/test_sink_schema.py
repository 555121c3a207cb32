"""Which columns make a record: the official connector's rules."""

import pytest
from tests.spark.sink.written import HEADERS, schema

from barnabas.spark.errors import SparkJobError
from barnabas.spark.sink.options import parse
from barnabas.spark.sink.rows import RowShape, check_schema, narrow

SERVERS = {"kafka.bootstrap.servers": "broker:9092"}


def shape_of(columns: str, **options: str) -> RowShape:
    return check_schema(schema(columns), parse(SERVERS | options, streaming=False))


def test_every_column_finds_its_place_and_others_are_ignored() -> None:
    columns = f"x int, topic string, value string, headers {HEADERS}, key binary, partition int"
    assert shape_of(columns) == RowShape(value=2, key=4, headers=3, topic=1, partition=5)
    assert shape_of("value binary, timestamp timestamp", topic="t") == RowShape(value=0)
    timed = shape_of("value binary, timestamp timestamp", topic="t", includeTimestamp="true")
    assert timed == RowShape(value=0, timestamp=1)


def test_the_option_goes_before_the_column_whatever_that_holds() -> None:
    assert shape_of("topic int, value string", topic="t") == RowShape(value=1)


def test_only_needed_columns_are_looked_at() -> None:
    shape = RowShape(value=4, key=2, topic=7)
    assert narrow(shape) == (RowShape(value=0, key=1, topic=2), [4, 2, 7])
    assert narrow(RowShape(value=3)) == (RowShape(value=0), [3])


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        ("value string", {}, "No topic to write to: set the option topic, or give each row"),
        ("value string, Topic string", {}, "No topic to write to"),
        ("topic int, value string", {}, "The column topic is of type int: cast it to string."),
        ("key string, v int", {"topic": "t"}, "make one of the columns key, v,"),
        ("Value string", {"topic": "t"}, "rename Value to value"),
        ("value int", {"topic": "t"}, "column value is of type int: cast it to string or binary."),
        ("key bigint, value string", {"topic": "t"}, "The column key is of type bigint"),
        ("partition bigint, value string", {"topic": "t"}, "type bigint: cast it to int."),
        (
            "headers map<string,binary>, value string",
            {"topic": "t"},
            f"map<string,binary>: cast it to {HEADERS}.",
        ),
        ("value string", {"topic": "t", "includeTimestamp": "true"}, "needs a timestamp column"),
        (
            "value string, timestamp bigint",
            {"topic": "t", "includeTimestamp": "true"},
            "The column timestamp is of type bigint: cast it to timestamp.",
        ),
    ],
)
def test_a_sentence_for_rows_that_are_no_records(
    columns: str, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(SparkJobError) as error:
        shape_of(columns, **options)
    assert sentence in str(error.value)
