"""Batches of rows into tables, each exactly once.

The batch's number is committed with its files, in one step: a batch that comes again, after a
crash or from a second run, is found to be in and does nothing. A batch without rows is not
committed (unless it makes or empties the table): to be in or not is the same for it.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas.spark.tables import columns, compaction, upserting
from barnabas.spark.tables.files import TableWriter, writing_alone
from barnabas.spark.tables.log import TableLog
from barnabas.spark.tables.places import local_folder
from barnabas.spark.tables.snapshot import Batch, BatchIsIn, Snapshot, TableError
from barnabas.spark.tables.work import (
    Changes,
    Wish,
    Work,
    check_new_folder,
    fitting_shape,
    new_shape,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def append(
    frame: "DataFrame",
    folder: str,
    batch: Batch | None,
    *,
    partition_by: Sequence[str] = (),
    owner: str,
) -> bool:
    """Add rows to a table, which the first batch makes.

    Columns that the table does not have yet are added to it; of those that the rows do not have
    they get null. Returns False when the batch was in already. TableError when the folder is not
    this owner's table, and for columns that do not fit.
    """
    wish = _wish(frame, folder, owner, partition_by)
    return _write(frame, wish, batch, "WRITE", lambda work: Changes(work.published(work.rows)))


def overwrite(
    frame: "DataFrame",
    folder: str,
    batch: Batch | None,
    *,
    partition_by: Sequence[str] = (),
    owner: str,
) -> bool:
    """Put these rows in the place of all that the table has; otherwise like `append`."""

    def make(work: Work) -> Changes:
        return Changes(work.published(work.rows), list(work.snapshot.files))

    wish = _wish(frame, folder, owner, partition_by)
    return _write(frame, wish, batch, "OVERWRITE", make, alone=True)


def upsert(
    frame: "DataFrame",
    folder: str,
    batch: Batch | None,
    *,
    key: Sequence[str],
    order_by: str | None = None,
    delete_when: str | None = None,
    partition_by: Sequence[str] = (),
    owner: str,
) -> bool:
    """Put each row in the place of the one with the same key; otherwise like `append`.

    Of several rows of a key the one with the greatest `order_by` (a column or an SQL expression)
    counts; without it the one with the greatest `_offset` where there is such a column, and a key
    that comes twice is refused where there is none. If `order_by` is a column, a row that is older
    than the one in the table changes nothing. A row that meets the SQL condition
    `delete_when` takes the row of its key out of the table.
    """
    wish = _wish(frame, folder, owner, partition_by, key)
    if not key:
        raise TableError(f"The table {wish.folder} can not be upserted without a key: name one.")
    columns.check_columns(key, wish.schema, "key", wish.folder)
    rule = upserting.Rule(tuple(key), order_by, delete_when)
    return _write(
        frame, wish, batch, "MERGE", lambda work: upserting.changes(work, rule), alone=True
    )


def check_folder(
    folder: str,
    owner: str,
    schema: "StructType | None" = None,
    *,
    partition_by: Sequence[str] = (),
    key: Sequence[str] = (),
) -> None:
    """TableError where a batch with these columns could not be written; changes nothing."""
    path = local_folder(folder)
    snapshot = TableLog(path).snapshot()
    if snapshot is None:
        check_new_folder(path)
    if schema is None:
        given = columns.schema_of(snapshot.shape) if snapshot is not None else None
    else:
        given = columns.table_schema(schema, path)
    if given is None:
        return
    wish = Wish(path, given, owner, tuple(partition_by), tuple(key))
    if key:
        columns.check_columns(key, given, "key", path)
    if snapshot is None:
        new_shape(wish)
    else:
        fitting_shape(snapshot, wish)


def _wish(
    frame: "DataFrame",
    folder: str,
    owner: str,
    partition_by: Sequence[str],
    key: Sequence[str] = (),
) -> Wish:
    path = local_folder(folder)
    schema = columns.table_schema(frame.schema, path)
    return Wish(path, schema, owner, tuple(partition_by), tuple(key))


def _write(
    frame: "DataFrame",
    wish: Wish,
    batch: Batch | None,
    operation: str,
    make: Callable[[Work], Changes],
    *,
    alone: bool = False,
) -> bool:
    if _is_in(wish, batch):
        return False
    with writing_alone(wish.folder) as writer:
        before = writer.log.snapshot()
        if before is not None and batch is not None and before.has(batch):
            return False
        work = _begin(writer, before, frame, wish)
        made = make(work)
        if before is not None and before.shape == work.shape and not (made.add or made.remove):
            return True
        try:
            after = writer.log.commit(
                work.snapshot,
                add=made.add,
                remove=made.remove,
                batch=batch,
                operation=operation,
                shape=work.shape,
                alone=alone,
            )
        except BatchIsIn:
            # Somebody who does not take our lock has written it.
            return False
        compaction.tidy(frame.sparkSession, writer, work.snapshot, after)
    return True


def _is_in(wish: Wish, batch: Batch | None) -> bool:
    """Whether there is nothing to do; TableError where nothing may be done, before it is begun."""
    snapshot = TableLog(wish.folder).snapshot()
    if snapshot is None:
        check_new_folder(wish.folder)
        new_shape(wish)
        return False
    fitting_shape(snapshot, wish)
    return batch is not None and snapshot.has(batch)


def _begin(writer: TableWriter, before: Snapshot | None, frame: "DataFrame", wish: Wish) -> Work:
    if before is None:
        check_new_folder(wish.folder)
        before = writer.log.unborn(new_shape(wish))
    shape = fitting_shape(before, wish)
    rows = columns.conformed(frame, columns.schema_of(shape))
    return Work(writer, before, shape, rows)
