"""An Avro schema for columns that nobody wrote one for."""

import re
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.pipelines.places import At, PipelineError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIMPLE: Final[dict[str, Any]] = {
    "boolean": "boolean", "tinyint": "int", "smallint": "int", "int": "int", "bigint": "long",
    "float": "float", "double": "double", "binary": "bytes", "string": "string",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}  # fmt: skip


def derived_schema(columns: "StructType", name: str, at: At, where: str) -> dict[str, Any]:
    """A record of these columns, each of which may be null; PipelineError where one can not be."""
    fields = []
    for field in columns.fields:
        if not _NAME.fullmatch(field.name):
            raise PipelineError(
                at,
                f"{where}: the column {field.name} has a name that Avro does not take: rename it, "
                "with letters, digits and _ alone.",
            )
        inner = _of(field.dataType, f"{name}_{field.name}", at, f"{where}: {field.name}")
        fields.append({"name": field.name, "type": ["null", inner], "default": None})
    return {"type": "record", "name": name, "fields": fields}


def _of(kind: "DataType", name: str, at: At, where: str) -> Any:
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        return derived_schema(kind, name, at, where)
    if isinstance(kind, types.ArrayType):
        return {"type": "array", "items": ["null", _of(kind.elementType, name, at, where)]}
    if isinstance(kind, types.MapType) and isinstance(kind.keyType, types.StringType):
        return {"type": "map", "values": ["null", _of(kind.valueType, name, at, where)]}
    if isinstance(kind, types.DecimalType):
        decimal = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", **decimal}
    if isinstance(kind, types.StringType):
        return "string"
    simple = kind.simpleString()
    if simple not in _SIMPLE:
        raise PipelineError(
            at,
            f"{where} is of type {simple.upper()}, which Avro does not have: cast it to STRING, "
            "or write json.",
        )
    return _SIMPLE[simple]
