"""JSON: what fits is a row, and whatever does not is a dead letter that says why."""

from decimal import Decimal

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f
from tests.spark.formats.records import columns, read, records, sink, source

from barnabas.spark.pipelines.formats import decode, encode
from barnabas.spark.pipelines.places import PipelineError

pytestmark = pytest.mark.timeout(400)

SCHEMA = (
    "a INT, b STRING, s STRUCT<d: INT, e: ARRAY<INT>>, m MAP<STRING, INT>, at TIMESTAMP, "
    "price DECIMAL(20,2), parts ARRAY<STRUCT<price: DECIMAL(5,1), id: INT NOT NULL>>"
)


def test_documents_that_fit(spark: SparkSession) -> None:
    given = [
        b'{"a":1,"b":"x","s":{"d":2,"e":[1,2]},"m":{"k":1}}',
        b' {"unknown": {"deep": [1, "x"]}} \n',
        b'{"a":null,"A":"another field"}',
        b'{"price": 123456789012345678.91}',
        b'{"price": "12.5"}',
        b'{"price": null, "parts": [{"price": 1.5, "id": 1}, null, {"price": null, "id": 2}]}',
        b'{"a":1,"a":2}',
        None,
    ]
    rows, dead = read(spark, given, source(SCHEMA))
    assert dead == {}
    assert [columns(rows[offset]) for offset in range(len(given))] == [
        {"a": 1, "b": "x", "s": Row(d=2, e=[1, 2]), "m": {"k": 1}},
        {},
        {},
        {"price": Decimal("123456789012345678.91")},
        {"price": Decimal("12.50")},
        {"parts": [Row(price=Decimal("1.5"), id=1), None, Row(price=None, id=2)]},
        {"a": 2},
        {},
    ]
    assert (rows[0]["_key"], rows[0]["_topic"], rows[0]["_partition"]) == ("k", "orders-topic", 3)
    assert rows[0]["_headers"] is None
    assert [(each["key"], bytes(each["value"])) for each in rows[1]["_headers"]] == [("h", b"1")]


NO_JSON = "the value is no JSON document"
NO_OBJECT = "the value is a JSON document, but no object"
DEAD = {
    b'{"a":"zz"}': "does not fit the schema: a is no INT",
    b'{"a":3000000000}': "does not fit the schema: a is no INT",
    b'{"a":1.5,"at":"noon"}': "does not fit the schema: a is no INT, at is no TIMESTAMP",
    b'{"s":{"d":"q"}}': "does not fit the schema: s is no STRUCT",
    b'{"s":{"e":[1,"x"]}}': "does not fit the schema: s is no STRUCT",
    b'{"s":5}': "does not fit the schema: s is no STRUCT",
    b'{"m":{"k":"v"}}': "does not fit the schema: m is no MAP",
    b"[]": NO_OBJECT,
    b'[{"a":1}]': NO_OBJECT,
    b"null": NO_OBJECT,
    b"12": NO_OBJECT,
    b"": NO_JSON,
    b"  ": NO_JSON,
    b'{"a":1} trailing': NO_JSON,
    b'{"a":1}{"a":2}': NO_JSON,
    b'{"a":1},{"a":2}': NO_JSON,
    b'{"a":1}],"x":[2': NO_JSON,
    b'{"a":1}]}': NO_JSON,
    b'{"a":1}\x00': NO_JSON,
    b'{"a":': NO_JSON,
    b"{" * 5000: NO_JSON,
    b'{"b":"\xff"}': "the value is no UTF-8 text",
    b'{"price":"abc"}': "price: 'abc' is no DECIMAL(20,2)",
    b'{"price":1e1000000000}': "price: 'Infinity' is no DECIMAL(20,2)",
    b'{"price":"1e1000000000"}': "price: '1e1000000000' is no DECIMAL(20,2)",
    b'{"price":12345678901234567890}': "price: '12345678901234567890' is no DECIMAL(20,2)",
    b'{"price":true}': "price: 'true' is no DECIMAL(20,2)",
    b'{"price":[1]}': "price: '[1]' is no DECIMAL(20,2)",
    b'{"parts":[{"id":1},{"price":"x","id":1}]}': "parts[].price: 'x' is no DECIMAL(5,1)",
    b'{"parts":[{"id":1},{"price":1}]}': "parts[].id: is missing or null",
}


