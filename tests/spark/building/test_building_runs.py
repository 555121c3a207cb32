"""Every kind of source, step and sink, from a file to what it writes."""

import os
import shutil
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from functools import partial

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery
from tests.compat.batches import Rec
from tests.spark.building.building_world import WAIT_S, World, at, plain

from barnabas.spark.deaths import needs_change, sentence_of
from barnabas.spark.pipelines import building
from barnabas.spark.pipelines.events import Teller
from barnabas.spark.pipelines.job import rebuilt
from barnabas.spark.pipelines.lives import Lives
from barnabas.spark.pipelines.order import Order
from barnabas.spark.pipelines.places import PipelineError
from barnabas.spark.pipelines.reporting import Reporter
from barnabas.spark.pipelines.state import State
from barnabas.spark.pipelines.status import Status
from barnabas.spark.pipelines.written import check_unwritten
from barnabas.spark.tables import durable
from barnabas.spark.tables.log import TableLog
from barnabas.spark.tables.reading import read as read_table

pytestmark = pytest.mark.timeout(2 * WAIT_S)

COLUMNS = "id BIGINT, customer STRING, amount BIGINT, at TIMESTAMP"


def test_windows_with_a_watermark_and_dead_letters(world: World) -> None:
    orders, totals, dead = world.topic("w-orders", 2), world.topic("w-totals", 2), "w-dead"
    world.topic(dead)
    text = f"""
        sources:
          orders:
            topic: {orders}
            schema: {COLUMNS}
            watermark: at, 10 seconds
            dead_letter: {dead}
        steps:
          per_minute: |
            SELECT window.start AS minute, customer, sum(amount) AS total
            FROM orders GROUP BY window(at, '1 minute'), customer
        sinks:
          totals: {{from: per_minute, topic: {totals}, key: customer}}
          all: {{from: orders, format: parquet, path: all}}
        """
    world.give(
        orders,
        {"id": 1, "customer": "a", "amount": 1, "at": at(0)},
        {"id": 2, "customer": "a", "amount": 2, "at": at(0, 30)},
        b"poison",
        {"id": 3, "customer": "b", "amount": 4, "at": at(1)},
    )
    world.run_all(text)
    # Closes the minutes before it.
    world.give(orders, {"id": 4, "customer": "c", "amount": 8, "at": at(9)})
    queries = world.build(text)
    world.run(queries["totals"])

    assert list(queries) == ["totals", "all", "dead-letter-orders"]
    assert plain(world.rows(totals), "customer", "total") == [("a", 3), ("b", 4)]
    assert {bytes(record.key) for record in world.records(totals)} == {b"a", b"b"}
    assert [bytes(record.value) for record in world.records(dead)] == [b"poison"]
    written = world.spark.read.parquet(str(world.folder / "all"))
    assert sorted(row.id for row in written.collect()) == [1, 2, 3]
    assert queries["totals"].group == f"{world.folder.name}.totals"
    assert world.cluster.committed_offsets(queries["totals"].group, None, stable=True)


def test_python_functions_steps_and_duplicates(world: World) -> None:
    orders, scored = world.topic("y-orders"), world.topic("y-scored")
    (world.folder / "y_rules.py").write_text(
        "from pyspark.sql import DataFrame\n"
        "def risk(amount: int) -> float:\n"
        "    return LIMIT / amount\n"
        "LIMIT = 8\n"
        "def score(orders: DataFrame) -> DataFrame:\n"
        "    return orders.selectExpr('id', 'risk(amount) AS score')\n"
    )
    text = f"""
        functions:
          risk: {{python: "y_rules:risk"}}
        sources:
          orders: {{topic: {orders}, schema: "{COLUMNS}", watermark: "at, 1 hour"}}
        steps:
          unique: {{deduplicate: orders, by: [id]}}
          scored: {{python: "y_rules:score", inputs: [unique], schema: "id BIGINT, score DOUBLE"}}
        sinks:
          scored: {{from: scored, topic: {scored}, delivery: at-least-once}}
        """
    for number in (1, 2, 1, 4, 2):
        world.give(orders, {"id": number, "customer": "a", "amount": number, "at": at(number)})
    world.run_all(text)
    assert plain(world.rows(scored), "id", "score") == [(1, 8.0), (2, 4.0), (4, 2.0)]


