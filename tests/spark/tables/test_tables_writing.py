"""Rows into tables and out again, as Spark and as another Delta reader see them."""

import datetime
import decimal
import os
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from tests.spark.tables.oracles import delta_rows, in_order, visible

from barnabas.spark.tables import compaction, files, reading, writing
from barnabas.spark.tables.log import TableLog
from barnabas.spark.tables.snapshot import Batch, Snapshot, TableError

UTC = datetime.UTC
OWNER = "pipeline p, sink s"


def snapshot_of(folder: str) -> Snapshot:
    snapshot = TableLog(folder).snapshot()
    assert snapshot is not None
    return snapshot


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return in_order([_like_arrow(row.asDict(recursive=True)) for row in frame.collect()])


def _like_arrow(row: dict[str, Any]) -> dict[str, Any]:
    """Timestamps with their zone (the tests' own is UTC), bytes as bytes."""
    for name, value in row.items():
        if isinstance(value, datetime.datetime):
            row[name] = value.astimezone(UTC)
        elif isinstance(value, bytearray):
            row[name] = bytes(value)
    return row


def append(frame: DataFrame, folder: str, number: int, **more: Any) -> bool:
    return writing.append(frame, folder, Batch("app", number), owner=OWNER, **more)


EVERY_TYPE = """
    CAST(id AS STRING) AS text, id, CAST(id AS INT) AS i, CAST(id AS SMALLINT) AS s,
    CAST(id AS TINYINT) AS b, CAST(id AS FLOAT) AS f, id / 3 AS d, id % 2 = 0 AS flag,
    CAST(CAST(id AS STRING) AS BINARY) AS raw, CAST(id AS DECIMAL(10, 2)) AS money,
    CAST(id AS DECIMAL(30, 5)) AS much, DATE'2024-02-28' + CAST(id AS INT) AS day,
    TIMESTAMP'2024-01-01 00:00:00.123456Z' + make_dt_interval(0, CAST(id AS INT)) AS at,
    array(id, NULL) AS list, map('k', id) AS m, named_struct('x', id, 'y', array('z')) AS st
"""


def test_every_type_is_read_back_by_us_and_by_others(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "a [table]* {x}? 100%")
    frame = spark.sql(f"SELECT {EVERY_TYPE} FROM range(0, 20, 1, 3)")
    assert append(frame, folder, 0)
    assert rows_of(reading.read(spark, folder)) == rows_of(frame)
    assert reading.read(spark, folder).schema.simpleString() == frame.schema.simpleString()
    strangers = delta_rows(folder)
    for row in strangers:
        row["m"] = dict(row["m"])
    assert in_order(strangers) == rows_of(frame)
    snapshot = snapshot_of(folder)
    assert snapshot.rows == 20
    assert set(snapshot.files) == visible(folder)
    assert os.listdir(os.path.join(folder, "_staging")) == ["lock"]


def test_each_batch_once_and_every_version_stays(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "new" / "table")
    for number, new in ((0, True), (1, True), (1, False), (0, False), (2, True)):
        assert append(spark.range(number * 10, number * 10 + 10), folder, number) == new
    assert sorted(row["id"] for row in delta_rows(folder)) == list(range(30))
    for version, count in enumerate((10, 20, 30)):
        assert len(delta_rows(folder, version)) == count
        assert reading.read(spark, folder, version).count() == count
    old = reading.read(spark, folder)
    assert writing.overwrite(spark.range(3), folder, Batch("app", 3), owner=OWNER)
    assert not writing.overwrite(spark.range(4), folder, Batch("app", 3), owner=OWNER)
    assert old.count() == 30
    assert reading.read(spark, folder).count() == len(delta_rows(folder)) == 3
    assert writing.overwrite(spark.range(0), folder, Batch("app", 4), owner=OWNER)
    assert rows_of(reading.read(spark, folder)) == delta_rows(folder) == []
    assert append(spark.range(0), folder, 5)
    assert snapshot_of(folder).transactions == {"app": 4}


