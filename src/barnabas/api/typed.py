"""kio's names for numbers and strings, without their price.

kio's messages are typed with classes that check their range on every call, about 2 µs each, and
the writer checks once more. Answers are built from our own state, by the thousand, so here the
same names stand for `int` and `str` when the program runs, and for kio's classes when it is
type-checked.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from kio.schema.types import BrokerId, GroupId, ProducerId, TopicName
    from kio.static.primitive import i8, i16, i32, i32Timedelta, i64
else:
    BrokerId = ProducerId = i8 = i16 = i32 = i64 = int
    GroupId = TopicName = str

__all__ = [
    "NO_THROTTLE",
    "BrokerId",
    "GroupId",
    "ProducerId",
    "TopicName",
    "duration",
    "i8",
    "i16",
    "i32",
    "i64",
    "milliseconds",
]

_MILLISECOND: Final = timedelta(milliseconds=1)

NO_THROTTLE: Final = cast("i32Timedelta", timedelta(0))
"""What every answer begins with: there are no quotas to wait for."""


def duration(milliseconds: int) -> "i32Timedelta":
    """A time span, as messages have it."""
    return cast("i32Timedelta", timedelta(milliseconds=milliseconds))


def milliseconds(duration: timedelta) -> int:
    """A time span of a message, as a number."""
    return duration // _MILLISECOND
