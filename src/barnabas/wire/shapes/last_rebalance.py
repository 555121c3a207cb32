"""Why and when a group was last rebalanced: a structure of our own, for which Kafka has no field.

It goes in a tagged field with a number far from Kafka's own, in the newest version only: whoever
does not know it steps over it.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.static.constants import EntityType
from kio.static.primitive import i64

TAG: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRebalance:
    """The reason is empty when nothing is remembered; the time is by the wall clock."""

    __type__: ClassVar = EntityType.nested
    __flexible__: ClassVar[bool] = True
    reason: str = field(metadata={"kafka_type": "string"})
    at_ms: i64 = field(metadata={"kafka_type": "int64"})


NOT_REMEMBERED: Final = LastRebalance(reason="", at_ms=i64(-1))
