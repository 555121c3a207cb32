"""Who leads instead (KIP-951): told with the error, so that a client need not ask for metadata."""

from collections.abc import Iterable
from typing import Final

from barnabas.api.context import Services
from barnabas.cluster.image import Image
from barnabas.model.errors import ErrorCode
from barnabas.wire.endpoints import NodeEndpoint

ELSEWHERE: Final = frozenset(
    {ErrorCode.not_leader_or_follower.value, ErrorCode.fenced_leader_epoch.value}
)
"""Errors of clients that have missed an election."""

NOBODY: Final = (-1, -1)

Leader = tuple[int, int]
"""Its number, and since which epoch it leads."""


def leader_of(image: Image, name: str | None, topic_id: bytes | None, index: int) -> Leader:
    """Who leads a partition, as far as is known here."""
    topic = image.topics_by_id.get(topic_id or b"") or image.topics.get(name or "")
    if topic is None or not 0 <= index < len(topic.partitions):
        return NOBODY
    state = topic.partitions[index]
    return state.leader, state.leader_epoch


def endpoints_of(services: Services, leaders: Iterable[Leader | None]) -> list[NodeEndpoint]:
    """Where those leaders are."""
    brokers = services.cluster.image.brokers
    found: dict[int, NodeEndpoint] = {}
    for leader in leaders:
        node = None if leader is None else brokers.get(leader[0])
        if node is not None:
            found[node.id] = NodeEndpoint(node.id, node.host, node.port, node.rack)
    return list(found.values())
