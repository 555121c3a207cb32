"""Avro: every type that columns have there and back, and bytes that are no record."""

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType
from tests.spark.formats.records import columns, read, records, sink, source, text

from barnabas.spark.deaths import sentence_of
from barnabas.spark.pipelines.definition import TopicSource
from barnabas.spark.pipelines.formats import check_sink, check_source, decode, encode
from barnabas.spark.pipelines.formats.avro_derived import derived_schema
from barnabas.spark.pipelines.formats.avro_schemas import read_schema
from barnabas.spark.pipelines.formats.of_avro import as_arrow, read_record
from barnabas.spark.pipelines.places import PipelineError

pytestmark = pytest.mark.timeout(400)

UUID = "5f0b3f6e-4b5c-4a7e-9d8e-0123456789ab"
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "count", "type": ["null", "int"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "extra", "type": {"type": "map", "values": ["double", "null"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2},
        },
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {
            "name": "buyer",
            "type": {
                "type": "record",
                "name": "Person",
                "fields": [{"name": "name", "type": "string"}, {"name": "vip", "type": "boolean"}],
            },
        },
        {"name": "payer", "type": ["null", "Person"]},
        {"name": "before", "type": "State"},
    ],
}
ORDER: dict[str, Any] = {
    "id": 1,
    "count": None,
    "state": "PAID",
    "hash": b"abcd",
    "tags": ["x", "ä"],
    "extra": {"a": 1.5, "b": None},
    "at": datetime(2026, 1, 31, 12, 0, 0, 123000, tzinfo=UTC),
    "seen": datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC),
    "day": date(2026, 1, 31),
    "price": Decimal("-1234567890123456789012345678.91"),
    "uuid": UUID,
    "buyer": {"name": "Ann", "vip": True},
    "payer": {"name": "Bob", "vip": False},
    "before": "NEW",
}


def avro(schema: Any = SCHEMA, **more: object) -> TopicSource:
    return source(json.dumps(schema), format="avro", **more)


def written(record: Any, schema: Any = SCHEMA) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), record)
    return file.getvalue()


def field(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}


def test_every_type(spark: SparkSession) -> None:
    rows, dead = read(spark, [written(ORDER), written(ORDER | {"payer": None}), None], avro())
    assert dead == {}
    naive = {
        name: value.replace(tzinfo=None) if isinstance(value, datetime) else value
        for name, value in ORDER.items()
        if name != "count"
    }
    expected = naive | {
        "hash": bytearray(b"abcd"),
        "buyer": Row(name="Ann", vip=True),
        "payer": Row(name="Bob", vip=False),
    }
    assert columns(rows[0]) == expected
    assert "payer" not in columns(rows[1])
    assert columns(rows[2]) == {}


def test_bytes_that_are_no_record(spark: SparkSession) -> None:
    good = written(ORDER)
    cut = [good[:length] for length in range(0, len(good), 9)]
    rows, dead = read(spark, [*cut, good + b"\0\0", good, b"\xff" * 40], avro())
    assert sorted(rows) == [len(cut) + 1]
    assert dead[len(cut)] == "2 bytes are left behind the Avro record"
    assert dead[0].startswith("the value is no record of the Avro schema (")


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", written({"f": 2**40}, field("long"))),
        (DECIMAL, written({"f": b"\x7f\xff\xff"}, field("bytes"))),
        (DECIMAL, written({"f": b"\x7f" * 100_000}, field("bytes"))),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            written({"f": 2**62}, field("long")),
        ),
        ({"type": "string", "logicalType": "uuid"}, written({"f": "no"}, field("string"))),
        ("string", written({"f": b"\xff"}, field("bytes"))),
        ({"type": "array", "items": "int"}, b"\x02" + written({"f": 2**40}, field("long"))),
    ],
)
def test_values_that_do_not_fit(kind: Any, value: bytes) -> None:
    found = as_rows([value, None, value], field(kind))
    assert found == [(False, True), (False, False), (False, True)]


def as_rows(
    values: list[bytes | None], schema: Any, framed: bool = False
) -> list[tuple[bool, bool]]:
    """What the function within Spark makes of a batch: whether there is a record, and a problem."""
    known = read_schema(text(json.dumps(schema)), "here")
    found = [read_record(value, known.plain, known.convert, framed) for value in values]
    arrow = to_arrow_type(known.kind, timezone="UTC")
    rows = as_arrow([each[0] for each in found], [each[1] for each in found], arrow)
    return list(zip(*(rows.field(part).is_valid().to_pylist() for part in (0, 1)), strict=True))


