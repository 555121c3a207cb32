"""Schemas as the file writes them, and values that must fit them to the last nested field."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.model.check import BrokenInvariantError
from barnabas.spark.pipelines.definition import TopicSource
from barnabas.spark.pipelines.formats.expressions import first_of, misfit, try_cast, type_name
from barnabas.spark.pipelines.formats.names import INNER, METADATA
from barnabas.spark.pipelines.formats.refusals import refused
from barnabas.spark.pipelines.places import At, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructField, StructType


def columns_of(source: TopicSource) -> "StructType":
    """The schema of a source that needs one, read by Spark."""
    from pyspark.sql.types import StructType

    where = f"sources.{source.name}"
    if source.schema is None:
        raise PipelineError(
            source.at,
            f"{where} has the format {source.format} and no schema: say which columns it has, as "
            "in schema: id BIGINT, name STRING.",
        )
    with refused(source.schema.at, f"{where}.schema"):
        schema = StructType.fromDDL(source.schema.value)
    if not isinstance(schema, StructType):
        raise PipelineError(
            source.schema.at,
            f"{where}.schema is a type without columns: name them, as in id BIGINT, name STRING.",
        )
    check_names(schema, source.schema.at, f"{where}.schema")
    return schema


def check_names(schema: "StructType", at: At, where: str) -> None:
    """PipelineError where columns share a name, or take one that every topic has."""
    seen: set[str] = set()
    for name in schema.names:
        low = name.lower()
        if low in METADATA or low.startswith(INNER):
            raise PipelineError(
                at,
                f"{where} has a column {name}, which is a name of our own ({', '.join(METADATA)}): "
                "read the field in another way, for example without a schema as VARIANT.",
            )
        if low in seen:
            raise PipelineError(at, f"{where} has the column {name} twice: drop one.")
        seen.add(low)
    if not seen:
        raise PipelineError(at, f"{where} has no columns: name some, as in id BIGINT.")


def lenient(kind: "DataType", decimals: "DataType") -> "DataType":
    """The type to parse as: nothing is required yet, and decimals are something else.

    Spark's parsers write decimals out in full, whatever their exponent: twelve letters such as
    1e1000000000 would keep a task busy for hours. Its casts do not fall for them.
    """
    from pyspark.sql import types

    if isinstance(kind, types.DecimalType):
        return decimals
    if isinstance(kind, types.ArrayType):
        return types.ArrayType(lenient(kind.elementType, decimals))
    if isinstance(kind, types.MapType):
        return types.MapType(kind.keyType, lenient(kind.valueType, decimals))
    if isinstance(kind, types.StructType):
        inner = ((field.name, lenient(field.dataType, decimals)) for field in kind.fields)
        return types.StructType([types.StructField(*each) for each in inner])
    return kind


def fit(column: "Column", kind: "DataType", path: str) -> "tuple[Column, Column | None]":
    """A value that was parsed as `lenient(kind)` as `kind`, and what can be wrong with it.

    What is wrong is a text, null where nothing is.
    """
    from pyspark.sql import types

    if isinstance(kind, types.DecimalType):
        return _fit_decimal(column, kind, path)
    if isinstance(kind, types.StructType):
        return _fit_struct(column, kind, path)
    if isinstance(kind, types.ArrayType):
        return _fit_array(column, kind, path)
    if isinstance(kind, types.MapType):
        return _fit_map(column, kind, path)
    return column, None


def fit_columns(
    kind: "StructType", part: "Callable[[StructField], Column]"
) -> "tuple[dict[str, Column], list[Column]]":
    """All columns of a schema, given where each is, and everything that can be wrong with them."""
    from pyspark.sql import functions as f

    columns, problems = {}, []
    for field in kind.fields:
        column = part(field)
        columns[field.name], problem = fit(column, field.dataType, field.name)
        if not field.nullable:
            problems.append(f.when(column.isNull(), f.lit(f"{field.name}: is missing or null")))
        problems += [] if problem is None else [problem]
    return columns, problems


def _fit_decimal(column: "Column", kind: "DataType", path: str) -> "tuple[Column, Column]":
    from pyspark.sql import functions as f
    from pyspark.sql import types

    value, text = try_cast(column, kind), column.cast("string")
    # A cast takes true for 1.
    is_truth = value.isin(0, 1) & text.isin("true", "false")
    wrong = text.isNotNull() & (value.isNull() | is_truth)
    said = misfit(path, text, types.StringType(), type_name(kind))
    return value, f.when(wrong, said)


def _fit_struct(column: "Column", kind: "StructType", path: str) -> "tuple[Column, Column | None]":
    from pyspark.sql import functions as f

    fields, problems = [], []
    for field in kind.fields:
        name = f"{path}.{field.name}" if path else field.name
        part = column.getField(field.name)
        value, problem = fit(part, field.dataType, name)
        fields.append(value.alias(field.name))
        if not field.nullable:
            problems.append(f.when(part.isNull(), f.lit(f"{name}: is missing or null")))
        problems += [] if problem is None else [problem]
    value = f.when(column.isNotNull(), f.struct(*fields)) if problems else column
    return value, f.when(column.isNotNull(), first_of(problems)) if problems else None


def _fit_array(column: "Column", kind: "DataType", path: str) -> "tuple[Column, Column | None]":
    from pyspark.sql import functions as f
    from pyspark.sql import types

    if not isinstance(kind, types.ArrayType):
        raise BrokenInvariantError("kind is a ArrayType here")
    inner, name = kind.elementType, f"{path}[]"
    if fit(f.lit(None), inner, name)[1] is None:
        return column, None
    value = f.transform(column, lambda each: fit(each, inner, name)[0])
    problems = f.transform(column, lambda each: first_of(_list(fit(each, inner, name)[1])))
    return value, f.get(f.array_compact(problems), f.lit(0))


def _fit_map(column: "Column", kind: "DataType", path: str) -> "tuple[Column, Column | None]":
    from pyspark.sql import functions as f
    from pyspark.sql import types

    if not isinstance(kind, types.MapType):
        raise BrokenInvariantError("kind is a MapType here")
    inner, name = kind.valueType, f"{path}[]"
    if fit(f.lit(None), inner, name)[1] is None:
        return column, None
    value = f.transform_values(column, lambda _, each: fit(each, inner, name)[0])
    _, problem = _fit_array(f.map_values(column), types.ArrayType(inner), path)
    return value, problem


def _list(problem: "Column | None") -> "list[Column]":
    return [] if problem is None else [problem]
