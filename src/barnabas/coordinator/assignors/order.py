"""The orders in which an assignor looks at things: Kafka's own wherever it has one.

Where Kafka goes by the order of a hash table (members and topics in most places), members go here
in the order of their ids and topics in `topic_order`, so that an answer depends on nothing but
its question.
"""

import struct
from typing import Final

from barnabas.coordinator.assignors.spec import TopicId

_HALVES: Final = struct.Struct(">qq")


def topic_order(topic: TopicId) -> tuple[int, int]:
    """Kafka orders topic ids as two signed 64-bit numbers, so an id of 0x80… comes first."""
    high, low = _HALVES.unpack(topic)
    return high, low


def text_order(text: str) -> bytes:
    """Kafka orders text by its UTF-16 units: a rare character may come before a common one."""
    return text.encode("utf-16-be", "surrogatepass")
