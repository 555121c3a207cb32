"""CSV, text and raw values: rows of them, and what is none."""

from datetime import date
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession
from tests.spark.formats.records import columns, read, sink, source

from barnabas.spark.pipelines.definition import TopicSource
from barnabas.spark.pipelines.formats import check_source, encode
from barnabas.spark.pipelines.places import PipelineError

pytestmark = pytest.mark.timeout(400)

SCHEMA = "id STRING, count INT, price DECIMAL(10,2), day DATE"


def csv(schema: str | None = SCHEMA, **more: object) -> TopicSource:
    return source(schema, format="csv", **more)


def test_lines(spark: SparkSession) -> None:
    given = [
        b"x,1,2.50,2026-01-31",
        b'"a, \\"b\\"\nc",1,,\r\n',
        b',,"",',
        None,
    ]
    rows, dead = read(spark, given, csv())
    assert dead == {}
    assert [columns(rows[offset]) for offset in range(4)] == [
        {"id": "x", "count": 1, "price": Decimal("2.50"), "day": date(2026, 1, 31)},
        {"id": 'a, "b"\nc', "count": 1},
        {},
        {},
    ]


SHAPE = "the value is no line of 4 columns"
DEAD = {
    b"": SHAPE,
    b"x,1,2": SHAPE,
    b"x,1,2,2026-01-31,5": SHAPE,
    b"x,1,2,2026-01-31\ny,1,2,2026-01-31": SHAPE,
    b'x,1,2,"2026-01-31': SHAPE,
    b",".join([b"1"] * 30_000): SHAPE,
    b"x,one,2,someday": "does not fit the schema: count is no INT, day is no DATE",
    b"x,1,two,": "price: 'two' is no DECIMAL(10,2)",
    b"x,1,1e1000000000,": "price: '1e1000000000' is no DECIMAL(10,2)",
    b"\xff,1,2,": "the value is no UTF-8 text",
}


def test_what_is_no_line(spark: SparkSession) -> None:
    rows, dead = read(spark, list(DEAD), csv())
    assert rows == {}
    assert [dead[offset] for offset in range(len(DEAD))] == list(DEAD.values())


def test_separators_and_what_must_be_there(spark: SparkSession) -> None:
    given = [b"1\t2", b"1,2", b"\t2", b"1\t2\t3"]
    rows, dead = read(spark, given, csv("a INT NOT NULL, b INT", options={"sep": r"\t"}))
    assert columns(rows[0]) == {"a": 1, "b": 2}
    assert dead[2] == "a: is missing or null"
    assert sorted(dead) == [1, 2, 3]
    rows, dead = read(spark, [b"1||2", b"1|2"], csv("a INT, b INT", options={"sep": "||"}))
    assert (sorted(rows), sorted(dead)) == ([0], [1])


def test_there_and_back(spark: SparkSession) -> None:
    values = [("a,b", 1, Decimal("2.50")), ('say "x"', None, None), (" ", 3, Decimal("0.00"))]
    rows = spark.createDataFrame(values, "id STRING, count INT, price DECIMAL(10,2)")
    written = [row["value"].encode() for row in encode(rows, sink(format="csv")).collect()]
    back, dead = read(spark, written, csv("id STRING, count INT, price DECIMAL(10,2)"))
    assert dead == {}
    found = [(row["id"], row["count"], row["price"]) for _, row in sorted(back.items())]
    # Spaces around values are none of CSV's business, until someone switches that off.
    assert found == [values[0], values[1], (None, 3, Decimal("0.00"))]


def test_text_and_raw(spark: SparkSession) -> None:
    given = ["ä".encode(), b"", b"\xff\x00", "\ud800".encode("utf-8", "surrogatepass"), None]
    rows, dead = read(spark, given, source(format="text"))
    assert {offset: row["value"] for offset, row in rows.items()} == {0: "ä", 1: "", 4: None}
    assert set(dead.values()) == {"the value is no UTF-8 text"}
    rows, dead = read(spark, given, source(format="raw"))
    assert dead == {}
    found = [row["value"] for _, row in sorted(rows.items())]
    assert [None if value is None else bytes(value) for value in found] == given


@pytest.mark.parametrize(
    ("of", "sentence"),
    [
        (csv(None), r"orders.yaml:7: sources.orders has the format csv and no schema"),
        (csv("a ARRAY<INT>"), r"csv can not be of type ARRAY, as a is"),
        (csv(options={"header": "true"}), r"a record has no header line"),
        (csv(options={"separator": ";"}), r"has no separator for csv"),
        (source("a INT", format="text"), r"whose one column is value: drop the schema"),
        (source(format="raw", options={"sep": ";"}), r"raw has no options"),
    ],
)
def test_what_can_not_be_is_refused(spark: SparkSession, of: TopicSource, sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence):
        check_source(of)
