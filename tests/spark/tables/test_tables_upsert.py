"""Merging by key, against a dictionary that does the same."""

import os
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.tables.oracles import delta_rows, visible

from barnabas.spark.tables import reading, writing
from barnabas.spark.tables.log import TableLog
from barnabas.spark.tables.snapshot import Batch, TableError

OWNER = "test"
SCHEMA = "k BIGINT, part STRING, ts BIGINT, op STRING, v STRING"
Row = tuple[int, str, int | None, str, str]


def merged(table: dict[int, Row], batch: list[Row]) -> dict[int, Row]:
    """What the table must be after a batch."""
    winners: dict[int, Row] = {}
    for row in batch:
        best = winners.get(row[0])
        if best is None or _order(row) > _order(best):
            winners[row[0]] = row
    after = dict(table)
    for key, row in winners.items():
        stored = table.get(key)
        if stored is not None and stored[2] is not None and _order(row) < _order(stored):
            continue
        if row[3] == "d":
            after.pop(key, None)
        else:
            after[key] = row
    return after


def _order(row: Row) -> int:
    return -1 if row[2] is None else row[2]


def random_batch(random_: random.Random, size: int) -> list[Row]:
    """Keys near each other, so that files do not overlap always; times that never tie in a key."""
    first = random_.randrange(0, 60)
    times = random_.sample(range(1000), size)
    return [
        (
            random_.randrange(first, first + 15),
            random_.choice("ab"),
            times[at] if at or random_.random() < 0.5 else None,
            random_.choice("iiud"),
            f"v{random_.random():.3f}",
        )
        for at in range(size)
    ]


def test_like_a_dictionary(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "upserted")
    random_ = random.Random(20260)
    table: dict[int, Row] = {}
    for number in range(6):
        batch = random_batch(random_, random_.choice((1, 4, 12)))
        assert writing.upsert(
            spark.createDataFrame(batch, SCHEMA).coalesce(2),
            folder,
            Batch("app", number),
            key=["k"],
            order_by="ts",
            delete_when="op = 'd'",
            partition_by=["part"],
            owner=OWNER,
        )
        table = merged(table, batch)
        stored = delta_rows(folder)
        assert {row["k"]: tuple(row.values()) for row in stored} == table, f"batch {number}"
        assert len(stored) == len(table)
    read = reading.read(spark, folder).collect()
    assert sorted(tuple(row) for row in read) == sorted(table.values())
    snapshot = TableLog(folder).snapshot()
    assert snapshot is not None
    assert os.listdir(os.path.join(folder, "_staging")) == ["lock"]
    # Files of older versions are still there, and nothing that no version has.
    assert visible(folder) == TableLog(folder).kept_paths()


def test_of_rows_that_are_as_old_as_each_other_the_later_one_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    """However they are spread over batches."""
    rows = ["SELECT 1 AS k, 5 AS ts, 'a' AS v, 10L AS _offset", "SELECT 1, 5, 'b', 11L"]
    for name, batches in (("one", [" UNION ALL ".join(rows)]), ("two", rows)):
        folder = str(tmp_path / name)
        for number, select in enumerate(batches):
            batch = spark.sql(select).toDF("k", "ts", "v", "_offset")
            writing.upsert(batch, folder, Batch("a", number), key=["k"], order_by="ts", owner=OWNER)
        assert [row["v"] for row in delta_rows(folder)] == ["b"]


@pytest.mark.parametrize("order_by", ["ts", "TS", " `ts` "])
def test_a_row_that_is_older_changes_nothing_however_its_column_is_spelt(
    spark: SparkSession, tmp_path: Path, order_by: str
) -> None:
    for number, ts in enumerate((2, 1)):
        rows = spark.createDataFrame([(1, "a", ts, "i", f"at {ts}")], SCHEMA)
        writing.upsert(
            rows, str(tmp_path), Batch("a", number), key=["k"], order_by=order_by, owner=OWNER
        )
    assert [row.v for row in reading.read(spark, str(tmp_path)).collect()] == ["at 2"]


