"""Whatever bytes a record has: a row, or a dead letter with the same bytes; never an error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.spark.formats.records import read, source, text

from barnabas.spark.pipelines.definition import TopicSource

pytestmark = pytest.mark.timeout(400)

_JSON = st.recursive(
    st.sampled_from(["1", "-0.5e3", '"x"', "null", "true", "1e999", "[]", "{}", '"2026-01-31"'])
    | st.integers().map(str)
    | st.text(max_size=5).map(lambda each: f'"{each}"'),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda each: f"[{','.join(each)}]")
        | st.dictionaries(st.sampled_from("abcde"), inner, max_size=4).map(
            lambda each: "{" + ",".join(f'"{name}":{value}' for name, value in each.items()) + "}"
        )
    ),
    max_leaves=8,
)
_TEXTS = (
    _JSON
    | st.tuples(_JSON, st.text(max_size=3)).map("".join)
    | st.lists(st.text(max_size=4), max_size=6).map(",".join)
    | st.text(alphabet='ab1,;"\\\n\r\t -.e/#', max_size=12)
)
_VALUES = (
    st.none() | st.binary(max_size=30) | _TEXTS.map(lambda each: each.encode(errors="replace"))
)


@pytest.fixture(scope="module")
def values() -> list[bytes | None]:
    """Many, for one job each: a job for each would take hours."""
    found: list[bytes | None] = []

    @settings(max_examples=400, database=None)
    @given(st.lists(_VALUES, max_size=5))
    def gather(some: list[bytes | None]) -> None:
        found.extend(some)

    gather()
    return found


_AVRO = """{"type": "record", "name": "R", "fields": [
    {"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"]}]}"""
_NESTED = (
    "a INT, b STRING NOT NULL, c STRUCT<a: DOUBLE, b: DECIMAL(5,1)>, d ARRAY<DECIMAL(3,1)>, "
    "e BOOLEAN"
)


@pytest.mark.parametrize(
    "of",
    [
        source(_NESTED),
        source(),
        source("a STRING, b INT, c DECIMAL(5,1)", format="csv"),
        source("a DOUBLE", format="csv", options={"sep": ";", "quote": "#"}),
        source(format="text", cast={"value": text("DECIMAL(5,1)")}),
        source(format="raw", expect=(text("1 / length(value) > 0.1"),)),
        source(_AVRO, format="avro"),
    ],
    ids=["json", "variant", "csv", "csv-of-one", "text", "raw", "avro"],
)
def test_a_row_or_a_dead_letter(
    spark: SparkSession, values: list[bytes | None], of: TopicSource
) -> None:
    # `read` holds that each record is one of the two, and the bytes of the dead.
    rows, dead = read(spark, values, of)
    assert rows
    assert dead
    assert all(reason and "\n" not in reason for reason in dead.values())
    assert rows.keys() >= {offset for offset, value in enumerate(values) if value is None}
