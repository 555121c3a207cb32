"""Files of an archive merged and tidied away, without Spark: rows, order and readers stay."""

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.spark.archives import archiving
from barnabas.spark.archives.archiving import Asked
from barnabas.spark.archives.compaction import KEPT_MS, compact, due, vacuum
from barnabas.spark.archives.contents import Contents
from barnabas.spark.archives.covering import batch_ranges, cover, data_file
from barnabas.spark.archives.layout import ArchivedFile, ArchiveError, Range, arrow_schema
from barnabas.spark.archives.opening import TopicNow, open_archive
from barnabas.spark.archives.parquet import row_groups
from barnabas.spark.archives.placing import place, staging_folder
from barnabas.spark.archives.replay_plan import Selection, make_plan
from barnabas.spark.archives.staging import Portion, Staging
from barnabas.spark.tables.log import TableLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = TopicNow("orders", "127.0.0.1:1", "id", "cluster", {0: 0, 1: 0}, {0: 10**6, 1: 10**6})


def rows(partition: int, offsets: range) -> pa.RecordBatch:
    columns = [
        [partition] * len(offsets),
        list(offsets),
        [1_700_000_000_000_000 + 1000 * offset for offset in offsets],
        [0] * len(offsets),
        [b"k%d" % offset for offset in offsets],
        [None if offset % 3 else b"v" * offset for offset in offsets],
        [[{"key": "h", "value": None}] if offset % 2 else None for offset in offsets],
    ]
    arrays = [
        pa.array(column, pa.int64()).cast(field.type)
        if field.name == "timestamp"
        else pa.array(column, field.type)
        for column, field in zip(columns, arrow_schema(), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema())


class Growing:
    """An archive that grows as its batches say."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.log = TableLog(str(folder))
        self.contents = open_archive(self.log, TOPIC, "earliest", accept_gap=False)

    def add(self, ends: dict[int, int], *batches: pa.RecordBatch) -> None:
        ranges = batch_ranges(self.contents, {}, ends)
        with staging_folder(self.contents.folder) as staging:
            reports = list(Staging(staging, "snappy").write(iter(batches)))
            portions = [
                Portion(*each.values()) for report in reports for each in report.to_pylist()
            ]
            files = place(self.contents.folder, staging, cover("orders", ranges, portions))
            snapshot = self.log.commit(self.contents.snapshot, add=files, operation="WRITE")
        self.contents = Contents(self.contents.folder, snapshot)

    def compact(self, target: int = 10**9, many: int = 2) -> None:
        self.contents = compact(self.log, self.contents, target=target, many=many, codec="zstd")


def offsets_of(contents: Contents, partition: int) -> list[int]:
    found: list[int] = []
    for file in contents.files(partition):
        found += pq.read_table(contents.path(file)).column("offset").to_pylist()
    return found


def test_merged_files_hold_the_same_rows_and_old_ones_stay_for_a_while(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "a")
    # Alternating partitions in one task; then offsets without a record at every edge.
    growing.add({0: 10, 1: 7}, rows(0, range(1, 4)), rows(1, range(7)), rows(0, range(5, 9)))
    growing.add({0: 20, 1: 7})
    growing.add({0: 30, 1: 9}, rows(0, range(22, 30)))
    pinned = growing.contents
    before = [pq.read_table(pinned.path(file)) for file in pinned.files(0)]
    assert [Range(file.first, file.end) for file in pinned.files(0)] == [
        (0, 10),
        (10, 20),
        (20, 30),
    ]
    growing.compact()
    now = growing.contents
    (merged,) = now.files(0)
    assert [merged.first, merged.end, merged.records] == [0, 30, 15]
    assert os.path.basename(merged.path) == f"orders-0-{1:020d}-{29:020d}.parquet"
    assert pq.read_table(now.path(merged)).equals(pa.concat_tables(before))
    assert now.ranges == pinned.ranges == {0: Range(0, 30), 1: Range(0, 9)}
    # A file and an empty one would get the name that the file has: they wait.
    assert len(now.files(1)) == 2
    assert vacuum(now) == 0
    assert offsets_of(pinned, 0) == offsets_of(now, 0) == [1, 2, 3, *range(5, 9), *range(22, 30)]
    assert [each.column("offset").to_pylist() for each in row_groups(now.path(merged), 3, 23)] == [
        [3, 5, 6, 7, 8, 22]
    ]
    later = os.path.join(now.folder, "0", "never-committed.parquet")
    Path(later).write_bytes(b"")
    assert vacuum(now, kept_ms=-KEPT_MS) == 4
    assert offsets_of(now, 0)
    with pytest.raises(FileNotFoundError):
        offsets_of(pinned, 0)


def test_an_archive_that_is_stopped_merges_nothing_first(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "a")
    for end in (10, 20, 30):
        growing.add({0: end}, rows(0, range(end - 10, end)))
    asked = Asked("orders", growing.contents.folder, TOPIC.servers, once=True, codec="snappy")
    stop = threading.Event()
    stop.set()
    # Spark has nothing to do any more.
    spark = cast("SparkSession", None)
    stopped = archiving._run(spark, asked, TOPIC, None, stop, 0)
    assert set(stopped.snapshot.files) == set(growing.contents.snapshot.files)
    assert len(stopped.snapshot.files) > 1


def test_a_file_that_was_changed_is_not_merged(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "a")
    growing.add({0: 5}, rows(0, range(5)))
    growing.add({0: 9}, rows(0, range(5, 9)))
    first = growing.contents.files(0)[0]
    pq.write_table(pa.Table.from_batches([rows(0, range(3))]), growing.contents.path(first))
    with pytest.raises(ArchiveError, match="holds 3 records instead of 5"):
        growing.compact()
    assert len(growing.contents.files(0)) == 2


def test_a_part_with_few_records_is_replayed_too(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "a")
    sparse = pa.Table.from_batches([rows(0, range(1)), rows(0, range(998, 999))])
    growing.add({0: 1000}, *sparse.combine_chunks().to_batches())
    plan = make_plan(growing.contents, "id", Selection(((0, 998),)), (None, None))
    assert plan.chunks == ({0: Range(998, 1000)},)


def test_other_readers_are_told_times_to_the_millisecond(tmp_path: Path) -> None:
    late_ms = 253_402_300_799_999
    file = ArchivedFile("0/orders-0-0-0.parquet", 0, 0, 1, 1, 1, 1, -1, late_ms)
    stats = data_file(file, 0).stats
    assert stats["minValues"] == {
        "partition": 0,
        "offset": 0,
        "timestamp": "1969-12-31T23:59:59.999Z",
    }
    assert stats["maxValues"] == {
        "partition": 0,
        "offset": 0,
        "timestamp": "9999-12-31T23:59:59.999Z",
    }
    beyond = data_file(file._replace(newest_ms=late_ms + 1), 0).stats
    assert beyond["maxValues"] == {"partition": 0, "offset": 0}


def test_a_batch_must_follow_the_archive(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "a")
    growing.add({0: 5}, rows(0, range(5)))
    with pytest.raises(ArchiveError, match=r"offsets 3 to 9 of orders-0, and the archive .* at 5"):
        batch_ranges(growing.contents, {0: 3}, {0: 10})
    with pytest.raises(ArchiveError, match="offsets 5 to 3 of orders-0"):
        batch_ranges(growing.contents, {0: 5}, {0: 4})
    with pytest.raises(ArchiveError, match="which another has brought"):
        growing.add({0: 10}, rows(0, range(4, 10)))
    with pytest.raises(ArchiveError, match="did not arrive in the order"):
        growing.add({0: 20}, rows(0, range(7, 9)), rows(0, range(5, 8)))
    assert growing.contents.ranges == {0: Range(0, 5)}
    assert not os.path.exists(os.path.join(growing.contents.folder, "_staging"))


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 60), st.integers(2, 8))
def test_only_neighbours_are_merged_and_up_to_the_target(
    sizes: list[int], target: int, many: int
) -> None:
    files = [
        ArchivedFile(f"f{at}", 0, at, at + 1, 1, size, size, 0, 0) for at, size in enumerate(sizes)
    ]
    groups = due(files, target, many)
    assert all(len(group) >= many for group in groups)
    assert all(sum(file.size for file in group) <= target for group in groups)
    merged = [file.first for group in groups for file in group]
    assert merged == sorted(set(merged))
    for group in groups:
        assert [file.first for file in group] == list(range(group[0].first, group[-1].end))


def test_rows_are_not_written_again_and_again() -> None:
    """A row of a growing archive is merged about as often as its file can grow eightfold."""
    files: list[ArchivedFile] = []
    written = 0
    for at in range(4_096):
        files.append(ArchivedFile(f"f{at}", 0, at, at + 1, 1, 1, 1, 0, 0))
        for group in due(files, 512, 8):
            size = sum(file.size for file in group)
            written += size
            begin = files.index(group[0])
            merged = group[0]._replace(end=group[-1].end, size=size)
            files[begin : begin + len(group)] = [merged]
    assert len(files) < 40
    assert written < 6 * 4_096