def test_an_empty_text_is_no_key_where_it_would_be_a_folder(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Delta reads it as null, which no later row would replace."""
    rows = spark.createDataFrame([("", 1)], "part STRING, v INT")
    writing.upsert(rows, str(tmp_path / "plain"), Batch("a", 0), key=["part"], owner=OWNER)
    with pytest.raises(TableError, match=r"1 rows .* an empty text where partition_by names it"):
        writing.upsert(
            rows, str(tmp_path / "divided"), Batch("a", 0), key=["part"], partition_by=["part"],
            owner=OWNER,
        )  # fmt: skip


def test_only_files_with_a_changed_key_are_written_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = str(tmp_path / "far")

    def upsert(select: str, number: int, **more: Any) -> bool:
        rows = spark.sql(select)
        return writing.upsert(rows, folder, Batch("a", number), key=["x", "y"], owner=OWNER, **more)

    upsert("SELECT id AS x, 'one' AS y, id AS v FROM range(0, 10)", 0)
    upsert("SELECT id AS x, 'two' AS y, id AS v FROM range(100, 110)", 1)
    before = TableLog(folder).snapshot()
    assert upsert("SELECT 105L AS x, 'two' AS y, -1L AS v", 2)
    assert not upsert("SELECT 105L AS x, 'two' AS y, -2L AS v", 2)
    after = TableLog(folder).snapshot()
    assert before is not None
    assert after is not None
    assert len(before.files) == len(after.files) == 2
    assert len(set(before.files) & set(after.files)) == 1
    assert {(row["x"], row["y"]): row["v"] for row in delta_rows(folder)}[105, "two"] == -1
    # Nothing to delete, so nothing is written; a new column comes with the rows that have it.
    assert upsert("SELECT 1L AS x, 'none' AS y, 0L AS v", 3, delete_when="true")
    assert TableLog(folder).snapshot() == after
    assert upsert("SELECT 1L AS x, 'one' AS y, 'w' AS w", 4)
    rows = {(row["x"], row["y"]): row for row in delta_rows(folder)}
    assert rows[1, "one"] == {"x": 1, "y": "one", "v": None, "w": "w"}
    assert rows[2, "one"] == {"x": 2, "y": "one", "v": 2, "w": None}


def test_what_can_not_be_merged(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "refused")

    def upsert(select: str, key: tuple[str, ...] = ("k",), **more: Any) -> bool:
        return writing.upsert(spark.sql(select), folder, None, key=key, owner=OWNER, **more)

    for select, sentence in (
        ("SELECT CAST(NULL AS INT) AS k, 1 AS v", "1 rows for the table .* have null in their key"),
        ("SELECT 7 AS k, id AS v FROM range(2)", r"has the key k = 7 more than once.*order_by"),
        ("SELECT 7 AS q", "key names k, which is no column"),
    ):
        with pytest.raises(TableError, match=sentence):
            upsert(select)
    with pytest.raises(TableError, match=r"order_by or delete_when .* is not understood: .*nope"):
        upsert("SELECT 1 AS k, 1 AS v", order_by="nope")
    with pytest.raises(TableError, match="can not be upserted without a key"):
        upsert("SELECT 1 AS k", ())
    # What was refused has made no table, so that it need not fit what comes next.
    assert TableLog(folder).snapshot() is None
    assert os.listdir(folder) == ["_staging"]
    assert upsert("SELECT id AS k, id AS _offset, 'x' AS v FROM range(3)")
    assert upsert("SELECT 1L AS k, id AS _offset, CAST(id AS STRING) AS v FROM range(9)")
    assert {row["k"]: row["v"] for row in delta_rows(folder)} == {0: "x", 1: "8", 2: "x"}
    with pytest.raises(TableError, match="tells its rows apart by k, and key says v"):
        upsert("SELECT 'x' AS v", ("v",))
    with pytest.raises(TableError, match="tells its rows apart by k, and key says nothing"):
        writing.append(spark.range(1), folder, None, owner=OWNER)