def test_partition_columns_keep_their_types(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "parts")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.sql(
            """SELECT * FROM VALUES
            (1L, '01', DATE'2024-02-29', TIMESTAMP'2024-03-10 07:30:00Z', true, 7, 1.50),
            (2L, 'a/b:c=d %20', DATE'1999-12-31', TIMESTAMP'2024-03-10 06:30:00.5Z', false, -7, 2),
            (3L, NULL, NULL, NULL, NULL, NULL, NULL)
            AS t(id, word, day, at, flag, n, money)"""
        )
        by = ["word", "day", "at", "flag", "n", "money"]
        assert append(frame, folder, 0, partition_by=by)
        assert append(frame.selectExpr("*").replace(3, 4, ["id"]), folder, 1, partition_by=by)
        with pytest.raises(TableError, match="is divided by word, day"):
            append(frame, folder, 2, partition_by=["word"])
        read = reading.read(spark, folder)
        assert read.schema.simpleString() == frame.schema.simpleString()
        assert rows_of(reading.read(spark, folder, 0)) == rows_of(frame)
        assert read.where("id <= 2").count() == 4
        assert read.where("at = TIMESTAMP'2024-03-10 07:30:00Z' AND n = 7").count() == 2
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    strangers = {row["id"]: row for row in delta_rows(folder)}
    assert strangers[2] == {
        "id": 2,
        "word": "a/b:c=d %20",
        "day": datetime.date(1999, 12, 31),
        "at": datetime.datetime(2024, 3, 10, 6, 30, 0, 500000, tzinfo=UTC),
        "flag": False,
        "n": -7,
        "money": decimal.Decimal("2.00"),
    }
    assert set(strangers[3].values()) == {3, None}
    assert strangers[1]["word"] == "01"
    assert compaction.compact(spark, folder)
    assert in_order(delta_rows(folder)) == rows_of(reading.read(spark, folder))
    assert len(snapshot_of(folder).files) == 3


def test_columns_may_come_and_go_but_not_change(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "evolving")
    append(spark.sql("SELECT 1L AS id, 'x' AS old"), folder, 0)
    append(spark.sql("SELECT 'new' AS more, 2L AS id"), folder, 1)
    append(spark.sql("SELECT 3L AS id, 'y' AS old"), folder, 2)
    expected = [
        {"id": 1, "old": "x", "more": None},
        {"id": 2, "old": None, "more": "new"},
        {"id": 3, "old": "y", "more": None},
    ]
    assert rows_of(reading.read(spark, folder)) == in_order(delta_rows(folder)) == expected
    assert reading.read(spark, folder, 0).columns == ["id", "old"]
    assert compaction.compact(spark, folder)
    assert not compaction.compact(spark, folder)
    assert rows_of(reading.read(spark, folder)) == in_order(delta_rows(folder)) == expected
    before = snapshot_of(folder)
    with pytest.raises(TableError, match=r"The column id of .* is BIGINT, .* has it as INT: CAST"):
        append(spark.sql("SELECT 1 AS id"), folder, 3)
    with pytest.raises(TableError, match="has a column id, and what is written has ID"):
        append(spark.sql("SELECT 1L AS ID"), folder, 3)
    assert snapshot_of(folder) == before


@pytest.mark.parametrize(
    ("select", "sentence"),
    [
        ("parse_json('1') AS v", r"The column v is VARIANT.*to_json\(v\)"),
        ("struct(TIMESTAMP_NTZ'2024-01-01 00:00:00' AS t) AS s", r"s\.t is TIMESTAMP_NTZ.*CAST"),
        ("INTERVAL '1' DAY AS i", "The column i is INTERVAL DAY.*STRING"),
        ("NULL AS n", "The column n is VOID.*CAST"),
        ("1 AS `a b`", "The column 'a b' can not be in the table"),
        ("struct(1 AS `x=y`) AS s", r"The column 's\.x=y' can not be in the table"),
        ("1 AS a, 2 AS A", "The columns a and A can not be in one table"),
        ("1 AS a, 2 AS a", "The columns a and a can not be in one table"),
        ("'x' COLLATE UNICODE AS c", "The column c is STRING COLLATE UNICODE"),
    ],
)
def test_what_a_table_can_not_have(
    spark: SparkSession, tmp_path: Path, select: str, sentence: str
) -> None:
    folder = tmp_path / "never"
    frame = spark.sql(f"SELECT {select}")
    for attempt in (
        lambda: append(frame, str(folder), 0),
        lambda: writing.check_folder(str(folder), OWNER, frame.schema),
    ):
        with pytest.raises(TableError, match=sentence):
            attempt()
    assert not folder.exists()


