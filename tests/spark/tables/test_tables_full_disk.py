"""A disk that is really full, under Spark's own writer."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.tables.oracles import delta_rows, visible
from tests.spark.tables.plain import current

from barnabas.spark.tables import writing
from barnabas.spark.tables.snapshot import Batch, TableDiskError


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """4 MiB of memory as a disk."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "barnabas-test", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if mounted.returncode:
        pytest.skip(f"a small disk can not be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_batch_for_which_there_is_no_room(spark: SparkSession, small_disk: Path) -> None:
    folder = str(small_disk / "table")

    def append(rows: int, number: int) -> bool:
        frame = spark.range(0, rows, 1, 2).selectExpr("id", "randstr(1000, 0) AS text")
        return writing.append(frame, folder, Batch("a", number), owner="test")

    assert append(10, 0)
    before = current(folder)
    with pytest.raises(TableDiskError, match=r"\(No space left on device\): nothing half-written"):
        append(20_000, 1)
    assert current(folder) == before
    assert visible(folder) == set(before.files)
    assert os.listdir(os.path.join(folder, "_staging")) == ["lock"]
    # What was begun is gone, and there is room again once Spark's other task has let its file go.
    assert _once_there_is_room(lambda: append(1000, 1))
    assert len(delta_rows(folder)) == 1010


def _once_there_is_room(write: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(TableDiskError):
            return write()
        time.sleep(0.2)
    return False
