"""The rows of a DataFrame as the columns of records: which is which, and their Arrow buffers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.errors import SparkJobError
from barnabas.spark.sink.options import SinkOptions
from barnabas.wire.records.columns import Nested, Variable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

_BYTES: Final = ("string", "binary")
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_MICROS_PER_MS: Final = 1000


@dataclass(frozen=True)
class RowShape:
    """Where in a row the parts of a record stand; None for those that no column has."""

    value: int
    key: int | None = None
    headers: int | None = None
    topic: int | None = None
    """None also when the option topic is given: it goes before the column."""
    partition: int | None = None
    timestamp: int | None = None


def check_schema(schema: "StructType", options: SinkOptions) -> RowShape:
    """The shape of rows of this schema; one sentence when they can not be records.

    The rules are the official connector's: names in their exact case, other columns ignored.
    """
    topic = None
    if options.topic is None:
        topic = _position(schema, "topic", ("string",))
        if topic is None:
            raise SparkJobError(
                "No topic to write to: set the option topic, or give each row a topic column."
            )
    value = _position(schema, "value", _BYTES)
    if value is None:
        raise SparkJobError(_without_value(schema))
    timestamp = None
    if options.include_timestamp:
        timestamp = _position(schema, "timestamp", ("timestamp",))
        if timestamp is None:
            raise SparkJobError(
                "The option includeTimestamp=true needs a timestamp column: add one, or leave the "
                "option out to have records written with the present time."
            )
    return RowShape(
        value=value,
        key=_position(schema, "key", _BYTES),
        headers=_position(schema, "headers", (_HEADERS,)),
        topic=topic,
        partition=_position(schema, "partition", ("int",)),
        timestamp=timestamp,
    )


def _position(schema: "StructType", name: str, types: tuple[str, ...]) -> int | None:
    for position, field in enumerate(schema.fields):
        if field.name == name:
            found = _type_name(field.dataType)
            if found not in types:
                raise SparkJobError(
                    f"The column {name} is of type {found}: cast it to {' or '.join(types)}."
                )
            return position
    return None


def _type_name(data_type: "DataType") -> str:
    from pyspark.sql.types import StringType

    # A collation changes how strings compare, not their bytes.
    return "string" if isinstance(data_type, StringType) else data_type.simpleString()


def _without_value(schema: "StructType") -> str:
    names = schema.fieldNames()
    near = next((name for name in names if name.lower() == "value"), None)
    if near is not None:
        return f"A row needs a column value: rename {near} to value."
    return (
        "A row needs a column value of type string or binary: make one of the columns "
        f"{', '.join(names) or '(none)'}, for example with to_json or select(expr AS value)."
    )


class Columns:
    """The parts of records in one Arrow batch, with positions that `narrow` has given."""

    def __init__(self, shape: RowShape, batch: "pa.RecordBatch") -> None:
        self.rows: Final[int] = batch.num_rows
        self.keys = None if shape.key is None else variable(batch.column(shape.key))
        self.values = variable(batch.column(shape.value))
        self.headers = None if shape.headers is None else _nested(batch.column(shape.headers))


def narrow(shape: RowShape) -> tuple[RowShape, list[int]]:
    """A shape of only the columns that are needed, and which those are in the wide one."""
    wide = (shape.value, shape.key, shape.headers, shape.topic, shape.partition, shape.timestamp)
    needed = [position for position in wide if position is not None]
    value, *others = (None if each is None else needed.index(each) for each in wide)
    return RowShape(value or 0, *others), needed


def variable(array: "pa.Array") -> Variable:
    """The buffers of a column of strings or bytes."""
    import pyarrow as pa

    if array.type.id not in _plain_ids():
        # Large and view layouts come from Spark only where its Arrow settings ask for them.
        array = array.cast(pa.binary())
    validity, offsets, data = array.buffers()
    return Variable(
        memoryview(validity) if array.null_count and validity is not None else None,
        memoryview(offsets) if offsets is not None else bytes(4),
        memoryview(data) if data is not None else b"",
        array.offset,
    )


def _plain_ids() -> tuple[int, int]:
    import pyarrow as pa

    return pa.string().id, pa.binary().id


def _nested(array: "pa.Array") -> Nested | None:
    if array.null_count == len(array):
        return None
    structs = array.values
    # Those of rows that are elsewhere, or null, do not matter: ask only about rows that are here.
    if structs.null_count and array.flatten().null_count:
        raise SparkJobError("The column headers has a header that is null: filter such out.")
    names = structs.field(0)
    if names.null_count and array.flatten().field(0).null_count:
        raise SparkJobError("The column headers has a header whose key is null: give it a key.")
    validity, offsets = array.buffers()[:2]
    return Nested(
        memoryview(validity) if array.null_count and validity is not None else None,
        memoryview(offsets),
        variable(names),
        variable(structs.field(1)),
        array.offset,
    )


def timestamps_ms(array: "pa.Array", now_ms: int) -> Any:
    """Milliseconds of each row as a numpy array of int64; `now_ms` where there is none."""
    import numpy as np
    import pyarrow as pa

    micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    nulls = micros.null_count
    if nulls:
        micros = micros.fill_null(now_ms * _MICROS_PER_MS)
    millis = micros.to_numpy(zero_copy_only=False) // _MICROS_PER_MS
    if len(millis) and int(millis.min()) < 0:
        raise SparkJobError(
            "The column timestamp has a time before 1970, which records can not carry: replace it."
        )
    return np.ascontiguousarray(millis, dtype=np.int64)
