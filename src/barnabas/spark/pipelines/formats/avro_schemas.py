"""Avro schemas and the types of Spark: what each is in the other, where it is anything."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from barnabas.model.check import BrokenInvariantError
from barnabas.spark.pipelines.places import PipelineError, Text

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

Convert = Callable[[Any], Any]

_PRIMITIVES: Final = {
    "boolean": "BooleanType", "int": "IntegerType", "long": "LongType", "float": "FloatType",
    "double": "DoubleType", "bytes": "BinaryType", "string": "StringType",
}  # fmt: skip
_LOGICAL: Final = {
    ("int", "date"): "DateType",
    ("long", "timestamp-millis"): "TimestampType",
    ("long", "timestamp-micros"): "TimestampType",
    ("long", "local-timestamp-millis"): "TimestampNTZType",
    ("long", "local-timestamp-micros"): "TimestampNTZType",
    ("string", "uuid"): "StringType",
}
_NO_COUNTERPART: Final = re.compile(r"time-|duration|.*timestamp-nanos")
_DIGITS_MAX: Final = 38
_DECIMAL_BYTES_MAX: Final = 64
"""38 digits need 16; whoever pads them may, but not so that numbers take seconds to read."""
_EXACT: Final = Context(prec=400)
_MICROS_PER_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A record's schema, as Spark and as fastavro have it."""

    kind: "StructType"
    written: Any
    """For writing, with its logical types."""
    plain: Any
    """For reading, without: `convert` does better than losing digits in silence."""
    convert: Convert | None
    defaults: frozenset[str]
    """Fields that may be left out."""


def read_schema(text: Text, where: str) -> AvroSchema:
    """The schema that a file gives as JSON; PipelineError for what has no counterpart."""
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    try:
        written = parse_schema(json.loads(text.value))
    except json.JSONDecodeError as error:
        raise PipelineError(text.at, f"{where} is no JSON: {error}.") from error
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise PipelineError(text.at, f"{where} is no Avro schema: {said}.") from error
    if not isinstance(written, dict) or written.get("type") not in ("record", "error"):
        raise PipelineError(
            text.at, f"{where} is no record, and only those have columns: wrap it into one."
        )
    plain, kind, convert = _Walk(text, where).of(written, written["name"])
    from pyspark.sql.types import StructType

    if not isinstance(kind, StructType):
        raise BrokenInvariantError("kind is a StructType here")
    defaults = frozenset(each["name"] for each in written["fields"] if "default" in each)
    return AvroSchema(kind, written, parse_schema(plain), convert, defaults)


