"""How old the oldest record is that a group has not read: its lag in seconds."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from barnabas.cli.client import settings
from barnabas.cli.group_places import Place

_AT_ONCE: Final = 50
"""Partitions read together. Each costs one answer of a megabyte at the most."""
_WAIT_S: Final = 10.0
"""What does not come in this time stays unknown: a leader may be away."""
_FETCH_BYTES: Final = 16 * 1024 * 1024


def oldest_unread_ms(
    bootstrap: str, places: Mapping[Place, int], advance: Callable[[int], None]
) -> dict[Place, int | None]:
    """When the first record at or after each offset was written.

    None where no record follows (only the markers of transactions do, for instance); partitions
    that did not answer in time, or whose record has no timestamp, are missing. Reads one record
    of each partition, whichever offset it has: compaction may have left a gap. `advance` hears
    how many are done. May raise KafkaException.
    """
    from confluent_kafka import Consumer

    if not places:
        return {}
    consumer = Consumer(
        settings(bootstrap)
        | {
            # The library wants a name for it, but no group is joined and nothing committed.
            "group.id": "barnabas-lag",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "queued.min.messages": 1,
            "fetch.max.bytes": _FETCH_BYTES,
        }
    )
    found: dict[Place, int | None] = {}
    try:
        waiting = sorted(places)
        for start in range(0, len(waiting), _AT_ONCE):
            some = waiting[start : start + _AT_ONCE]
            found |= _read_one_of_each(consumer, {place: places[place] for place in some})
            advance(len(some))
    finally:
        consumer.close()
    return found


def _read_one_of_each(consumer: Any, places: Mapping[Place, int]) -> dict[Place, int | None]:
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, TopicPartition

    found: dict[Place, int | None] = {}
    waiting = set(places)
    consumer.assign([TopicPartition(*place, offset) for place, offset in places.items()])
    deadline_s = time.monotonic() + _WAIT_S
    while waiting and time.monotonic() < deadline_s:
        message = consumer.poll(min(0.2, _WAIT_S))
        if message is None:
            continue
        place = (message.topic(), message.partition())
        if place not in waiting:
            continue
        error = message.error()
        waiting.discard(place)
        consumer.pause([TopicPartition(*place)])
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                found[place] = None
            continue
        kind, timestamp_ms = message.timestamp()
        if kind != TIMESTAMP_NOT_AVAILABLE and timestamp_ms >= 0:
            found[place] = timestamp_ms
    consumer.unassign()
    return found
