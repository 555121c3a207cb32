"""kio's names for numbers and strings, without their price.

kio's messages are typed with classes that check their range on every call, about 2 µs each, and
the writer checks once more. Answers are built from our own state, by the thousand, so here the
same names stand for `int` and `str` when the program runs, and for kio's classes when it is
type-checked.
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from kio.schema.types import BrokerId, GroupId, ProducerId, TopicName, TransactionalId
    from kio.static.primitive import TZAware, i8, i16, i32, i32Timedelta, i64
else:
    BrokerId = ProducerId = i8 = i16 = i32 = i64 = int
    GroupId = TopicName = TransactionalId = str

__all__ = [
    "NO_THROTTLE",
    "BrokerId",
    "GroupId",
    "ProducerId",
    "TopicName",
    "TransactionalId",
    "duration",
    "i8",
    "i16",
    "i32",
    "i64",
    "milliseconds",
    "moment",
]

_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

NO_THROTTLE: Final = cast("i32Timedelta", timedelta(0))
"""What every answer begins with: there are no quotas to wait for."""


def duration(milliseconds: int) -> "i32Timedelta":
    """A time span, as messages have it."""
    return cast("i32Timedelta", timedelta(milliseconds=milliseconds))


def milliseconds(duration: timedelta) -> int:
    """A time span of a message, as a number."""
    return duration // _MILLISECOND


def moment(wall_ms: int) -> "TZAware":
    """A point in time, as messages have it; those before 1970 stand for none."""
    return cast("TZAware", _EPOCH + timedelta(milliseconds=wall_ms))
