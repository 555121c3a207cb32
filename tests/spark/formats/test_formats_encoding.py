"""Rows as records: keys, values, and what can not be one."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.formats.records import sink, text

from barnabas.spark.pipelines.formats import check_sink, encode
from barnabas.spark.pipelines.places import PipelineError


@pytest.mark.parametrize(
    ("select", "key", "expected"),
    [
        ("1 AS a, 'x' AS _key", None, "x"),
        ("1 AS a, X'FF' AS _key", None, bytearray(b"\xff")),
        ("1 AS a, 'x' AS _key", "a + 1", "2"),
        ("1 AS a, 'x' AS b", "b", "x"),
        ("1 AS a, 'x' AS b", "struct(a, b)", '{"a":1,"b":"x"}'),
        ("1 AS a, 1.50BD AS b", "b", "1.50"),
        ("1 AS a", "CAST(NULL AS INT)", None),
    ],
)
def test_keys(spark: SparkSession, select: str, key: str | None, expected: Any) -> None:
    into = sink(key=None if key is None else text(key))
    record = encode(spark.sql(f"SELECT {select}"), into).collect()[0]
    assert record["key"] == expected


pytestmark = pytest.mark.timeout(400)


def test_without_a_key(spark: SparkSession) -> None:
    assert encode(spark.sql("SELECT 1 AS a"), sink()).columns == ["value"]


def test_options_and_metadata(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT CAST(NULL AS INT) AS a, TIMESTAMP'2026-01-31 12:00:00' AS at, 1 AS _mine, "
        "1 AS _partition, 'x' AS _topic"
    )
    options = {"ignoreNullFields": "false", "timestampFormat": "yyyy"}
    assert encode(rows, sink(options=options)).collect()[0]["value"] == (
        '{"a":null,"at":"2026","_mine":1}'
    )
    into = sink(format="csv", options={"sep": ";"})
    assert encode(rows, into).collect()[0]["value"] == ";2026-01-31T12:00:00.000Z;1"


def test_text_and_raw(spark: SparkSession) -> None:
    one = spark.sql("SELECT 1.50BD AS price, 'k' AS _key")
    assert encode(one, sink(format="text")).collect()[0]["value"] == "1.50"
    several = spark.sql("SELECT 1 AS a, array(1) AS value")
    assert encode(several, sink(format="text")).collect()[0]["value"] == "[1]"
    raw = spark.sql(
        "SELECT X'00FF' AS value, 2 AS partition, TIMESTAMP'2026-01-31 12:00:00' AS timestamp, "
        "array(named_struct('key', 'h', 'value', X'01')) AS headers, 'k' AS _key"
    )
    records = encode(raw, sink(format="raw"))
    assert records.columns == ["key", "value", "headers", "partition", "timestamp"]
    assert bytes(records.collect()[0]["value"]) == b"\x00\xff"
    nothing = spark.sql("SELECT CAST(NULL AS STRING) AS value")
    assert encode(nothing, sink(format="raw")).collect()[0]["value"] is None


@pytest.mark.parametrize(
    ("columns", "of", "sentence"),
    [
        ("a INT", {"key": text("b", 12)}, r"orders.yaml:12: sinks.totals.key: .*`b`"),
        ("a INT", {"key": text("a +")}, r"orders.yaml:9: sinks.totals.key: "),
        ("_key STRING", {}, r"per_minute has no columns for a value"),
        ("a INT", {"format": "raw"}, r"per_minute has no column value"),
        ("value INT", {"format": "raw"}, r"value is of type INT: cast it to STRING or BINARY"),
        ("value STRING, partition BIGINT", {"format": "raw"}, r"partition is of type BIGINT"),
        ("a INT, b INT", {"format": "text"}, r"per_minute has 2 columns: select one"),
        ("a STRUCT<b: VARIANT>", {"format": "csv"}, r"orders.yaml:7: sinks.totals as csv: "),
        ("a INT", {"format": "csv", "options": {"header": "true"}}, r"no header line"),
        ("a INT", {"options": {"ignoreNulls": "true"}}, r"did you mean ignoreNullFields\?"),
        ("a INT", {"schema": text("a INT")}, r"sinks.totals.schema is for avro"),
        ("a VARIANT", {"format": "avro"}, r"a is of type VARIANT, which Avro does not have"),
        ("`a b` INT", {"format": "avro"}, r"the column a b has a name that Avro does not take"),
        (
            "a INT",
            {"format": "avro", "schema": text('{"type":"record","name":"R","fields":[]}')},
            r"R is a record without fields",
        ),
        (
            "a INT",
            {
                "format": "avro",
                "schema": text('{"type":"record","name":"R","fields":[{"name":"b","type":"int"}]}'),
            },
            r"has the field b, and per_minute no column of that name",
        ),
        (
            "a INT, c INT",
            {
                "format": "avro",
                "schema": text('{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'),
            },
            r"has no field c, which is a column of per_minute",
        ),
    ],
)
def test_what_can_not_be_is_refused(
    spark: SparkSession, columns: str, of: dict[str, Any], sentence: str
) -> None:
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(columns)
    assert isinstance(schema, StructType)
    with pytest.raises(PipelineError, match=sentence):
        check_sink(sink(**of), schema)
