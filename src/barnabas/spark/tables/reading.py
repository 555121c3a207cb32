"""A table as a DataFrame: exactly the files of one version."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.spark.tables import staged
from barnabas.spark.tables.columns import quoted, schema_of
from barnabas.spark.tables.log import TableLog
from barnabas.spark.tables.places import local_folder
from barnabas.spark.tables.snapshot import DataFile, Shape, TableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(spark: "SparkSession", folder: str, version: int | None = None) -> "DataFrame":
    """The rows of a table as it is now, or at a version of the past.

    Later commits do not change the frame. TableError where there is no table.
    """
    path = local_folder(folder)
    snapshot = TableLog(path).snapshot(version)
    if snapshot is None:
        raise TableError(
            f"{path} is no table: check the path, or run what writes it at least once."
        )
    return frame_of(spark, path, snapshot.shape, snapshot.files.values())


def frame_of(
    spark: "SparkSession", folder: str, shape: Shape, files: Iterable[DataFile]
) -> "DataFrame":
    """The rows of some files of a table, with all of its columns in its order."""
    return rows_of(spark, folder, shape, files).select(
        *(quoted(name) for name in schema_of(shape).names)
    )


def rows_of(
    spark: "SparkSession", folder: str, shape: Shape, files: Iterable[DataFile]
) -> "DataFrame":
    """The same, as Spark reads it: with `_metadata`, which says what file a row comes from."""
    schema = schema_of(shape)
    paths = sorted(file.path for file in files)
    if not paths:
        return spark.createDataFrame([], schema)
    _check_layout(folder, shape, paths)
    return (
        spark.read.schema(schema)
        .option("basePath", staged.uri(folder))
        .option("timeZone", "UTC")
        .parquet(*(staged.uri_to_read(os.path.join(folder, path)) for path in paths))
    )


def _check_layout(folder: str, shape: Shape, paths: Iterable[str]) -> None:
    """Spark takes the values of partition columns from the folders' names."""
    columns = list(shape.partition_columns)
    for path in paths:
        if [part.partition("=")[0] for part in path.split("/")[:-1]] != columns:
            raise TableError(
                f"The file {path} of the table {folder} does not lie in folders named after the "
                f"partition columns ({', '.join(columns) or 'there are none'}), so another program "
                "wrote it: read the table with that one."
            )