def test_documents_that_do_not(spark: SparkSession) -> None:
    rows, dead = read(spark, list(DEAD), source(SCHEMA))
    assert rows == {}
    assert [dead[offset] for offset in range(len(DEAD))] == list(DEAD.values())


def test_what_must_be_there(spark: SparkSession) -> None:
    given = [b'{"a":1,"s":{"d":1}}', b'{"s":{"d":1}}', b'{"a":1,"s":{}}', b'{"a":1}', None]
    of = source("a INT NOT NULL, s STRUCT<d: INT NOT NULL>")
    rows, dead = read(spark, given, of)
    assert dead == {1: "a: is missing or null", 2: "s.d: is missing or null"}
    assert sorted(rows) == [0, 3, 4]


def test_options_are_handed_on(spark: SparkSession) -> None:
    given = [b'{a: 1, at: "31.01.2026 12:00"} // why not', b'{"a": 1}', b'{"at": "2026"}']
    options = {
        "allowUnquotedFieldNames": "true", "timestampformat": "dd.MM.yyyy HH:mm",
        "allowComments": "true",
    }  # fmt: skip
    rows, dead = read(spark, given, source("a INT, at TIMESTAMP", options=options))
    assert columns(rows[0])["at"].isoformat() == "2026-01-31T12:00:00"
    assert sorted(dead) == [2]


def test_without_a_schema_it_is_a_variant(spark: SparkSession) -> None:
    given = [b'{"a":[1,{"b":0.10}]}', b"null", b"12", b'"x"', b"[]", None]
    wrong = [b"", b"{} x", b"{},{}", b"1,2", b'{"a":1}]', b'{"a":1,"a":2}', b'"\xff"', b"[" * 5000]
    of = source()
    decoded = decode(records(spark, [*given, *wrong]), of, pipeline="bills")
    found = decoded.rows.select("_offset", f.to_json("value").alias("value")).collect()
    assert [row["value"] for row in sorted(found)] == [
        '{"a":[1,{"b":0.1}]}', "null", "12", '"x"', "[]", None,
    ]  # fmt: skip
    rows, dead = read(spark, [*given, *wrong], of)
    assert sorted(rows) == list(range(6))
    assert sorted(dead) == list(range(6, 14))


def test_there_and_back(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT 1 AS id, 'ä' AS name, TIMESTAMP'2026-01-31 12:00:00.5' AS at, 1.50BD AS price, "
        "named_struct('x', array(1, NULL)) AS deep, parse_json('{\"v\": [1]}') AS free, "
        "CAST(NULL AS INT) AS nothing, 'k' AS _key, 5L AS _offset"
    )
    written = encode(rows, sink())
    record = written.collect()[0]
    assert record["key"] == "k"
    assert record["value"] == (
        '{"id":1,"name":"ä","at":"2026-01-31T12:00:00.500Z","price":1.50,'
        '"deep":{"x":[1,null]},"free":{"v":[1]}}'
    )
    of = source("id INT, name STRING, at TIMESTAMP, price DECIMAL(3,2), deep STRUCT<x: ARRAY<INT>>")
    back, dead = read(spark, [record["value"].encode()], of)
    assert dead == {}
    first = rows.collect()[0]
    assert {name: first[name] for name in columns(back[0])} == columns(back[0])


@pytest.mark.parametrize(
    ("of", "sentence"),
    [
        (source("a INTT"), r"orders.yaml:9: sources.orders.schema: .*INTT"),
        (source("INT"), r"type without columns"),
        (source("a INT, _Offset BIGINT"), r"a column _Offset, which is a name of our own"),
        (source("a INT, A STRING"), r"the column A twice"),
        (source("a VARCHAR(3)"), r"orders.yaml:9: sources.orders.schema: "),
        (source("a INT", options={"timestampFormatt": "x"}), r"did you mean timestampFormat\?"),
        (source("a INT", options={"mode": "DROPMALFORMED"}), r"goes to dead_letter: leave it out"),
        (source(options={"allowComments": "true"}), r"for json with a schema"),
        (source("a INT", framing="confluent"), r"framing is for avro"),
    ],
)
def test_what_can_not_be_is_refused_with_its_line(
    spark: SparkSession, of: object, sentence: str
) -> None:
    from barnabas.spark.pipelines.formats import check_source

    with pytest.raises(PipelineError, match=sentence):
        check_source(of)  # type: ignore[arg-type]
