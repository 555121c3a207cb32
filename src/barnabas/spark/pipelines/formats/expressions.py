"""Small expressions that all formats share."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

SHOWN_MAX: Final = 100
"""Letters of a value that a reason quotes."""
NO_TEXT: Final = "the value is no UTF-8 text"


def once(column: "Column") -> "Column":
    """The same value, but computed once for each row, in the projection where it stands.

    Spark moves filters below projections and computes what they need there, too, so that every
    record would be decoded twice. It leaves alone what is not deterministic, and that is what a
    look at the task's number makes of an expression, at no cost.
    """
    from pyspark.sql import functions as f

    return f.when(f.spark_partition_id() >= 0, column)


def first_of(problems: "list[Column]") -> "Column":
    """The first text that is there, null without any."""
    from pyspark.sql import functions as f

    return f.coalesce(*problems) if problems else f.lit(None).cast("string")


def shown(column: "Column", kind: "DataType") -> "Column":
    """A value as a reason quotes it: on one line, and shortened."""
    from pyspark.sql import functions as f
    from pyspark.sql import types

    # The text of a VARIANT is its JSON, but that of a string without the quotes.
    as_json = is_nested(kind) and not isinstance(kind, types.VariantType)
    text = f.to_json(column) if as_json else column.cast("string")
    line = f.regexp_replace(f.make_valid_utf8(f.left(text, f.lit(SHOWN_MAX))), r"\p{Cntrl}", " ")
    return f.concat(
        f.lit("'"), line, f.when(f.length(text) > SHOWN_MAX, "…").otherwise(""), f.lit("'")
    )


def misfit(path: str, column: "Column", kind: "DataType", wanted: str) -> "Column":
    """`amount: 'abc' is no DECIMAL(10,2)`."""
    from pyspark.sql import functions as f

    return f.concat(f.lit(f"{path}: "), shown(column, kind), f.lit(f" is no {wanted}"))


def is_nested(kind: "DataType") -> bool:
    """Whether only JSON can show it."""
    from pyspark.sql import types

    nested = types.StructType, types.ArrayType, types.MapType, types.VariantType
    return isinstance(kind, nested)


def quoted(name: str) -> str:
    """A column's name as SQL takes it, whatever it holds."""
    return "`" + name.replace("`", "``") + "`"


def try_cast(column: "Column", kind: "DataType") -> "Column":
    """The value as another type, null where it can not be."""
    return column.try_cast(kind)


def type_name(kind: "DataType") -> str:
    """`DECIMAL(10,2)`, `STRUCT`: as people write it, without what is within."""
    name: str = kind.typeName() if is_nested(kind) else kind.simpleString()
    return name.upper()
