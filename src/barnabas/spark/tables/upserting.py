"""Rows that take the place of others with the same key, by writing the files anew that have them.

The batch is written to the staging folder first, so that it is computed once, whatever is asked
of it then. A file of the table is read only if its statistics do not tell that none of the keys is
in it, and written anew only if a row of it goes.
"""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import Window
from pyspark.sql import functions as sql

from barnabas.model.check import BrokenInvariantError
from barnabas.spark.tables import columns, staged
from barnabas.spark.tables.columns import quoted
from barnabas.spark.tables.compaction import TARGET_BYTES
from barnabas.spark.tables.reading import frame_of, rows_of
from barnabas.spark.tables.snapshot import DataFile, TableError
from barnabas.spark.tables.work import Changes, Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OFFSET: Final = "_offset"
_ORDER: Final = "__barnabas_order"
_DELETED: Final = "__barnabas_deleted"
_RANK: Final = "__barnabas_rank"
_STORED: Final = "__barnabas_stored"
_FILE: Final = "__barnabas_file"
_NEWER: Final = "__barnabas_newer"
_BROADCAST_ROWS_MAX: Final = 200_000


@dataclass(frozen=True, slots=True)
class Rule:
    """Which row replaces which."""

    key: tuple[str, ...]
    order_by: str | None
    delete_when: str | None

    @property
    def keys(self) -> list[str]:
        """The key's columns as SQL takes them."""
        return [quoted(name) for name in self.key]


def changes(work: Work, rule: Rule) -> Changes:
    """Write what a batch makes of the table; the commit must find the table as it was."""
    batch, candidates = _staged_batch(work, rule)
    rows = _checked_rows(work, rule, batch)
    if rows == 0:
        return Changes([])
    winners = _winners(work, rule, batch)
    touched, winners = _touched(work, rule, winners, candidates, few=rows <= _BROADCAST_ROWS_MAX)
    names = columns.schema_of(work.shape).names
    result = winners.where(~sql.col(_DELETED)).select(*(quoted(name) for name in names))
    if touched:
        spark = work.rows.sparkSession
        stored = frame_of(spark, work.folder, work.shape, touched)
        keys = winners.select(*rule.keys)
        if rows <= _BROADCAST_ROWS_MAX:
            keys = sql.broadcast(keys)
        result = (
            stored.join(keys, list(rule.key), "left_anti")
            .select(*(quoted(name) for name in names))
            .unionByName(result)
        )
    size = sum(file.size for file in touched)
    result = result.repartition(max(1, math.ceil(size / TARGET_BYTES)))
    return Changes(work.published(result), [file.path for file in touched])


def _staged_batch(work: Work, rule: Rule) -> tuple["DataFrame", list[DataFile]]:
    """The batch as it was computed, once, and the files of the table its keys may be in."""
    order = rule.order_by or (quoted(_OFFSET) if _OFFSET in work.rows.columns else "NULL")
    condition = rule.delete_when or "false"
    try:
        rows = work.rows.select(
            "*",
            sql.expr(order).alias(_ORDER),
            sql.coalesce(sql.expr(condition).cast("boolean"), sql.lit(False)).alias(_DELETED),
        )
    except AnalysisException as problem:
        raise TableError(
            f"order_by or delete_when of the table {work.folder} is not understood: "
            f"{str(problem).splitlines()[0]}"
        ) from problem
    into = work.writer.stage()
    staged.write(rows, work.folder, into)
    found = staged.found(into, rows.schema)
    stored = work.snapshot.files.values()
    candidates = [file for file in stored if _may_share(file, found, rule.key)]
    return work.rows.sparkSession.read.schema(rows.schema).parquet(
        staged.uri_to_read(into)
    ), candidates


def _checked_rows(work: Work, rule: Rule, batch: "DataFrame") -> int:
    """How many rows the batch has; TableError where a key is null or is not clear."""
    missing = sql.lit(False)
    for name in rule.key:
        value = sql.col(quoted(name))
        missing = missing | value.isNull()
        if name in work.shape.partition_columns:
            # Delta has no folder for an empty text: such a row would come back with null.
            missing = missing | (value.cast("string") == "")
    counts = batch.agg(
        sql.count("*").alias("rows"), sql.count(sql.when(missing, 1)).alias("missing")
    ).first()
    if counts is None:
        raise BrokenInvariantError("counts is there by now")
    if counts["missing"]:
        raise TableError(
            f"{counts['missing']} rows for the table {work.folder} have null in their key "
            f"({', '.join(rule.key)}), or an empty text where partition_by names it, so nobody "
            "knows what they replace: leave them out with WHERE, or choose another key."
        )
    return int(counts["rows"])


