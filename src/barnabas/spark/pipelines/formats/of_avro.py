"""Avro records, one in each value, read and written by fastavro.

Spark's own functions for Avro are in a jar that is not part of its Python package.
"""

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from barnabas.model.check import BrokenInvariantError
from barnabas.spark.errors import SparkJobError
from barnabas.spark.pipelines.definition import TopicSink, TopicSource
from barnabas.spark.pipelines.formats.avro_derived import derived_schema
from barnabas.spark.pipelines.formats.avro_schemas import AvroSchema, read_schema
from barnabas.spark.pipelines.formats.decoders import Decoder
from barnabas.spark.pipelines.formats.expressions import quoted
from barnabas.spark.pipelines.formats.names import DECODED, RAW_VALUE
from barnabas.spark.pipelines.formats.schemas import check_names
from barnabas.spark.pipelines.places import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

_FRAME_BYTES: Final = 5
_RECORD: Final = "record"
_PROBLEM: Final = "problem"
_BROKEN: Final = (
    EOFError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError, AssertionError,
    MemoryError, RecursionError,
)  # fmt: skip
"""What fastavro and our conversions raise at bytes that are no record of the schema."""


def avro_decoder(source: TopicSource) -> Decoder:
    """Of one record, with or without the five bytes of a schema registry before it."""
    from pyspark.sql import functions as f

    where = f"sources.{source.name}"
    if source.schema is None:
        raise PipelineError(
            source.at, f"{where} has the format avro and no schema: give the Avro schema as JSON."
        )
    schema = read_schema(source.schema, f"{where}.schema")
    check_names(schema.kind, source.schema.at, f"{where}.schema")
    decoded = _reader(schema, framed=source.framing == "confluent")(f.col(RAW_VALUE))
    record = f.col(DECODED).getField(_RECORD)
    columns = {name: record.getField(name) for name in schema.kind.names}
    return Decoder(decoded, columns, f.col(DECODED).getField(_PROBLEM))


def _reader(schema: AvroSchema, *, framed: bool) -> Any:
    """A function of a column of bytes: a struct of the record and what is wrong."""
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StringType, StructField, StructType

    result = StructType([StructField(_RECORD, schema.kind), StructField(_PROBLEM, StringType())])
    arrow = to_arrow_type(schema.kind, timezone="UTC")
    plain, convert = schema.plain, schema.convert

    def read(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for values in batches:
            found = [read_record(value, plain, convert, framed) for value in values.to_pylist()]
            yield as_arrow([each[0] for each in found], [each[1] for each in found], arrow)

    return arrow_udf(read, result)  # type: ignore[call-overload]


def read_record(
    value: bytes | None, plain: Any, convert: Any, framed: bool
) -> tuple[dict[str, Any] | None, str | None]:
    """The record of these bytes, or why there is none; neither for a record without value."""
    from fastavro import schemaless_reader

    if value is None:
        return None, None
    if framed and (len(value) < _FRAME_BYTES or value[0] != 0):
        return None, "the value does not begin with 0 and the number of a schema"
    file = io.BytesIO(value)
    file.seek(_FRAME_BYTES if framed else 0)
    try:
        record: Any = schemaless_reader(file, plain, None)
        if file.tell() != len(value):
            return None, f"{len(value) - file.tell()} bytes are left behind the Avro record"
        return (record if convert is None else convert(record)), None
    except _BROKEN as error:
        return None, f"the value is no record of the Avro schema ({_said(error)})"


def as_arrow(
    records: list[dict[str, Any] | None], problems: list[str | None], arrow: pa.DataType
) -> pa.Array:
    """Both as one column; a record with a value that its type can not hold becomes a problem."""
    try:
        column = pa.array(records, type=arrow)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        for position, record in enumerate(records):
            try:
                pa.array([record], type=arrow)
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                records[position] = None
                problems[position] = f"the value does not fit the Avro schema ({_said(error)})"
        column = pa.array(records, type=arrow)
    texts = pa.array(problems, type=pa.string())
    return pa.StructArray.from_arrays([column, texts], names=[_RECORD, _PROBLEM])


def avro_value(names: list[str], columns: "StructType", sink: TopicSink) -> "Column":
    """The columns as one Avro record, by the sink's schema or one that fits them."""
    from pyspark.sql import functions as f

    where = f"sinks.{sink.name}"
    if sink.schema is None:
        from fastavro.schema import parse_schema

        written: Any = parse_schema(derived_schema(columns, "row", sink.at, where))
        return _writer(written, where)(f.struct(*(f.col(quoted(name)) for name in names)))
    schema = read_schema(sink.schema, f"{where}.schema")
    _check_fields(schema, names, sink)
    fields = [
        f.col(quoted(field.name)).cast(field.dataType).alias(field.name)
        for field in schema.kind.fields
        if field.name in names
    ]
    return _writer(schema.written, where)(f.struct(*fields))


def _check_fields(schema: AvroSchema, names: list[str], sink: TopicSink) -> None:
    if sink.schema is None:
        raise BrokenInvariantError("sink.schema is there by now")
    fields = schema.kind.names
    missing = [name for name in fields if name not in names and name not in schema.defaults]
    beyond = [name for name in names if name not in fields]
    where = f"sinks.{sink.name}.schema"
    if missing:
        raise PipelineError(
            sink.schema.at,
            f"{where} has the field {missing[0]}, and {sink.input.value} no column of that name: "
            "add it there, or give the field a default.",
        )
    if beyond:
        raise PipelineError(
            sink.schema.at,
            f"{where} has no field {beyond[0]}, which is a column of {sink.input.value}: add it, "
            "or leave the column out there.",
        )


def _writer(written: Any, where: str) -> "Callable[[Column], Column]":
    from pyspark.sql.pandas.functions import arrow_udf

    def write(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for rows in batches:
            records = rows.to_pylist(maps_as_pydicts="strict")
            yield pa.array([write_record(each, written, where) for each in records], pa.binary())

    written_as: Callable[[Column], Column] = arrow_udf(  # type: ignore[call-overload]
        write, "binary"
    )
    return written_as


def write_record(record: dict[str, Any], written: Any, where: str) -> bytes:
    """The bytes of a record; SparkJobError where its values are not of the schema."""
    from fastavro import schemaless_writer

    file = io.BytesIO()
    try:
        schemaless_writer(file, written, record)
    except _BROKEN as error:
        raise SparkJobError(
            f"{where} can not write a row as Avro ({_said(error)}): make its columns fit."
        ) from error
    return file.getvalue()


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())[:200]
    return text or type(error).__name__
