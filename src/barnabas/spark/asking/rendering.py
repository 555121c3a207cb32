"""Values of an answer, made by Spark where Python could not hold them.

A record's timestamp may lie in a year that no Python calendar has, and VARIANT and intervals have
their own words in Spark; so these arrive as text.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_MOMENT: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
_ZONE: Final = 3 * "X"
"""`+01:00`, as Spark writes the pattern of it."""


def rendered(frame: "DataFrame") -> "DataFrame":
    """The same rows: moments and days as ISO 8601, intervals as text, also within other values.

    Variants are JSON; the rest is as it is. Columns are numbered, for two may have one name.
    """
    from pyspark.sql import functions as f

    numbered = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
    return numbered.select(
        *(
            _rendered(f.col(field.name), field.dataType).alias(field.name)
            for field in numbered.schema.fields
        )
    )


def _rendered(column: "Column", kind: "DataType") -> "Column":
    from pyspark.sql import functions as f
    from pyspark.sql import types

    if isinstance(kind, types.TimestampType):
        return f.date_format(column, f"{_MOMENT}{_ZONE}")
    if isinstance(kind, types.TimestampNTZType):
        return f.date_format(column, _MOMENT)
    if isinstance(kind, types.VariantType):
        return f.to_json(column)
    if isinstance(kind, types.DateType | types.AnsiIntervalType | types.CalendarIntervalType):
        return column.cast("string")
    return _rendered_within(column, kind) if _has_moments(kind) else column


def _rendered_within(column: "Column", kind: "DataType") -> "Column":
    from pyspark.sql import functions as f
    from pyspark.sql import types

    if isinstance(kind, types.ArrayType):
        return f.transform(column, lambda each: _rendered(each, kind.elementType))
    if isinstance(kind, types.MapType):
        keyed = f.transform_keys(column, lambda key, _: _rendered(key, kind.keyType))
        return f.transform_values(keyed, lambda _, each: _rendered(each, kind.valueType))
    if isinstance(kind, types.StructType):
        return _rendered_fields(column, kind)
    return column


def _rendered_fields(column: "Column", kind: "StructType") -> "Column":
    from pyspark.sql import functions as f
    from pyspark.sql import types

    # Numbered as columns are, for two may have one name. A struct is cast field by field.
    numbered = types.StructType(
        [types.StructField(f"f{number}", each.dataType) for number, each in enumerate(kind.fields)]
    )
    apart = column.cast(numbered)
    fields = (
        _rendered(apart.getField(f"f{number}"), each.dataType).alias(each.name)
        for number, each in enumerate(kind.fields)
    )
    return f.when(column.isNotNull(), f.struct(*fields))


def _has_moments(kind: "DataType") -> bool:
    """Whether something within it needs to be made text."""
    from pyspark.sql import types

    if isinstance(kind, types.ArrayType):
        return _has_moments(kind.elementType)
    if isinstance(kind, types.MapType):
        return _has_moments(kind.keyType) or _has_moments(kind.valueType)
    if isinstance(kind, types.StructType):
        return any(_has_moments(field.dataType) for field in kind.fields)
    return isinstance(
        kind,
        types.TimestampType
        | types.TimestampNTZType
        | types.DateType
        | types.AnsiIntervalType
        | types.CalendarIntervalType,
    )
