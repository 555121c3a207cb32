"""JSON documents, with a schema or as VARIANT.

Spark's parsers stop behind the first document of a text and say nothing about what follows. So
each value is put into an array, and an element of our own behind it: where that one is not found
in its place, the value was more, or less, than one document.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from barnabas.model.check import BrokenInvariantError
from barnabas.spark.pipelines.definition import TopicSource
from barnabas.spark.pipelines.formats.decoders import Decoder
from barnabas.spark.pipelines.formats.expressions import first_of, type_name
from barnabas.spark.pipelines.formats.names import BAD, DECODED, END, RAW_VALUE
from barnabas.spark.pipelines.formats.of_text import no_text
from barnabas.spark.pipelines.formats.schemas import columns_of, fit_columns, lenient
from barnabas.spark.pipelines.places import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

_NO_JSON: Final = "the value is no JSON document"
_NO_OBJECT: Final = "the value is a JSON document, but no object"


def json_decoder(source: TopicSource) -> Decoder:
    """Of one document; what it does not fit to the last nested field is a dead letter."""
    return _variant_decoder(source) if source.schema is None else _struct_decoder(source)


def _variant_decoder(source: TopicSource) -> Decoder:
    from pyspark.sql import functions as f

    if source.options:
        raise PipelineError(
            source.at,
            f"sources.{source.name}.options are for json with a schema: add one, or drop them.",
        )
    # An element after the document: where the document is not one, ours is not the second.
    complete = f.try_variant_get(f.col(DECODED), "$[1]", "string").eqNullSafe(END)
    value = f.when(complete, f.try_variant_get(f.col(DECODED), "$[0]", "variant"))
    problem = first_of([no_text(_text()), f.when(~complete, f.lit(_NO_JSON))])
    return Decoder(f.try_parse_json(_list_of(f'"{END}"')), {"value": value}, problem)


def _struct_decoder(source: TopicSource) -> Decoder:
    from pyspark.sql import functions as f

    schema = columns_of(source)
    elements = f.col(DECODED).getField(END)
    document = f.get(elements, f.lit(0))
    fits = (
        f.col(DECODED).getField(BAD).isNull()
        & (f.size(elements) == 2)
        & f.get(elements, f.lit(1)).getField(END)
        & document.isNotNull()
    )
    reason = _reason(schema, source.options)
    columns, problems = fit_columns(schema, lambda field: document.getField(field.name))
    no_document = f.when(~f.coalesce(fits, f.lit(False)), reason)
    problem = first_of([no_text(_text()), no_document, *problems])
    return Decoder(_parsed(schema, source.options), columns, problem)


def _parsed(schema: "StructType", options: Mapping[str, str]) -> "Column":
    """The value and our element behind it, as `struct<end: array<schema + end>, bad>`."""
    from pyspark.sql import functions as f
    from pyspark.sql import types

    # Of all that numbers can be read as, only VARIANT keeps digits that DOUBLE has no room for.
    parsed = lenient(schema, types.VariantType())
    if not isinstance(parsed, types.StructType):
        raise BrokenInvariantError("parsed is a StructType here")
    element = types.StructType([*parsed.fields, types.StructField(END, types.BooleanType())])
    whole = types.StructType(
        [
            types.StructField(END, types.ArrayType(element)),
            # A field of it that does not fit makes Spark fill this one, however deep it is.
            types.StructField(BAD, types.StringType()),
        ]
    )
    given = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD}
    text = f.concat(f.lit(f'{{"{END}":'), _list_of(f'{{"{END}":true}}'), f.lit("}"))
    return f.from_json(text, whole, given)


def _reason(schema: "StructType", options: Mapping[str, str]) -> "Column":
    """Which fields do not fit; computed for the rows that do not, alone."""
    from pyspark.sql import functions as f
    from pyspark.sql import types

    array = f.try_parse_json(_list_of(f'"{END}"'))
    is_json = f.try_variant_get(array, "$[1]", "string").eqNullSafe(END)
    is_object = f.schema_of_variant(f.try_variant_get(array, "$[0]", "variant")).startswith("OBJ")
    wrong = []
    for field in schema.fields:
        alone = _parsed(types.StructType([field]), options)
        name = f"{field.name} is no {type_name(field.dataType)}"
        wrong.append(f.when(alone.getField(BAD).isNotNull(), f.lit(name)))
    fields = f.array_join(f.array(*wrong), ", ")
    return (
        f.when(~is_json, f.lit(_NO_JSON))
        .when(~is_object, f.lit(_NO_OBJECT))
        .otherwise(f.concat(f.lit("does not fit the schema: "), fields))
    )


def _text() -> "Column":
    from pyspark.sql import functions as f

    return f.col(RAW_VALUE).cast("string")


def _list_of(ours: str) -> "Column":
    # On a line of its own: where comments are allowed, one must not swallow it.
    from pyspark.sql import functions as f

    return f.concat(f.lit("["), _text(), f.lit(f"\n,{ours}]"))
