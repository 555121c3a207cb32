"""What exists and who leads it, as one broker tells it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from barnabas.link.broker import Broker
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.spark.cluster.connection import Server
from barnabas.wire.messages import newest_type
from barnabas.wire.reshape import element_type

METADATA: Final = 3
_NOT_THERE: Final = (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)


class Node(NamedTuple):
    """A broker of the cluster, where it says that it can be reached."""

    id: int
    host: str
    port: int

    @property
    def server(self) -> Server:
        """Its address."""
        return Server(self.host, self.port)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, and who leads each of its partitions."""

    name: str
    id: UUID | None
    """None before Kafka 2.8."""
    internal: bool
    leaders: dict[int, int]
    """Node by partition; -1 where there is none just now."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """One answer. Topics that were asked for and are not in it do not exist."""

    cluster_id: str | None
    nodes: dict[int, Node]
    topics: dict[str, Topic]


def ask_metadata(broker: Broker, topics: Collection[str] | None) -> Metadata:
    """About these topics, or all; never makes one. KafkaError for a topic that can not be told."""
    request = newest_type(METADATA, "request")
    wanted = element_type(request, "topics")
    answer = broker.ask(
        METADATA,
        request(
            topics=(
                None
                if topics is None
                else tuple(wanted(topic_id=None, name=name) for name in sorted(topics))
            ),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ),
    )
    return Metadata(
        cluster_id=answer.cluster_id,
        nodes={each.node_id: Node(each.node_id, each.host, each.port) for each in answer.brokers},
        topics={
            each.name: _topic(each) for each in answer.topics if each.error_code not in _NOT_THERE
        },
    )


def _topic(each: Any) -> Topic:
    # Some brokers say that a leader is missing of the whole topic, some of its partitions.
    if each.error_code not in (ErrorCode.none, ErrorCode.leader_not_available):
        raise KafkaError(each.error_code)
    return Topic(
        name=each.name,
        id=each.topic_id,
        internal=each.is_internal,
        leaders={part.partition_index: part.leader_id for part in each.partitions},
    )
