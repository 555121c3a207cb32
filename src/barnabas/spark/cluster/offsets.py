"""Where partitions begin, where they end, and where a moment lies in them: ListOffsets."""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from barnabas.link.broker import Broker
from barnabas.model.errors import ErrorCode
from barnabas.spark.cluster.grouping import by_topic
from barnabas.spark.places import Place, listed
from barnabas.wire.messages import newest_type
from barnabas.wire.reshape import element_type

if TYPE_CHECKING:
    from barnabas.spark.cluster.cluster import Cluster

LIST_OFFSETS: Final = 2
_LATEST: Final = -1
_EARLIEST: Final = -2
_EARLIEST_LOCAL: Final = -4
_LOCAL_FROM: Final = 8
"""The first version that knows of records which are not on a broker's own disks (KIP-405)."""
_NO_OFFSET: Final = -1
_CONSUMER: Final = -1
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1


def earliest(cluster: "Cluster", places: Collection[Place]) -> dict[Place, int]:
    """The first offset that is still kept."""
    times = dict.fromkeys(places, _EARLIEST)
    return _list_offsets(cluster, f"Asking where {listed(places)} begins", times, committed=False)


def latest(cluster: "Cluster", places: Collection[Place], *, committed: bool) -> dict[Place, int]:
    """The high watermark, or the last stable offset."""
    times = dict.fromkeys(places, _LATEST)
    return _list_offsets(cluster, f"Asking where {listed(places)} ends", times, committed=committed)


def earliest_local(cluster: "Cluster", places: Collection[Place]) -> dict[Place, int]:
    """The first offset on the leader's own disks; 0 where it can not have them elsewhere."""
    times = dict.fromkeys(places, _EARLIEST_LOCAL)
    what = f"Asking what of {listed(places)} is in remote storage"
    return _list_offsets(cluster, what, times, committed=False, version_from=_LOCAL_FROM)


def at_time(cluster: "Cluster", times: Mapping[Place, int]) -> dict[Place, int | None]:
    """The first offset with a timestamp of at least so many milliseconds; None if none has."""
    # What is below zero has other meanings on the wire.
    asked = {place: max(time_ms, 0) for place, time_ms in times.items()}
    what = f"Asking for the offset of a time in {listed(times)}"
    found = _list_offsets(cluster, what, asked, committed=False)
    return {place: None if offset == _NO_OFFSET else offset for place, offset in found.items()}


def _list_offsets(
    cluster: "Cluster",
    what: str,
    times: Mapping[Place, int],
    *,
    committed: bool,
    version_from: int = 0,
) -> dict[Place, int]:
    """0 from brokers that do not speak `version_from`."""
    timeout = timedelta(seconds=cluster.connection.request_timeout_s)
    request = newest_type(LIST_OFFSETS, "request")
    topic_type = element_type(request, "topics")
    partition_type = element_type(topic_type, "partitions")

    def ask(broker: Broker, places: list[Place]) -> Iterator[tuple[Place, ErrorCode, int]]:
        if broker.version(LIST_OFFSETS) < version_from:
            yield from ((place, ErrorCode.none, 0) for place in places)
            return
        topics = tuple(
            topic_type(
                name=topic,
                partitions=tuple(
                    partition_type(partition_index=number, timestamp=times[Place(topic, number)])
                    for number in numbers
                ),
            )
            for topic, numbers in by_topic(places).items()
        )
        answer = broker.ask(
            LIST_OFFSETS,
            request(
                replica_id=_CONSUMER,
                isolation_level=_READ_COMMITTED if committed else _READ_UNCOMMITTED,
                topics=topics,
                timeout=timeout,
            ),
        )
        for topic in answer.topics:
            for each in topic.partitions:
                yield Place(topic.name, each.partition_index), each.error_code, each.offset

    return cluster.ask_leaders(what, times.keys(), ask) if times else {}
