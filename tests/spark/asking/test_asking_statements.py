"""Which relations a question names, and what is no question."""

import pytest
from pyspark.sql import SparkSession

from barnabas.spark.asking.statements import read
from barnabas.spark.asking.troubles import AskingError

# Spark's own start is part of whichever test comes first.
pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT 1", []),
        ("VALUES (1), (2)", []),
        ("SELECT * FROM orders", ["orders"]),
        ("TABLE orders", ["orders"]),
        ("FROM orders |> WHERE offset > 1", ["orders"]),
        ("SELECT * FROM `my-orders` o JOIN b USING (key)", ["my-orders", "b"]),
        ("SELECT (SELECT max(x) FROM b) FROM a WHERE k IN (SELECT k FROM c)", ["a", "b", "c"]),
        ("SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.k = a.k)", ["a", "b"]),
        ("WITH c AS (SELECT * FROM a) SELECT * FROM c JOIN C ON true", ["a"]),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", ["a"]),
        ("WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b, d", ["d"]),
        ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a), a", ["a"]),
        ("WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT * FROM r) SELECT * FROM r", []),
        ("EXPLAIN SELECT * FROM a", ["a"]),
        ("DESCRIBE a", ["a"]),
        ("DESCRIBE SELECT * FROM a", ["a"]),
        ("SELECT * FROM range(3)", []),
        ("SELECT * FROM csv.`/some/file.csv` JOIN a", ["a"]),
        ("SELECT * FROM `./archives/orders`", ["./archives/orders"]),
    ],
)
def test_relations_are_found_wherever_they_stand(
    spark: SparkSession, text: str, names: list[str]
) -> None:
    statement = read(spark, text)
    assert sorted(each.name for each in statement.relations) == sorted(names)
    assert statement.text == text


def test_names_of_several_parts_become_one_word_in_the_same_place(spark: SparkSession) -> None:
    text = "SELECT '𝄞', x.key FROM my.orders x, `a-b`.c, identifier('d.e'), my.orders WHERE nope"
    statement = read(spark, text)
    assert {each.name: each.view for each in statement.relations} == {
        "my.orders": "my_orders",
        "a-b.c": "a-b_c",
        "d.e": "d_e",
    }
    assert len(statement.text) == len(text)
    assert statement.text.index("nope") == text.index("nope")
    assert "FROM my_orders x, `a-b_c`, d_e" in statement.text


def test_views_whose_names_are_alike_stay_apart(spark: SparkSession) -> None:
    statement = read(spark, "SELECT * FROM Orders, orders, a.b, a_b, `A.b`")
    assert len(statement.relations) == 5
    assert len({each.view.lower() for each in statement.relations}) == 5
    views = {each.name: each.view for each in statement.relations}
    assert (views["Orders"], views["a_b"]) == ("Orders", "a_b")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("INSERT INTO a SELECT * FROM b", "INSERT"),
        ("FROM a INSERT INTO b SELECT *", "FROM"),
        ("WITH c AS (SELECT 1) INSERT INTO a SELECT * FROM c", "WITH"),
        ("EXPLAIN INSERT INTO a SELECT 1", "EXPLAIN"),
        ("CREATE TABLE a AS SELECT 1", "CREATE"),
        ("CREATE TEMP VIEW a AS SELECT 1", "CREATE"),
        ("-- a word\n/* and */ DROP TABLE a", "DROP"),
        ("SET a = b", "SET"),
        ("ADD JAR 'x.jar'", "ADD"),
        ("CACHE TABLE a", "CACHE"),
        ("USE a", "USE"),
        ("CALL a()", "CALL"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "EXECUTE"),
        ("BEGIN SELECT 1; END", "BEGIN"),
        ("DELETE FROM a", "DELETE"),
        ("REFRESH TABLE a", "REFRESH"),
        ("INSERT OVERWRITE DIRECTORY '/tmp/a' USING csv SELECT 1", "INSERT"),
        ("EXPLAIN INSERT OVERWRITE DIRECTORY '/tmp/a' USING csv SELECT 1", "EXPLAIN"),
        ("FROM a INSERT OVERWRITE DIRECTORY '/tmp/a' USING csv SELECT *", "FROM"),
        ("CREATE TEMPORARY VIEW IDENTIFIER('v') AS SELECT 1", "IDENTIFIER with a name .*"),
        ("SELECT TRANSFORM(key) USING 'cat' FROM a", "TRANSFORM, which runs a program,"),
        ("SELECT * FROM (FROM a REDUCE key USING 'cat')", "TRANSFORM, .*"),
    ],
)
def test_what_is_no_question_is_refused(spark: SparkSession, text: str, word: str) -> None:
    with pytest.raises(AskingError, match=f"{word} is none") as raised:
        read(spark, text)
    assert "\n" not in str(raised.value)


def test_a_place_is_shown_where_the_parser_stops(spark: SparkSession) -> None:
    with pytest.raises(AskingError) as raised:
        read(spark, "SELECT key\nFROM orders WHERE key = = 3")
    first, line, caret = str(raised.value).split("\n")
    assert first.startswith("Line 2, column 25: ")
    assert first.endswith(".")
    assert line == "  FROM orders WHERE key = = 3"
    assert caret.index("^") == line.index("= 3")


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing\n"])
def test_nothing_is_no_question(spark: SparkSession, text: str) -> None:
    with pytest.raises(AskingError):
        read(spark, text)


def test_show_tables_is_ours(spark: SparkSession) -> None:
    assert read(spark, "SHOW TABLES").pattern is None
    assert read(spark, "SHOW TABLES LIKE 'a*'").pattern == "a*"
    assert read(spark, "SHOW TABLES").lists_topics