def _winners(work: Work, rule: Rule, batch: "DataFrame") -> "DataFrame":
    """One row of each key."""
    if rule.order_by is None and _OFFSET not in batch.columns:
        twice = batch.groupBy(*rule.keys).count().where("count > 1").first()
        if twice is not None:
            values = ", ".join(f"{name} = {twice[name]}" for name in rule.key)
            raise TableError(
                f"A batch for the table {work.folder} has the key {values} more than once, and "
                "nobody says which row counts: set order_by, or select _offset, too."
            )
        return batch
    order = [sql.col(_ORDER).desc_nulls_last()]
    if _OFFSET in batch.columns:
        order.append(sql.col(_OFFSET).desc_nulls_last())
    window = Window.partitionBy(*rule.keys).orderBy(*order)
    ranked = batch.withColumn(_RANK, sql.row_number().over(window))
    return ranked.where(sql.col(_RANK) == 1).drop(_RANK)


def _touched(
    work: Work,
    rule: Rule,
    winners: "DataFrame",
    candidates: Sequence[DataFile],
    *,
    few: bool,
) -> tuple[list[DataFile], "DataFrame"]:
    """The files in which a row goes, and the rows of the batch that are not too old."""
    if not candidates:
        return [], winners
    stored = rows_of(work.rows.sparkSession, work.folder, work.shape, candidates)
    order = _column_named(rule.order_by, stored.columns)
    compares = order is not None
    stored = stored.select(
        *rule.keys,
        (sql.lit(None) if order is None else sql.col(quoted(order))).alias(_STORED),
        stored.metadataColumn("_metadata")["file_path"].alias(_FILE),
    )
    new = winners.select(*rule.keys, _ORDER)
    met = stored.join(sql.broadcast(new) if few else new, list(rule.key))
    # A batch that was late, or came twice under another number, must not turn the table back. Of
    # two that are as old as each other the later one counts, as it does within a batch.
    older = sql.col(_STORED).isNotNull() & ~sql.coalesce(
        sql.col(_ORDER) >= sql.col(_STORED), sql.lit(False)
    )
    met = met.withColumn(_NEWER, ~older if compares else sql.lit(True))
    found = met.select(_FILE, _NEWER).distinct().collect()
    if not all(row[_NEWER] for row in found):
        late = met.where(~sql.col(_NEWER)).select(*rule.keys).distinct()
        winners = winners.join(late, list(rule.key), "left_anti")
    by_path = {os.path.join(work.folder, file.path): file for file in candidates}
    paths = sorted({_local(row[_FILE]) for row in found if row[_NEWER]})
    return [by_path[path] for path in paths], winners


def _column_named(expression: str | None, names: Iterable[str]) -> str | None:
    """The column that an expression is, if it is nothing else: in any case, or in backticks."""
    text = (expression or "").strip()
    if text.startswith("`"):
        text = text[1:-1].replace("``", "`")
    return next((name for name in names if name.lower() == text.lower()), None)


def _local(uri: str) -> str:
    return unquote(urlsplit(uri).path)


def _may_share(file: DataFile, batch: Iterable[DataFile], key: Sequence[str]) -> bool:
    """Whether a key of the batch may be in the file, as far as the statistics tell."""
    return any(all(_overlap(file, other, name) for name in key) for other in batch)


def _overlap(one: DataFile, other: DataFile, name: str) -> bool:
    ends = [_bound(file, which, name) for file in (one, other) for which in _BOUNDS]
    if any(end is None or type(end) is not type(ends[0]) for end in ends):
        return True
    least, greatest, other_least, other_greatest = ends
    return bool(least <= other_greatest and other_least <= greatest)


_BOUNDS: Final = ("minValues", "maxValues")


def _bound(file: DataFile, which: str, name: str) -> Any:
    values = file.stats.get(which)
    return values.get(name) if isinstance(values, dict) else None
