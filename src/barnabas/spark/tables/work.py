"""One batch on its way into a table: whose table it is, what fits into it, and what was written."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from barnabas.spark.tables import columns, durable, staged
from barnabas.spark.tables.files import STAGING_FOLDER, TableWriter
from barnabas.spark.tables.log import LOG_FOLDER
from barnabas.spark.tables.snapshot import OWNER, DataFile, Shape, Snapshot, TableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

KEY: Final = "barnabas.key"
"""The setting of an upserted table that says which columns tell its rows apart."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a writer says a table is."""

    folder: str
    schema: "StructType"
    owner: str
    partition_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()

    def settings(self) -> Mapping[str, str]:
        """As the table keeps it."""
        return {OWNER: self.owner} | ({KEY: json.dumps(self.key)} if self.key else {})


@dataclass(frozen=True, slots=True)
class Work:
    """A table that we have alone, and the rows for it."""

    writer: TableWriter
    snapshot: Snapshot
    shape: Shape
    """As it will be after the commit."""
    rows: "DataFrame"
    """With all of the table's columns."""

    @property
    def folder(self) -> str:
        """The table's."""
        return self.writer.folder

    def published(self, rows: "DataFrame") -> list[DataFile]:
        """Write rows to files of the table; they count once they are committed."""
        into = self.writer.stage()
        by = self.shape.partition_columns
        staged.write(rows, self.folder, into, by)
        files = staged.found(into, columns.schema_of(self.shape), by)
        self.writer.publish(into, {file.path: file.path for file in files})
        return files


@dataclass(frozen=True, slots=True)
class Changes:
    """What a commit will say."""

    add: Sequence[DataFile]
    remove: Sequence[str] = field(default_factory=tuple)


def check_new_folder(folder: str) -> None:
    """TableError where a table can not be made, because something else is there."""
    if os.path.isdir(folder):
        with durable.disk_errors(folder):
            found = set(os.listdir(folder)) - {STAGING_FOLDER, LOG_FOLDER}
        if found:
            raise TableError(
                f"{folder} is not empty and no table (it has {min(found)}), so nothing is written "
                "there: choose another folder, or empty this one."
            )
        return
    above = folder
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise TableError(
            f"The table {folder} can not be made, because {above} is no folder: choose another one."
        )
    if not os.access(above, os.W_OK | os.X_OK):
        raise TableError(
            f"The table {folder} can not be made, because you may not write to {above}: choose "
            "another folder, or change its permissions."
        )


def new_shape(wish: Wish) -> Shape:
    """What a table is when it is made."""
    columns.check_partitions(wish.schema, wish.partition_by, wish.folder)
    return Shape(wish.schema.json(), wish.partition_by, wish.settings())


def fitting_shape(snapshot: Snapshot, wish: Wish) -> Shape:
    """What a table that is there becomes; TableError where it is not ours or does not fit."""
    shape = snapshot.shape
    _check_owner(shape, wish)
    if shape.partition_columns != wish.partition_by:
        raise TableError(
            f"The table {wish.folder} is divided by {_listed(shape.partition_columns)}, and "
            f"partition_by says {_listed(wish.partition_by)}: leave it as it was, or write to "
            "another folder."
        )
    stored_key = shape.settings.get(KEY, "[]")
    if json.loads(stored_key) != list(wish.key):
        raise TableError(
            f"The table {wish.folder} tells its rows apart by {_listed(json.loads(stored_key))}, "
            f"and key says {_listed(wish.key)}: leave it as it was, or write to another folder."
        )
    schema = columns.merged(columns.schema_of(shape), wish.schema, wish.folder)
    return Shape(schema.json(), shape.partition_columns, shape.settings)


def _check_owner(shape: Shape, wish: Wish) -> None:
    owner = shape.settings.get(OWNER)
    if owner is None:
        raise TableError(
            f"{wish.folder} is a Delta table of another program, so {wish.owner} does not write "
            "to it: choose another folder."
        )
    if owner != wish.owner:
        raise TableError(
            f"The table {wish.folder} belongs to {owner}, so {wish.owner} does not write to it: "
            "choose another folder."
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
