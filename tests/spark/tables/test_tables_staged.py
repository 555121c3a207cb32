"""What the footers of staged files say of them. No Spark is started."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from barnabas.spark.tables.staged import found

FAR_DAYS = 20_000_000
SCHEMA = StructType([StructField("id", LongType())])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, FAR_DAYS], pa.int32()).cast(pa.date32()),
        pa.array([1, -FAR_DAYS], pa.int32()).cast(pa.date32()),
        pa.array([1, FAR_DAYS * 86_400_000_000]).cast(pa.timestamp("us", tz="UTC")),
    ],
    ids=["a day after 9999", "a day before 1", "a moment after 9999"],
)
def test_times_that_python_does_not_know_have_no_bounds(tmp_path: Path, column: pa.Array) -> None:
    """Spark has such days, and a record with one must not keep its batch out for ever."""
    table = pa.table({"id": pa.array([1, 2]), "at": column})
    pq.write_table(table, tmp_path / "part.parquet")
    (file,) = found(str(tmp_path), SCHEMA)
    assert file.rows == 2
    assert file.stats == {
        "minValues": {"id": 1},
        "maxValues": {"id": 2},
        "nullCount": {"id": 0, "at": 0},
    }
