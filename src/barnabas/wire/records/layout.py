"""How columns of records lie in memory: Arrow's layout, little endian, without Arrow itself."""

from typing import Final, NamedTuple

from barnabas.wire.records.batch import Buffer

COLUMN_BYTES_MAX: Final = 2**31 - 1
"""Of the data of one column: Arrow's `binary` and `string` count it with 32 bits."""


class Variable(NamedTuple):
    """A column of bytes or text, each of a length of its own or null.

    Row 0 is the element `start` of `validity` and `offsets`, as in a slice of an Arrow array.
    """

    validity: Buffer | None
    """A bitmap, least significant bit first; None where nothing is null."""
    offsets: Buffer
    """int32, one more than there are elements."""
    data: Buffer
    start: int = 0


class Nested(NamedTuple):
    """A column of headers: for each row a list of names and values, or null."""

    validity: Buffer | None
    offsets: Buffer
    """int32, one more than there are rows; they count the elements of `names` and `values`."""
    names: Variable
    values: Variable
    start: int = 0


class Taken(NamedTuple):
    """What a decoder has gathered; a column that was not asked for is None.

    The list of a record without headers is null, not empty: Spark's readers know it so.
    """

    rows: int
    offsets: Buffer
    """int64."""
    timestamps: Buffer
    """int64, in microseconds; those that do not fit are the nearest that do."""
    keys: Variable | None
    values: Variable | None
    headers: Nested | None