def test_a_table_of_a_topic_is_read_anew_for_each_batch(world: World) -> None:
    orders, customers = world.topic("t-orders"), world.topic("t-customers", 1)
    out = world.topic("t-out")
    text = f"""
        sources:
          orders: {{topic: {orders}, schema: "{COLUMNS}", max_per_trigger: 1}}
          customers: {{topic: {customers}, schema: "id STRING, country STRING", table: true}}
        steps:
          joined: SELECT o.id, c.country FROM orders o LEFT JOIN customers c ON o.customer = c._key
        sinks:
          out: {{from: joined, topic: {out}}}
        """
    world.give(customers, {"id": "a", "country": "AT"}, {"id": "b", "country": "BE"}, key="id")
    world.give(customers, {"id": "a", "country": "DE"}, key="id")
    world.give(orders, {"id": 1, "customer": "a"}, {"id": 2, "customer": "b"})
    query = world.build(text)["out"]
    checkpoint = str(world.folder / "checkpoint")
    started = query.start(checkpoint, 1, once=False, trigger="0 seconds")
    try:
        _until(lambda: len(world.records(out)) == 2, started)
        world.give(customers, {"id": "a", "country": "FR"}, key="id")
        world.give_record(customers, Rec(value=None, key=b"b"))
        world.give(orders, {"id": 3, "customer": "a"}, {"id": 4, "customer": "b"})
        _until(lambda: len(world.records(out)) == 4, started)
    finally:
        started.stop()
    found = [(row["id"], row.get("country")) for row in world.rows(out)]
    assert sorted(found) == [(1, "DE"), (2, "BE"), (3, "FR"), (4, None)]


def test_streams_joined_with_each_other_and_with_files(world: World) -> None:
    orders, payments, out = world.topic("j-orders"), world.topic("j-payments"), world.topic("j-out")
    (world.folder / "rates.csv").write_text("currency,rate\nEUR,2.0\nUSD,1.0\n")
    text = f"""
        sources:
          orders:
            topic: {orders}
            schema: id BIGINT, currency STRING, at TIMESTAMP
            watermark: at, 1 minute
          payments:
            topic: {payments}
            schema: order_id BIGINT, amount DOUBLE, at TIMESTAMP
            watermark: at, 1 minute
          rates:
            format: csv
            path: rates.csv
            schema: currency STRING, rate DOUBLE
            options: {{header: true}}
        steps:
          paid: |
            SELECT o.id, p.amount * r.rate AS paid
            FROM orders o
            JOIN payments p ON p.order_id = o.id AND p.at BETWEEN o.at AND o.at + INTERVAL 1 HOUR
            JOIN rates r ON r.currency = o.currency
        sinks:
          paid: {{from: paid, topic: {out}}}
        """
    world.give(orders, {"id": 1, "currency": "EUR", "at": at(1)})
    world.give(orders, {"id": 2, "currency": "USD", "at": at(1)})
    world.give(payments, {"order_id": 1, "amount": 5.0, "at": at(2)})
    world.run_all(text)
    world.give(payments, {"order_id": 2, "amount": 7.0, "at": at(3)})
    world.run_all(text)
    assert plain(world.rows(out), "id", "paid") == [(1, 10.0), (2, 7.0)]


def test_updates_into_a_topic_and_a_table(world: World) -> None:
    orders, counts = world.topic("u-orders"), world.topic("u-counts", 2)
    text = f"""
        sources:
          orders: {{topic: {orders}, schema: "{COLUMNS}"}}
        steps:
          counts: SELECT customer, count(*) AS n FROM orders GROUP BY customer
          exact: SELECT id, CAST(amount AS DECIMAL(10,2)) AS amount, customer FROM orders
        sinks:
          counts: {{from: counts, topic: {counts}, mode: update, key: customer}}
          latest: {{from: counts, table: tables/latest, mode: upsert, key: [customer]}}
          whole: {{from: counts, table: tables/whole, mode: complete}}
          rows: {{from: exact, table: tables/rows, partition_by: [customer]}}
        """
    world.give(orders, {"id": 1, "customer": "a", "amount": 1}, {"id": 2, "customer": "b"})
    world.run_all(text)
    world.give(orders, {"id": 3, "customer": "a", "amount": 3})
    world.run_all(text)
    assert plain(world.rows(counts), "customer", "n") == [("a", 1), ("a", 2), ("b", 1)]
    for table in ("latest", "whole"):
        frame = read_table(world.spark, str(world.folder / "tables" / table))
        assert sorted((row.customer, row.n) for row in frame.collect()) == [("a", 2), ("b", 1)]
    rows = read_table(world.spark, str(world.folder / "tables" / "rows")).collect()
    found = sorted((row.id, row.amount, row.customer) for row in rows)
    assert found == [(1, Decimal(1), "a"), (2, None, "b"), (3, Decimal(3), "a")]


