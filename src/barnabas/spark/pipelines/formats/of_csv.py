"""Lines of CSV.

Spark's parser reads one line of a text and says nothing about what follows, or about a quote that
is not closed. So a column of our own goes behind those of the schema: only where it is found in
its place the line had as many columns as it should, and was the whole value.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from barnabas.model.check import BrokenInvariantError
from barnabas.spark.pipelines.definition import TopicSource
from barnabas.spark.pipelines.formats.decoders import Decoder
from barnabas.spark.pipelines.formats.expressions import first_of, type_name
from barnabas.spark.pipelines.formats.names import BAD, DECODED, END, RAW_VALUE
from barnabas.spark.pipelines.formats.of_text import no_text
from barnabas.spark.pipelines.formats.options import option
from barnabas.spark.pipelines.formats.schemas import columns_of, fit_columns, lenient
from barnabas.spark.pipelines.places import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructField, StructType

_ESCAPES: Final = {r"\t": "\t", r"\r": "\r", r"\b": "\b", r"\f": "\f", r"\\": "\\"}
"""What Spark reads as one letter."""
_COLUMNS_MAX: Final = 20480
"""Spark's, where the option maxColumns does not say otherwise."""


def csv_decoder(source: TopicSource) -> Decoder:
    """Of one line; a line end behind it is no part of it."""
    from pyspark.sql import functions as f

    schema = columns_of(source)
    _check_flat(schema, source)
    decoded = f.col(DECODED)
    whole = decoded.getField(BAD).isNull() & decoded.getField(END).eqNullSafe(END)
    text = f.col(RAW_VALUE).cast("string")
    no_line = f.when(~f.coalesce(whole, f.lit(False)), _reason(schema, source.options))
    columns, problems = fit_columns(schema, _part)
    problem = first_of([no_text(text), no_line, *problems])
    return Decoder(_parsed(schema, source.options), columns, problem)


def _part(field: "StructField") -> "Column":
    from pyspark.sql import functions as f
    from pyspark.sql import types

    part = f.col(DECODED).getField(field.name)
    # Of numbers Spark takes "" for nothing, too.
    is_decimal = isinstance(field.dataType, types.DecimalType)
    return f.nullif(part, f.lit("")) if is_decimal else part


def _parsed(schema: "StructType", options: Mapping[str, str]) -> "Column":
    from pyspark.sql import functions as f
    from pyspark.sql import types

    parsed = lenient(schema, types.StringType())
    if not isinstance(parsed, types.StructType):
        raise BrokenInvariantError("parsed is a StructType here")
    fields = [*parsed.fields, types.StructField(END, types.StringType())]
    fields.append(types.StructField(BAD, types.StringType()))
    given = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD}
    line = f.regexp_replace(f.col(RAW_VALUE).cast("string"), r"\r?\n\z", "")
    text = f.when(_is_readable(line, options), f.concat(line, f.lit(_separator(options) + END)))
    return f.from_csv(text, _ddl(types.StructType(fields)), given)


def _is_readable(line: "Column", options: Mapping[str, str]) -> "Column":
    """Whether there are so few separators that the parser does not raise; most lines are short."""
    from pyspark.sql import functions as f

    separator, limit = _separator(options), int(option(options, "maxColumns") or _COLUMNS_MAX)
    room = (limit - 1) * len(separator)
    without = f.replace(line, f.lit(separator), f.lit(""))
    return (f.length(line) < room) | (f.length(line) - f.length(without) < room)


def _ddl(schema: "StructType") -> str:
    return ", ".join(
        f"`{field.name.replace('`', '``')}` {field.dataType.simpleString()}"
        for field in schema.fields
    )


def _separator(options: Mapping[str, str]) -> str:
    given = option(options, "sep", "delimiter") or ","
    return _ESCAPES.get(given, given)


def _reason(schema: "StructType", options: Mapping[str, str]) -> "Column":
    """Whether the number of columns is wrong, or which do not fit; for rows that do not, alone."""
    from pyspark.sql import functions as f
    from pyspark.sql import types

    texts = types.StructType([types.StructField(name, types.StringType()) for name in schema.names])
    as_texts = _parsed(texts, options)
    in_shape = as_texts.getField(BAD).isNull() & as_texts.getField(END).eqNullSafe(END)
    wrong = []
    for position, field in enumerate(schema.fields):
        one = [*texts.fields[:position], field, *texts.fields[position + 1 :]]
        name = f"{field.name} is no {type_name(field.dataType)}"
        alone = _parsed(types.StructType(one), options)
        wrong.append(f.when(alone.getField(BAD).isNotNull(), f.lit(name)))
    fields = f.array_join(f.array(*wrong), ", ")
    return f.when(
        f.coalesce(in_shape, f.lit(False)), f.concat(f.lit("does not fit the schema: "), fields)
    ).otherwise(f.lit(f"the value is no line of {len(schema.fields)} columns"))


def _check_flat(schema: "StructType", source: TopicSource) -> None:
    from pyspark.sql import types

    if source.schema is None:
        raise BrokenInvariantError("source.schema is there by now")
    nested = types.StructType, types.ArrayType, types.MapType, types.VariantType, types.BinaryType
    for field in schema.fields:
        if isinstance(field.dataType, nested):
            raise PipelineError(
                source.schema.at,
                f"sources.{source.name}.schema: a column of csv can not be of type "
                f"{type_name(field.dataType)}, as {field.name} is: read it as STRING.",
            )
