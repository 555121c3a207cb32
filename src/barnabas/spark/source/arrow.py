"""Gathered columns become Arrow record batches in exactly the schema Spark asks for.

What the decoder gathered is wrapped, never copied. Topic, partition and kind of timestamp are the
same for a whole run of rows, so they are slices of arrays that are made once.
"""

import struct
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from barnabas.model.check import require
from barnabas.spark.places import Place

if TYPE_CHECKING:
    from barnabas.wire.records.columns import Nested, Taken, Variable

_CAPACITY_MIN: Final = 1024
"""Rows of the smallest constant array: a micro-batch of a few rows needs no large one."""

_CONSTANTS_MAX: Final = 64
_INT32: Final = struct.Struct("<i")


class Run(NamedTuple):
    """Rows in a row that come from one partition and have one kind of timestamp."""

    place: Place
    timestamp_type: int
    rows: int


def record_batch(schema: pa.Schema, taken: "Taken", runs: Sequence[Run]) -> pa.RecordBatch:
    """The columns of `schema`, filled with what was taken; `runs` together are all its rows."""
    require(sum(run.rows for run in runs) == taken.rows, "every row belongs to a run")
    columns = [_BUILDERS[field.name](field.type, taken, runs) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _variable(kind: pa.DataType, column: "Variable | None", rows: int) -> pa.Array:
    require(column is not None, "only columns that were gathered are asked for")
    validity, offsets, data, start = column  # type: ignore[misc]  # not None, as required
    return pa.Array.from_buffers(
        kind,
        rows,
        [_buffer_or_none(validity), pa.py_buffer(offsets), pa.py_buffer(data)],
        null_count=0 if validity is None else -1,
        offset=start,
    )


def _buffer_or_none(data: Any) -> pa.Buffer | None:
    return None if data is None else pa.py_buffer(data)


def _nested(kind: pa.ListType, column: "Nested | None", rows: int) -> pa.Array:
    require(column is not None, "only columns that were gathered are asked for")
    validity, offsets, names, values, start = column  # type: ignore[misc]
    (elements,) = _INT32.unpack_from(offsets, (start + rows) * _INT32.size)
    struct_type = kind.value_type
    entries = pa.Array.from_buffers(
        struct_type,
        elements,
        [None],
        null_count=0,
        children=[
            _variable(struct_type.field(0).type, names, elements),
            _variable(struct_type.field(1).type, values, elements),
        ],
    )
    return pa.Array.from_buffers(
        kind,
        rows,
        [_buffer_or_none(validity), pa.py_buffer(offsets)],
        null_count=0 if validity is None else -1,
        offset=start,
        children=[entries],
    )


def _fixed(kind: pa.DataType, data: Any, rows: int) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)], null_count=0)


@lru_cache(maxsize=_CONSTANTS_MAX)
def _constant(kind: pa.DataType, value: str | int, capacity: int) -> pa.Array:
    """From buffers: `pa.repeat` wants a scalar, and the first scalar imports pandas."""
    if isinstance(value, int):
        return _fixed(kind, _INT32.pack(value) * capacity, capacity)
    text = value.encode()
    ends = array("i", range(0, (capacity + 1) * len(text), len(text)))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(text * capacity)]
    return pa.Array.from_buffers(kind, capacity, buffers, null_count=0)


def _constants(kind: pa.DataType, values: Sequence[tuple[str | int, int]]) -> pa.Array:
    """An array of each value so many times."""
    arrays = []
    at = 0
    while at < len(values):
        value, rows = values[at]
        at += 1
        while at < len(values) and values[at][0] == value:
            rows += values[at][1]
            at += 1
        # Powers of two, so that few different arrays are made whatever the numbers of rows are.
        capacity = max(_CAPACITY_MIN, 1 << (rows - 1).bit_length()) if rows else _CAPACITY_MIN
        arrays.append(_constant(kind, value, capacity).slice(0, rows))
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


_Builder = Callable[[pa.DataType, "Taken", Sequence[Run]], pa.Array]
_BUILDERS: Final[dict[str, _Builder]] = {
    "key": lambda kind, taken, _: _variable(kind, taken.keys, taken.rows),
    "value": lambda kind, taken, _: _variable(kind, taken.values, taken.rows),
    "topic": lambda kind, _, runs: _constants(kind, [(run.place.topic, run.rows) for run in runs]),
    "partition": lambda kind, _, runs: _constants(
        kind, [(run.place.partition, run.rows) for run in runs]
    ),
    "offset": lambda kind, taken, _: _fixed(kind, taken.offsets, taken.rows),
    "timestamp": lambda kind, taken, _: _fixed(kind, taken.timestamps, taken.rows),
    "timestampType": lambda kind, _, runs: _constants(
        kind, [(run.timestamp_type, run.rows) for run in runs]
    ),
    "headers": lambda kind, taken, _: _nested(kind, taken.headers, taken.rows),
}