def test_folders_that_are_not_ours(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(2)
    full = tmp_path / "full"
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    foreign = str(tmp_path / "foreign")
    DeltaTable.create(foreign, schema=_arrow_schema())
    ours = str(tmp_path / "ours")
    assert append(rows, ours, 0)
    file = tmp_path / "file"
    file.write_text("")
    for folder, sentence in (
        (str(full), "is not empty and no table .it has notes.txt."),
        (foreign, "is a Delta table of another program"),
        (f"{file}/x", "is no folder"),
        ("s3a://bucket/table", "can not be there: tables are folders of this machine"),
        ("hdfs://host/table", "can not be there"),
        ("", "can not be there"),
    ):
        with pytest.raises(TableError, match=sentence):
            append(rows, folder, 0)
        with pytest.raises(TableError, match=sentence):
            writing.check_folder(folder, OWNER, rows.schema)
    with pytest.raises(TableError, match="belongs to pipeline p, sink s, so another does not"):
        writing.append(rows, ours, None, owner="another")
    with pytest.raises(TableError, match="belongs to"):
        writing.check_folder(ours, "another")
    writing.check_folder(ours, OWNER, rows.schema)
    writing.check_folder("file://" + ours, OWNER)
    writing.check_folder(str(tmp_path / "not" / "yet"), OWNER, rows.schema)
    assert sorted(os.listdir(full)) == ["notes.txt"]
    with pytest.raises(TableError, match="is no table"):
        reading.read(spark, str(full))
    with pytest.raises(TableError, match="partition_by names all columns"):
        append(rows, str(tmp_path / "p"), 0, partition_by=["id"])
    with pytest.raises(TableError, match="partition_by names x, which is no column"):
        append(rows, str(tmp_path / "p"), 0, partition_by=["x"])


def _arrow_schema() -> Any:
    import pyarrow as pa

    return pa.schema([("id", pa.int64())])


def test_small_files_are_put_together_and_unused_ones_go(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "FILES_MAX", 4)
    folder = str(tmp_path / "many")
    append(spark.range(0, 500, numPartitions=4), folder, 0)
    assert len(snapshot_of(folder).files) == 4
    append(spark.range(500, 510, numPartitions=1), folder, 1)
    snapshot = snapshot_of(folder)
    assert len(snapshot.files) == 1
    assert snapshot.version == 2
    history = DeltaTable(folder).history()
    assert [one["operation"] for one in history[:2]] == ["OPTIMIZE", "WRITE"]
    assert sorted(row["id"] for row in delta_rows(folder)) == list(range(510))
    assert reading.read(spark, folder, 0).count() == 500
    # All versions are kept, so no file may go; what nobody ever committed does.
    stray = os.path.join(folder, "stray.parquet")
    with open(stray, "wb"):
        os.utime(stray, (1, 1))
    assert files.vacuum(folder, 3600) == 1
    assert len(visible(folder)) == 6


def test_a_failing_compaction_does_not_fail_the_batch(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compaction, "FILES_MAX", 4)
    folder = str(tmp_path / "broken")
    append(spark.range(0, 500, numPartitions=4), folder, 0)
    lost = os.path.join(folder, next(iter(snapshot_of(folder).files)))
    os.rename(lost, lost + ".away")
    assert append(spark.range(500, 510, numPartitions=1), folder, 1)
    assert "The batch is in, but small files of the table" in caplog.text
    os.rename(lost + ".away", lost)
    assert reading.read(spark, folder).count() == 510
    assert append(spark.range(1), folder, 2)
    assert len(snapshot_of(folder).files) == 1
