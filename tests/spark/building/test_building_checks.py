"""Each thing that is wrong with a pipeline, found before it runs, in one sentence with its line."""

import re
from pathlib import Path

import pytest
from tests.spark.building.building_world import WAIT_S, World

from barnabas.spark.pipelines.checking import check
from barnabas.spark.pipelines.shapes import shape_of

pytestmark = pytest.mark.timeout(2 * WAIT_S)


def checked(world: World, text: str, *, offline: bool = True) -> list[str]:
    """The sentences, with the folder taken off the file's name."""
    found = check(world.pipeline(text), world.spark, offline=offline)
    assert all("\n" not in sentence for sentence in found)
    return [sentence.removeprefix(f"{world.folder}/") for sentence in found]


def orders(steps: str, sinks: str, source: str = "") -> str:
    return f"""
sources:
  orders:
    topic: orders
    schema: id BIGINT, customer STRING, amount BIGINT, at TIMESTAMP{source}
  names: {{format: csv, path: names.csv, schema: "customer STRING, name STRING"}}
steps:
{steps}
sinks:
{sinks}
"""


OUT = "  out: {from: step, topic: out}"


@pytest.fixture(autouse=True)
def names(tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("a,Anna\n")


def test_nothing_is_wrong(world: World) -> None:
    text = orders("  step: SELECT id, name FROM orders JOIN names USING (customer)", OUT)
    assert checked(world, text) == []


def test_sql_that_is_wrong_is_named_with_its_line(world: World) -> None:
    steps = """
  missing:
    sql: |
      SELECT id,
             amout
      FROM orders
  syntax: |
    SELECT id
    FROM orders
    WHERE GROUP BY
  function: SELECT nofun(id) AS x FROM orders
  types: |
    SELECT id
    FROM orders WHERE at > customer.x
  above: SELECT * FROM missing JOIN syntax USING (id)"""
    sinks = """
  a: {from: above, topic: out}
  b: {from: missing, topic: out}
  c: {from: function, topic: out}
  d: {from: types, topic: out}"""
    found = checked(world, orders(steps, sinks))
    column = "p.yaml:13: steps.missing: a column with name `amout` cannot be resolved. Did you mean"
    assert found[0].startswith(f"{column} one of [amount, ")
    assert found[0].endswith("]?")
    assert found[1:] == [
        "p.yaml:18: steps.syntax: Syntax error at or near end of input.",
        (
            "p.yaml:19: steps.function: there is no function nofun: check its spelling, or declare "
            "it under functions."
        ),
        (
            'p.yaml:22: steps.types: Can\'t extract a value from "customer". Need a complex type '
            '[STRUCT, ARRAY, MAP] but got "STRING".'
        ),
    ]


def test_options_of_topics_are_told_where_they_are(world: World) -> None:
    text = """
sources:
  orders: {topic: orders, format: text, kafka: {isolation.level: none}}
  lines: {topic: lines, format: text}
sinks:
  one: {from: orders, topic: out}
  two: {from: lines, topic: out, kafka: {acks: 1}}"""
    found = checked(world, text)
    assert found[0] == (
        "p.yaml:4: sources.orders: kafka.isolation.level is 'none': read_committed or "
        "read_uncommitted is what it can be."
    )
    assert found[1].startswith("p.yaml:8: sinks.two: delivery=exactly-once needs kafka.acks=all")


def test_watermarks_need_a_timestamp(world: World) -> None:
    text = """
sources:
  one: {format: rate, stream: true, watermark: "at, 1 minute"}
  two: {format: rate, stream: true, watermark: "value, 1 minute"}
sinks:
  one: {from: one, topic: out}
  two: {from: two, topic: out}"""
    assert checked(world, text) == [
        "p.yaml:4: sources.one.watermark: there is no column at: choose of timestamp, value.",
        (
            "p.yaml:5: sources.two.watermark: the column value is BIGINT, and a watermark needs a "
            "TIMESTAMP: cast it, or choose another column."
        ),
    ]


def test_what_streams_can_not_do(world: World) -> None:
    steps = """
  step: SELECT customer, count(*) AS n FROM orders GROUP BY customer
  sorted: SELECT * FROM orders ORDER BY id"""
    sinks = """
  out: {from: step, topic: out}
  fine: {from: step, topic: out, mode: update}
  upserted: {from: step, table: tables/n, mode: upsert, key: [customer]}
  sorted: {from: sorted, topic: out}"""
    first, second = checked(world, orders(steps, sinks))
    assert first.startswith("p.yaml:14: sinks.out: Invalid streaming output mode: append.")
    assert first.endswith("Give the source a watermark, or the sink `mode: update`.")
    assert second.startswith("p.yaml:17: sinks.sorted: ")
    assert "Sorting is not supported" in second


def test_python_steps_that_fail(world: World) -> None:
    (world.folder / "c_rules.py").write_text(
        "def fails(orders):\n"
        "    columns = orders.columns\n"
        "    return columns['x']\n"
        "def column(orders):\n"
        "    return orders.select('nothing')\n"
        "def number(orders):\n"
        "    return 7\n"
        "def other(orders):\n"
        "    return orders.selectExpr('id', 'amount AS total')\n"
    )
    names = ("fails", "column", "number")
    steps = "\n".join(f'  {name}: {{python: "c_rules:{name}", inputs: [orders]}}' for name in names)
    schemas = ("id BIGINT, total DOUBLE", "id BIGINT, sum BIGINT", "id BIGINT")
    for number, schema in enumerate(schemas):
        steps += f'\n  s{number}: {{python: "c_rules:other", inputs: [orders], schema: "{schema}"}}'
    steps += "\n  none: {deduplicate: orders, by: [idd]}"
    everything = (*names, "s0", "s1", "s2", "none")
    sinks = "\n".join(f"  {name}: {{from: {name}, topic: out}}" for name in everything)
    rules = world.folder / "c_rules.py"
    found = checked(world, orders(steps, sinks))
    assert re.sub(r"one of \[.*?\]", "one of …", found[1]) == (
        f"p.yaml:10: steps.column: c_rules:column failed at {rules}:5: a column with name "
        "`nothing` cannot be resolved. Did you mean one of …?"
    )
    assert found[:1] + found[2:] == [
        (
            f"p.yaml:9: steps.fails: c_rules:fails raised TypeError at {rules}:3: list indices "
            "must be integers or slices, not str"
        ),
        (
            "p.yaml:11: steps.number: c_rules:number returned int, and a step is a DataFrame: "
            "return what its inputs have become."
        ),
        (
            "p.yaml:12: steps.s0: c_rules:other returned total as bigint, and its schema says "
            "double: cast it, or change the schema."
        ),
        (
            "p.yaml:13: steps.s1: c_rules:other returned no column sum, which its schema has: it "
            "returned id, total."
        ),
        (
            "p.yaml:14: steps.s2: c_rules:other returned the column total, which its schema does "
            "not have: drop it, or add it to the schema."
        ),
        "p.yaml:15: steps.none: there is no column idd in orders: did you mean id?",
    ]


def test_tables_that_can_not_be_written(world: World) -> None:
    full = world.folder / "full"
    full.mkdir()
    (full / "letter.txt").write_text("not ours")
    sinks = """
  full: {from: orders, table: full}
  by: {from: orders, table: by, partition_by: [zz]}
  key: {from: orders, table: key, mode: upsert, key: [idd]}
  when: {from: orders, table: when, mode: upsert, key: [id], delete_when: "gone = 1"}"""
    found = checked(world, orders("  step: SELECT 1 AS x", sinks))
    assert [sentence.split(": ")[0] for sentence in found] == [f"p.yaml:{n}" for n in range(12, 16)]
    assert str(full) in found[0]
    assert "sinks.by.partition_by: there is no column zz: choose of id" in found[1]
    assert found[2] == "p.yaml:14: sinks.key.key: there is no column idd: did you mean id?"
    assert "sinks.when.delete_when: a column with name `gone` cannot be resolved." in found[3]


def test_files_of_others_are_not_taken_for_batches_of_ones_own(world: World) -> None:
    (world.folder / "files").mkdir()
    (world.folder / "files" / "_spark_metadata").mkdir()
    (world.folder / "empty").mkdir()
    sinks = """
  files: {from: orders, format: parquet, path: files}
  empty: {from: orders, format: csv, path: empty}
  new: {from: orders, format: json, path: new}"""
    text = orders("  step: SELECT 1 AS x", sinks)
    (found,) = checked(world, text)
    assert found.startswith("p.yaml:12: sinks.files: the folder ")
    assert f"{world.folder}/files is not empty" in found
    shapes = {name: shape_of(query) for name, query in world.build(text).items()}
    assert check(world.pipeline(text), world.spark, offline=True, shapes_before=shapes) == []


def test_topics_that_are_not_there(world: World) -> None:
    world.topic("check-orders")
    text = """
sources:
  orders:
    topic: check-order
    format: text
    dead_letter: nowhere-else
  many:
    pattern: "^no-such-.*$"
    format: text
steps:
  step: SELECT value FROM orders UNION ALL SELECT value FROM many
sinks:
  out: {from: step, topic: quite-other}"""
    found = checked(world, text, offline=False)
    assert found == [
        (
            f"p.yaml:4: sources.orders: there is no topic check-order at {world.servers}: did you "
            "mean check-orders? Otherwise make it with barnabas topic create check-order."
        ),
        (
            f"p.yaml:7: sources.orders.dead_letter: there is no topic nowhere-else at "
            f"{world.servers}: make it with barnabas topic create nowhere-else."
        ),
        (
            f"p.yaml:8: sources.many: no topic at {world.servers} is like ^no-such-.*$: check the "
            "pattern, or make one with barnabas topic create."
        ),
        (
            f"p.yaml:14: sinks.out: there is no topic quite-other at {world.servers}: make it with "
            "barnabas topic create quite-other."
        ),
    ]
    assert checked(world, text) == []


def test_a_cluster_that_does_not_answer(world: World) -> None:
    text = orders("  step: SELECT id FROM orders", OUT) + "kafka: {default.api.timeout.ms: 300}\n"
    pipeline = world.pipeline(text)
    path = Path(pipeline.file)
    path.write_text(path.read_text().replace(world.servers, "127.0.0.1:1"))
    from barnabas.spark.pipelines.reading import read

    (found,) = check(read(str(path), {}), world.spark, offline=False)
    assert found.startswith(f"{path}: servers 127.0.0.1:1: ")


def test_an_edit_that_breaks_state(world: World) -> None:
    source = "\n    watermark: at, 1 minute"
    sql = "  step: SELECT count(*) AS n FROM orders GROUP BY window(at, '1 minute')"
    (query,) = world.build(orders(sql, OUT, source)).values()
    shapes = {"out": shape_of(query)}
    again = world.pipeline(orders(sql.replace("1 minute", "1 hour"), OUT, source))
    (found,) = check(again, world.spark, offline=True, shapes_before=shapes)
    assert "window(orders.at: timestamp, 1 hour)" in found
    assert "--reset out" in found