def test_rows_into_a_database(world: World) -> None:
    """Derby, which comes with Spark; a format that Spark has no streaming sink for."""
    orders = world.topic("b-orders")
    url = f"jdbc:derby:{world.folder}/database;create=true"
    text = f"""
        sources:
          orders: {{topic: {orders}, schema: "id BIGINT"}}
        steps:
          ids: SELECT id FROM orders
        sinks:
          ids: {{from: ids, format: jdbc, options: {{url: "{url}", dbtable: ids}}}}
        """
    world.give(orders, {"id": 1}, {"id": 2})
    world.run_all(text)
    written = world.spark.read.jdbc(url, "ids")
    assert sorted(row[0] for row in written.collect()) == [1, 2]


def test_a_row_that_does_not_fit_ends_the_query_with_its_place(world: World) -> None:
    orders, out = world.topic("x-orders"), world.topic("x-out")
    text = f"""
        sources:
          orders: {{topic: {orders}, schema: "{COLUMNS}"}}
        sinks:
          out: {{from: orders, topic: {out}}}
        """
    world.give(orders, {"id": 1}, b"poison")
    query = world.build(text)["out"]
    with pytest.raises(Exception, match="x-orders") as died:
        world.run(query)
    assert "x-orders" in sentence_of(died.value)
    assert world.records(out) == []


def _until(met: Callable[[], bool], started: StreamingQuery) -> None:
    deadline = time.monotonic() + WAIT_S
    while not met():
        assert time.monotonic() < deadline
        problem = started.exception()
        if problem is not None:
            raise problem
        time.sleep(0.1)


def test_what_was_written_without_its_state_is_not_taken_for_new(world: World) -> None:
    words, upper, counts = world.topic("g-in"), world.topic("g-out"), world.topic("g-counts")
    text = f"""
        sources:
          words: {{topic: {words}, format: text, max_per_trigger: 1}}
        steps:
          counts: SELECT value, count(*) AS n FROM words GROUP BY value
        sinks:
          kept: {{from: words, table: kept}}
          upper: {{from: words, topic: {upper}, format: text}}
          counts: {{from: counts, topic: {counts}, mode: update}}
        """
    world.give(words, b"a")
    queries = world.build(text)
    for query in queries.values():
        check_unwritten(query, 1)
        world.run(query)
    for name, place in (("kept", str(world.folder / "kept")), ("upper", upper), ("counts", counts)):
        with pytest.raises(PipelineError, match=rf"sinks.{name}: the \w+ {place} has rows of it"):
            check_unwritten(queries[name], 1)
        check_unwritten(queries[name], 2)

    checkpoint, copy = world.folder / "checkpoints" / "kept", world.folder / "copy"
    shutil.copytree(checkpoint, copy)
    world.give(words, b"b", b"c")
    world.run(queries["kept"])
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    with pytest.raises(StreamingQueryException) as died:
        world.run(queries["kept"])
    assert "its checkpoint is at batch 1" in sentence_of(died.value)
    assert needs_change(died.value)


def test_a_copy_that_is_one_batch_behind_is_not_taken_for_the_newest(world: World) -> None:
    """Its next batch has the number of the table's last, and more rows."""
    words = world.topic("h-in")
    text = f"""
        sources:
          words: {{topic: {words}, format: text}}
        sinks:
          kept: {{from: words, table: kept}}
        """
    world.give(words, b"a")
    query = world.build(text)["kept"]
    world.run(query)
    checkpoint, copy = world.folder / "checkpoints" / "kept", world.folder / "copy"
    shutil.copytree(checkpoint, copy)
    world.give(words, b"b")
    world.run(query)
    # As if it was killed behind the commit: the same batch once more, which is in.
    (checkpoint / "1" / "commits" / "1").unlink()
    (checkpoint / "1" / "commits" / ".1.crc").unlink(missing_ok=True)
    world.run(query)
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    world.give(words, b"c")
    with pytest.raises(StreamingQueryException) as died:
        world.run(query)
    assert "its checkpoint is at batch 1 with other rows" in sentence_of(died.value)
    assert needs_change(died.value)
    table = DeltaTable(str(world.folder / "kept"))
    assert sorted(table.to_pyarrow_table()["value"].to_pylist()) == ["a", "b"]
    assert len(table.history()) == 2


def test_a_copy_that_is_one_batch_behind_loses_no_updates_of_a_topic(world: World) -> None:
    """They are written batch by batch, and a batch is known by its offsets as well."""
    words, counts = world.topic("hu-in"), world.topic("hu-out", 1)
    text = f"""
        sources:
          words: {{topic: {words}, format: text}}
        steps:
          counts: SELECT value, count(*) AS n FROM words GROUP BY value
        sinks:
          counts: {{from: counts, topic: {counts}, mode: update, key: value}}
        """
    world.give(words, b"a")
    query = world.build(text)["counts"]
    world.run(query)
    checkpoint, copy = world.folder / "checkpoints" / "counts", world.folder / "copy"
    shutil.copytree(checkpoint, copy)
    world.give(words, b"b")
    world.run(query)
    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    world.give(words, b"c")
    with pytest.raises(StreamingQueryException) as died:
        world.run(query)
    assert "a batch of that number which reads other offsets" in sentence_of(died.value)
    assert needs_change(died.value)
    assert plain(world.rows(counts), "value", "n") == [("a", 1), ("b", 1)]


