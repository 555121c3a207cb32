"""Which columns a table can have, and how they may change from batch to batch.

Delta's first reader version has no names for some of Spark's types; and what is written once must
stay readable, so a column may come, but not become something else.
"""

import json
from collections.abc import Collection, Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from barnabas.spark.tables.snapshot import Shape, TableError

_SIMPLE: Final = (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    TimestampType,
)
_NO_PARTITIONS: Final = (BinaryType, DoubleType, FloatType, ArrayType, MapType, StructType)
_FORBIDDEN: Final = " ,;{}()\n\t="
_ADVICE: Final[dict[type[DataType], str]] = {
    VariantType: "make it text with to_json({0}), or take single values out with variant_get",
    TimestampNTZType: "make it a TIMESTAMP with CAST({0} AS TIMESTAMP)",
    NullType: "say what it is, as in CAST(NULL AS STRING) AS {0}",
}


def table_schema(schema: StructType, folder: str) -> StructType:
    """A frame's columns as a table keeps them: any may be null, and nothing else is said of them.

    TableError for names and types that a table can not have.
    """
    if not schema.fields:
        raise TableError(f"There are no columns to write to the table {folder}: select some.")
    return _clean_struct(schema, "", folder)


def _clean_struct(schema: StructType, path: str, folder: str) -> StructType:
    _check_names(schema, path, folder)
    return StructType(
        [
            StructField(field.name, _clean(field.dataType, path + field.name, folder), True)
            for field in schema.fields
        ]
    )


def _check_names(schema: StructType, path: str, folder: str) -> None:
    seen: dict[str, str] = {}
    for name in schema.names:
        bad = next((letter for letter in name if letter in _FORBIDDEN), None)
        if bad is not None or not name:
            what = f"the character {bad!r}" if name else "no name"
            raise TableError(
                f"The column {path + name!r} can not be in the table {folder}, because it has "
                f"{what}: give it another name with AS."
            )
        other = seen.get(name.lower())
        if other is not None:
            raise TableError(
                f"The columns {path + other} and {path + name} can not be in one table ({folder}), "
                "because their names differ in case at most: give one of them another name with AS."
            )
        seen[name.lower()] = name


def _clean(kind: DataType, path: str, folder: str) -> DataType:
    if isinstance(kind, StructType):
        return _clean_struct(kind, path + ".", folder)
    if isinstance(kind, ArrayType):
        return ArrayType(_clean(kind.elementType, path + ".element", folder), True)
    if isinstance(kind, MapType):
        keys = _clean(kind.keyType, path + ".key", folder)
        return MapType(keys, _clean(kind.valueType, path + ".value", folder), True)
    if isinstance(kind, _SIMPLE) or kind == StringType():
        return kind
    advice = _ADVICE.get(type(kind), "CAST it to a type that tables have, such as STRING")
    raise TableError(
        f"The column {path} is {kind.simpleString().upper()}, which tables (Delta's reader version "
        f"1) do not have, so {folder} can not take it: {advice.format(path)}."
    )


def schema_of(shape: Shape) -> StructType:
    """A table's columns as Spark knows them."""
    return StructType.fromJson(json.loads(shape.schema_json))


def check_partitions(schema: StructType, partition_by: Collection[str], folder: str) -> None:
    """TableError for partition columns that are not there, or that make no folders."""
    for name in partition_by:
        if name not in schema.names:
            raise TableError(
                f"partition_by names {name}, which is no column of what is written to {folder}: "
                f"there are {', '.join(schema.names)}."
            )
        kind = schema[name].dataType
        if isinstance(kind, _NO_PARTITIONS):
            raise TableError(
                f"partition_by names {name}, which is {kind.simpleString().upper()}, and the table "
                f"{folder} can not be divided by such values: choose a text, a date or a whole "
                "number."
            )
    if len(set(partition_by)) >= len(schema.names):
        raise TableError(
            f"partition_by names all columns of the table {folder}: at least one must be left for "
            "the files."
        )


def merged(known: StructType, given: StructType, folder: str) -> StructType:
    """The table's columns and, after them, those that are new; TableError for other changes."""
    folded = {name.lower(): name for name in known.names}
    new: list[StructField] = []
    for field in given.fields:
        name = folded.get(field.name.lower())
        if name is None:
            new.append(field)
        elif name != field.name:
            raise TableError(
                f"The table {folder} has a column {name}, and what is written has {field.name}, "
                f"which differs in case: name it {name} with AS."
            )
        elif known[name].dataType != field.dataType:
            raise TableError(
                f"The column {name} of the table {folder} is "
                f"{known[name].dataType.simpleString().upper()}, and what is written has it as "
                f"{field.dataType.simpleString().upper()}: CAST it, give it another name, or write "
                "to another folder."
            )
    return StructType([*known.fields, *new])


def conformed(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame with all of the table's columns in the table's order; null where it has none."""
    here = set(frame.columns)
    return frame.select(
        *(
            sql.col(quoted(field.name))
            if field.name in here
            else sql.lit(None).cast(field.dataType).alias(field.name)
            for field in schema.fields
        )
    )


def check_columns(names: Iterable[str], schema: StructType, what: str, folder: str) -> None:
    """TableError where one of the names is no column."""
    for name in names:
        if name not in schema.names:
            raise TableError(
                f"{what} names {name}, which is no column of what is written to {folder}: there "
                f"are {', '.join(schema.names)}."
            )


def quoted(name: str) -> str:
    """A column's name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
