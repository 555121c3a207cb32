"""Which edits a query with a checkpoint survives, and which are refused before Spark goes wrong."""

import json
from typing import Any

import pytest
from tests.spark.building.building_world import WAIT_S, World, at

from barnabas.spark.pipelines.places import PipelineError
from barnabas.spark.pipelines.queries import Query
from barnabas.spark.pipelines.shapes import check_same, shape_of

pytestmark = pytest.mark.timeout(2 * WAIT_S)

SQL = """\
SELECT customer, sum(amount) AS total, count(*) AS n
FROM orders GROUP BY window(at, '1 minute'), customer"""


def text(topic: str, sql: str = SQL, more: str = "", sink: str = "", source: str = "") -> str:
    indented = sql.replace("\n", "\n                ")
    return f"""
        sources:
          orders:
            topic: {topic}
            schema: id BIGINT, customer STRING, city STRING, amount BIGINT, fee BIGINT, at TIMESTAMP
            watermark: at, 1 hour{source}
        steps:
          totals:
            sql: |
                {indented}{more}
        sinks:
          totals: {{from: totals, topic: out, mode: update{sink}}}
        """


def shape(query: Query) -> dict[str, Any]:
    """As it is stored and read again."""
    stored: dict[str, Any] = json.loads(json.dumps(shape_of(query)))
    return stored


def refusal(query: Query, before: dict[str, Any]) -> str:
    with pytest.raises(PipelineError) as refused:
        check_same(query, before)
    return str(refused.value)


def one(world: World, *args: str, **more: str) -> Query:
    return world.build(text(*args, **more))["totals"]


def test_edits_that_keep_the_state(world: World) -> None:
    before = shape(one(world, "orders"))
    check_same(one(world, "orders"), before)
    state = before["state"][0]
    assert state["keys"] == [
        "window(orders.at: timestamp, 1 minute)",
        "orders.customer: string",
    ]
    assert state["functions"] == ["sum(orders.amount: bigint)", "count(1)"]
    assert state["watermarks"] == ["orders.at"]
    for sql in (
        SQL.replace("total", "renamed") + " -- a comment",
        SQL.replace("FROM orders", "FROM orders WHERE city <> 'x' AND fee > 1"),
        SQL.replace("sum(amount)", "2 * sum(amount)") + " HAVING count(*) > 1",
        (
            "SELECT upper(who) AS customer, total, n FROM (\n"
            "  SELECT c AS who, sum(amount) AS total, count(*) AS n, max(fee) AS unused\n"
            "  FROM (SELECT *, customer AS c FROM orders) o GROUP BY window(at, '1 minute'), c)"
        ),
        "WITH o AS (SELECT * FROM orders) " + SQL.replace("FROM orders", "FROM o"),
    ):
        check_same(one(world, "orders", sql), before)
    check_same(one(world, "orders", sink=", format: csv, key: customer"), before)
    check_same(one(world, "orders", source="\n            expect: [amount > 0]"), before)


def test_edits_that_break_the_state_are_named(world: World) -> None:
    before = shape(one(world, "orders"))
    told = refusal(one(world, "orders", SQL.replace("1 minute", "2 minutes")), before)
    assert told == (
        f"{world.folder}/p.yaml:14: sinks.totals kept state for aggregation of "
        "sum(orders.amount: bigint), count(1) by window(orders.at: timestamp, 1 minute), "
        "orders.customer: string watermarked at orders.at, and would now keep it for aggregation "
        "of sum(orders.amount: bigint), count(1) by window(orders.at: timestamp, 2 minutes), "
        "orders.customer: string watermarked at orders.at: give the sink a new name, or run with "
        "--reset totals, which forgets its state and position."
    )
    for sql, words in (
        (SQL.replace("minute')", "minute', '30 seconds')"), "1 minute, 30 seconds)"),
        (SQL.replace("customer", "city"), "by window(orders.at: timestamp, 1 minute), orders.city"),
        (SQL.replace("customer,", "city AS customer,", 1).replace(", customer", ", city"), "city"),
        (SQL.replace("sum(amount)", "sum(fee)"), "of sum(orders.fee: bigint)"),
        (SQL.replace("sum(amount)", "max(amount)"), "of max(orders.amount: bigint)"),
        (SQL.replace(", count(*) AS n", ""), "of sum(orders.amount: bigint) by"),
        ("SELECT DISTINCT customer, amount AS total FROM orders", "by orders.customer: string"),
        ("SELECT customer FROM orders", "keep it for nothing"),
    ):
        assert words in refusal(one(world, "orders", sql), before), sql
    assert "in topic orders, and would now read topic others" in refusal(
        one(world, "others"), before
    )
    moved = world.build(text("orders").replace("topic: out", "topic: elsewhere"))["totals"]
    assert "wrote to topic out, and would go on to topic elsewhere" in refusal(moved, before)
    jdbc = "format: jdbc, options: {url: 'jdbc:x', dbTable: sums}"
    database = world.build(text("orders").replace("topic: out", jdbc))["totals"]
    other = world.build(text("orders").replace("topic: out", jdbc.replace("sums", "s2")))["totals"]
    assert "wrote to jdbc sums, and would go on to jdbc s2" in refusal(other, shape(database))
    mode = world.build(text("orders").replace("mode: update", "mode: append"))["totals"]
    assert "kept its state for mode update, and is now in mode append" in refusal(mode, before)