def test_a_batch_that_is_in_the_table_already_keeps_its_state(world: World) -> None:
    """Spark commits state while rows are taken, and stops a query whose state is not there."""
    words = world.topic("hs-in")
    text = f"""
        sources:
          words: {{topic: {words}, format: text}}
        steps:
          counts: SELECT value, count(*) AS n FROM words GROUP BY value
        sinks:
          counts: {{from: counts, table: counts, mode: upsert, key: value}}
        """
    world.give(words, b"a", b"b")
    query = world.build(text)["counts"]
    world.run(query)
    world.give(words, b"a")
    world.run(query)
    # As if it was killed between the table's commit and Spark's, and the machine lost power.
    checkpoint = world.folder / "checkpoints" / "counts" / "1"
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    for delta in checkpoint.glob("state/0/*/*2.*"):
        delta.unlink()
    world.give(words, b"a")
    world.run(query)
    counts = DeltaTable(str(world.folder / "counts")).to_pyarrow_table().to_pylist()
    assert plain(counts, "value", "n") == [("a", 3), ("b", 1)]


def test_which_rows_a_batch_has_is_on_the_disk_before_a_table_has_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the batch after a power cut could have its number, and be taken for it."""
    words = world.topic("j-in")
    world.give(words, b"a", b"b")
    journal = world.folder / "checkpoints" / "kept" / "1" / "offsets"
    kept: list[tuple[str, int | None]] = []
    sync = durable.sync_file

    def seen(path: str) -> None:
        sync(path)
        if path.startswith(str(journal)):
            table = TableLog(str(world.folder / "kept")).snapshot()
            kept.append((path, None if table is None else table.version))

    monkeypatch.setattr(durable, "sync_file", seen)
    monkeypatch.setattr(durable, "sync_folder", seen)
    world.run_all(f"""
        sources:
          words: {{topic: {words}, format: text, max_per_trigger: 1}}
        sinks:
          kept: {{from: words, table: kept}}
        """)
    assert kept == [
        (str(journal / "0"), None),
        (str(journal), None),
        (str(journal / "1"), 0),
        (str(journal), 0),
    ]


class _Told(Teller):
    """Events stay here."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def tell(self, event: str, sentence: str | None = None, **_more: object) -> None:
        self.events.append(f"{event}: {sentence}")


def test_a_query_is_started_again_over_the_files_that_are_there_then(world: World) -> None:
    words = world.topic("f-in")
    names = world.folder / "names"
    names.mkdir()
    (names / "1.csv").write_text("a,Anna\n")
    pipeline = world.pipeline(f"""
        sources:
          words: {{topic: {words}, format: text}}
          names: {{format: csv, path: names, schema: "value STRING, name STRING"}}
        steps:
          named: SELECT name FROM words JOIN names USING (value)
        sinks:
          kept: {{from: named, table: kept}}
        """)
    order, state, told = Order(pipeline, "now"), State.of(pipeline), _Told()
    os.makedirs(pipeline.state)
    reporter = Reporter(state, Status(pipeline.name, pipeline.file), told.tell)
    queries = building.build(world.spark, pipeline)
    lives = Lives(order, queries, state, reporter, told, partial(rebuilt, world.spark))
    stop = threading.Event()
    thread = threading.Thread(target=lives.run, args=(stop,))
    thread.start()
    try:
        world.give(words, b"a")
        _wait(lambda: _names(world) == ["Anna"])
        (names / "1.csv").unlink()
        (names / "2.csv").write_text("b,Berta\n")
        world.give(words, b"b")
        _wait(lambda: _names(world) == ["Anna", "Berta"], told)
        life = lives._lives[0]
        _wait(lambda: life.status.input_total == 2, told)
    finally:
        stop.set()
        thread.join(WAIT_S)
    life.begin()
    life.look()
    assert life.status.input_total == 2
    assert life.status.restarts > 0


def _names(world: World) -> list[str]:
    folder = str(world.folder / "kept")
    if TableLog(folder).snapshot() is None:
        return []
    return sorted(row.name for row in read_table(world.spark, folder).collect())


def _wait(is_so: Callable[[], bool], told: _Told | None = None) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, told and told.events[-3:]
        time.sleep(0.2)