class _Walk:
    """From the root down; `path` says in sentences where we are."""

    def __init__(self, text: Text, where: str) -> None:
        self._text = text
        self._where = where
        self._known: dict[str, tuple[DataType, Convert | None]] = {}
        self._open: set[str] = set()

    def of(self, node: Any, path: str) -> "tuple[Any, DataType, Convert | None]":
        """The schema without logical types, Spark's type, and how values become that."""
        if isinstance(node, list):
            return self._union(node, path)
        if isinstance(node, str):
            return self._primitive({"type": node}, path)
        kind = node["type"]
        if isinstance(kind, dict | list):
            return self.of(kind, path)
        if kind in ("record", "error"):
            return self._record(node, path)
        if kind == "array":
            return self._array(node, path)
        if kind == "map":
            return self._map(node, path)
        if kind in ("enum", "fixed"):
            return self._named(node, path)
        return self._primitive(node, path)

    def _refuse(self, path: str, what: str) -> PipelineError:
        return PipelineError(self._text.at, f"{self._where}: {path} {what}.")

    def _primitive(self, node: Any, path: str) -> "tuple[Any, DataType, Convert | None]":
        from pyspark.sql import types

        kind, logical = node["type"], node.get("logicalType")
        if kind in self._open:
            raise self._refuse(path, f"is of type {kind}, which holds itself: no column can")
        if kind in self._known:
            return kind, *self._known[kind]
        if kind not in _PRIMITIVES:
            raise self._refuse(path, f"is of type {kind}, which is no type of columns")
        if logical == "decimal" and kind == "bytes":
            return kind, *self._decimal(node, path)
        if logical is not None and _NO_COUNTERPART.match(logical):
            raise self._refuse(path, f"is a {logical}, for which columns have no type")
        found: DataType = getattr(types, _LOGICAL.get((kind, logical), _PRIMITIVES[kind]))()
        convert: Convert | None = None
        if (kind, logical) in _LOGICAL:
            convert = _micros if logical.endswith("-millis") else None
            convert = _uuid if logical == "uuid" else convert
        return kind, found, convert

    def _decimal(self, node: Any, path: str) -> "tuple[DataType, Convert]":
        from pyspark.sql.types import DecimalType

        precision, scale = node["precision"], node.get("scale", 0)
        if not 0 < precision <= _DIGITS_MAX or not 0 <= scale <= precision:
            raise self._refuse(
                path, f"has {precision} digits, {scale} of them behind the point; 38 are possible"
            )
        return DecimalType(precision, scale), _decimal_of(scale)

    def _union(self, node: list[Any], path: str) -> "tuple[Any, DataType, Convert | None]":
        others = [each for each in node if each not in ("null", {"type": "null"})]
        if len(others) != 1:
            raise self._refuse(
                path, "may be of several types, or of none; a column has one, or one and null"
            )
        plain, kind, convert = self.of(others[0], path)
        union = [plain if each is others[0] else "null" for each in node]
        return union, kind, None if convert is None else _unless_null(convert)

    def _record(self, node: Any, path: str) -> "tuple[Any, DataType, Convert | None]":
        from pyspark.sql.types import StructField, StructType

        if not node["fields"]:
            raise self._refuse(path, "is a record without fields, which holds nothing")
        self._open.add(node["name"])
        plains, fields, converts = [], [], {}
        for each in node["fields"]:
            plain, kind, convert = self.of(each["type"], f"{path}.{each['name']}")
            plains.append({"name": each["name"], "type": plain})
            fields.append(StructField(each["name"], kind))
            if convert is not None:
                converts[each["name"]] = convert
        self._open.remove(node["name"])
        self._known[node["name"]] = found = (
            StructType(fields),
            _of_record(converts) if converts else None,
        )
        return {"type": "record", "name": node["name"], "fields": plains}, *found

    def _array(self, node: Any, path: str) -> "tuple[Any, DataType, Convert | None]":
        from pyspark.sql.types import ArrayType

        plain, kind, convert = self.of(node["items"], f"{path}[]")
        whole = None if convert is None else _of_array(convert)
        return {"type": "array", "items": plain}, ArrayType(kind), whole

    def _map(self, node: Any, path: str) -> "tuple[Any, DataType, Convert | None]":
        from pyspark.sql.types import MapType, StringType

        plain, kind, convert = self.of(node["values"], f"{path}[]")
        whole = None if convert is None else _of_map(convert)
        return {"type": "map", "values": plain}, MapType(StringType(), kind), whole

    def _named(self, node: Any, path: str) -> "tuple[Any, DataType, Convert | None]":
        from pyspark.sql.types import BinaryType, StringType

        found: tuple[DataType, Convert | None] = (StringType(), None)
        plain = {"type": node["type"], "name": node["name"]}
        if node["type"] == "enum":
            plain["symbols"] = node["symbols"]
        else:
            plain["size"] = node["size"]
            if node["size"] < 1:
                raise self._refuse(path, "is of no bytes")
            if node.get("logicalType") == "duration":
                raise self._refuse(path, "is a duration, for which columns have no type")
            is_decimal = node.get("logicalType") == "decimal"
            found = self._decimal(node, path) if is_decimal else (BinaryType(), None)
        self._known[node["name"]] = found
        return plain, *found


def _micros(millis: int) -> int:
    return millis * _MICROS_PER_MS


def _uuid(text: str) -> str:
    return str(UUID(text))


def _decimal_of(scale: int) -> Convert:
    def convert(data: bytes) -> Decimal:
        if len(data) > _DECIMAL_BYTES_MAX:
            raise ValueError(f"a decimal of {len(data)} bytes")
        unscaled = Decimal(int.from_bytes(data, "big", signed=True))
        return unscaled.scaleb(-scale, _EXACT)

    return convert


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _of_array(convert: Convert) -> Convert:
    return lambda values: [convert(each) for each in values]


def _of_map(convert: Convert) -> Convert:
    return lambda values: {key: convert(each) for key, each in values.items()}


def _of_record(converts: dict[str, Convert]) -> Convert:
    def convert(record: dict[str, Any]) -> dict[str, Any]:
        for name, each in converts.items():
            record[name] = each(record[name])
        return record

    return convert