def test_joins_and_duplicates_have_shapes(world: World) -> None:
    def build(select: str, where: str = "", by: str = "id") -> dict[str, Query]:
        return world.build(
            f"""
            sources:
              orders:
                topic: orders
                schema: id BIGINT, customer STRING, city STRING, at TIMESTAMP
                watermark: at, 1 hour
              payments:
                topic: payments
                schema: id BIGINT, amount BIGINT, fee BIGINT, at TIMESTAMP
                watermark: at, 1 hour
            steps:
              paid: |
                SELECT {select} FROM orders o JOIN payments p
                ON o.id = p.id AND p.at BETWEEN o.at AND o.at + INTERVAL 1 HOUR {where}
              unique: {{deduplicate: orders, by: [{by}]}}
            sinks:
              paid: {{from: paid, topic: out}}
              unique: {{from: unique, topic: out}}
            """
        )

    first = build("o.customer, p.amount")
    paid, unique = (shape(first[name]) for name in ("paid", "unique"))
    assert paid["streams"] == [{"topics": ["orders"]}, {"topics": ["payments"]}]
    (join,) = paid["state"]
    assert join["left"] == ["orders.id: bigint", "orders.customer: string", "orders.at: timestamp"]
    assert join["right"] == [
        "payments.id: bigint",
        "payments.amount: bigint",
        "payments.at: timestamp",
    ]
    (state,) = unique["state"]
    assert state == {
        "kind": "deduplication within the watermark",
        "keys": ["orders.id: bigint"],
        "watermarks": ["orders.at"],
    }
    # Filtered before rows are stored, so the state stays as it is.
    check_same(build("upper(o.customer) AS c, p.amount", "WHERE o.city = 'x'")["paid"], paid)
    # The same types in the same places, and other values in them.
    assert "payments.fee: bigint" in refusal(build("o.customer, p.fee AS amount")["paid"], paid)
    assert "orders.city: string" in refusal(build("o.city AS customer, p.amount")["paid"], paid)
    other = build("o.customer, p.amount", by="customer")["unique"]
    assert "by orders.customer: string" in refusal(other, unique)


def test_spark_itself_goes_on_with_the_state_of_another_query(world: World) -> None:
    """Why shapes are needed: without them a changed column goes unnoticed, and sums are wrong."""
    orders, out = world.topic("sh-orders"), world.topic("out")
    rows = [
        {"id": 1, "customer": "a", "city": "x", "amount": 1, "fee": 100, "at": at(1)},
        {"id": 2, "customer": "a", "city": "a", "amount": 2, "fee": 200, "at": at(1)},
    ]
    world.give(orders, rows[0])
    first = one(world, orders)
    world.run(first)
    before = shape(first)

    # These go on, with the state that was there.
    world.give(orders, rows[1])
    edited = one(
        world,
        orders,
        SQL.replace("AS total", "AS sum").replace("FROM orders", "FROM orders WHERE fee > 5"),
        sink=", key: customer",
        source="\n            dead_letter: sh-dead",
    )
    check_same(edited, before)
    world.run(edited)
    assert {"customer": "a", "sum": 3, "n": 2} in world.rows(out)

    # This one Spark would take, too, and add fees to amounts of another column's groups.
    other = one(world, orders, SQL.replace("customer", "city").replace("amount", "fee"))
    refusal(other, before)
    world.give(orders, rows[1])
    world.run(other)
    assert {"city": "a", "total": 203, "n": 3} in world.rows(out)