@given(
    st.lists(
        st.none()
        | st.binary(max_size=80)
        | st.tuples(st.integers(0, 200), st.binary(min_size=1, max_size=3)).map(
            lambda change: written(ORDER)[: change[0]] + change[1] + written(ORDER)[change[0] + 1 :]
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_any_bytes_are_a_record_or_have_a_problem(values: list[bytes | None], framed: bool) -> None:
    for value, (is_record, is_problem) in zip(values, as_rows(values, SCHEMA, framed), strict=True):
        assert is_record + is_problem == (value is not None)


def test_framing_of_registries(spark: SparkSession) -> None:
    good = written({"f": "x"}, field("string"))
    given = [b"\0\0\0\0\x07" + good, good, b"\x01\0\0\0\x07" + good, b"\0\0\0", b"\0\0\0\0\x07"]
    rows, dead = read(spark, given, avro(field("string"), framing="confluent"))
    assert columns(rows[0]) == {"f": "x"}
    assert sorted(dead) == [1, 2, 3, 4]
    assert dead[2] == "the value does not begin with 0 and the number of a schema"


def test_records_are_decoded_once(spark: SparkSession) -> None:
    rows = decode(records(spark, [b""]), avro(field("string")), pipeline="bills").rows
    plan = rows.where("f > 'a'")._jdf.queryExecution().executedPlan().toString()
    assert plan.count("ArrowEvalPython") == 1


def test_there_and_back_with_a_schema(spark: SparkSession) -> None:
    # Of the columns as they were read, so that every type is written as well.
    given = written(ORDER)
    rows = decode(records(spark, [given]), avro(), pipeline="bills").rows
    into = sink(format="avro", schema=text(json.dumps(SCHEMA)))
    check_sink(into, rows.schema)
    record = encode(rows, into).collect()[0]
    assert (record["key"], bytes(record["value"])) == ("k", given)


def test_there_and_back_without_one(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT CAST(1 AS TINYINT) AS small, 2L AS id, 'ä' AS name, X'00FF' AS bytes, true AS yes, "
        "1.5D AS double, CAST(2.5 AS FLOAT) AS float, 12.50BD AS price, DATE'2026-01-31' AS day, "
        "TIMESTAMP'2026-01-31 12:00:00.123456' AS at, TIMESTAMP_NTZ'2026-01-31 12:00:00' AS local, "
        "array(named_struct('x', 1), NULL) AS list, map('k', 1.0D) AS map, "
        "CAST(NULL AS STRING) AS nothing, X'0102' AS _key"
    )
    record = encode(rows, sink(format="avro")).collect()[0]
    assert bytes(record["key"]) == b"\x01\x02"

    kind = StructType(rows.schema.fields[:-1])
    schema = derived_schema(kind, "row", text("").at, "here")
    back, dead = read(spark, [bytes(record["value"])], avro(schema))
    assert dead == {}
    first = rows.collect()[0]
    assert columns(back[0]) == {name: first[name] for name in kind.names if name != "nothing"}


def test_rows_that_the_schema_does_not_take(spark: SparkSession) -> None:
    schema = field({"type": "enum", "name": "E", "symbols": ["A"]})
    into = sink(format="avro", schema=text(json.dumps(schema)))
    rows = encode(spark.sql("SELECT 'B' AS f"), into)
    with pytest.raises(Exception, match=r"sinks\.totals") as raised:
        rows.collect()
    assert sentence_of(raised.value).startswith("sinks.totals can not write a row as Avro (")


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (["int", "string"], r"R.f may be of several types"),
        ("null", r"R.f is of type null"),
        ({"type": "array", "items": ["null"]}, r"R.f\[\] may be of several types, or of none"),
        ({"type": "int", "logicalType": "time-millis"}, r"R.f is a time-millis"),
        (["null", "R"], r"R.f is of type R, which holds itself"),
        ({"type": "record", "name": "E", "fields": []}, r"R.f is a record without fields"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 1},
            r"R.f has 50 digits",
        ),
        ("nosuch", r"is no Avro schema: .*nosuch"),
    ],
)
def test_schemas_without_counterpart(spark: SparkSession, kind: Any, sentence: str) -> None:
    with pytest.raises(PipelineError, match=f"orders.yaml:9: sources.orders.schema.*{sentence}"):
        check_source(avro(field(kind)))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("{", r"is no JSON: "),
        ('"string"', r"is no record"),
        ("[]", r"is no record"),
        ('{"type": "record", "fields": []}', r"is no Avro schema"),
        (json.dumps(field("int")).replace('"f"', '"_key"'), r"a name of our own"),
    ],
)
def test_no_schemas(spark: SparkSession, given: str, sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence):
        check_source(source(given, format="avro"))
    with pytest.raises(PipelineError, match=r"has the format avro and no schema"):
        check_source(source(format="avro"))
