"""What several handlers say alike: who may do what, resource types, live brokers, error texts."""

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.api.context import Call
from barnabas.cluster.image import NO_LEADER, BrokerNode, Topic
from barnabas.model.errors import ErrorCode, KafkaError

TOPIC_OPERATIONS: Final = 3576
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS: without an
authorizer everybody may do everything."""

CLUSTER_OPERATIONS: Final = 8096
"""CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE
and the two of tokens."""

GROUP_OPERATIONS: Final = 3400
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS."""

OPERATIONS_NOT_ASKED: Final = -(2**31)

UNKNOWN_ENUM_MESSAGE: Final = (
    "The request is malformed, or was meant for another broker version: it names a type that "
    "does not exist."
)

_MESSAGES: Final = {
    ErrorCode.unknown_topic_or_partition: "This server does not host this topic-partition.",
    ErrorCode.unknown_topic_id: "This server does not host this topic ID.",
}


class ResourceType(IntEnum):
    """What has a configuration in Kafka, with the numbers of the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Leadership(NamedTuple):
    """Who serves a partition now, and the error that goes with it."""

    error: ErrorCode
    leader: int
    offline: tuple[int, ...]


def message_of(code: ErrorCode, message: str | None) -> str | None:
    """The text that goes with an error, also for errors that were raised without one."""
    return message or _MESSAGES.get(code)


def live_brokers(call: Call) -> Iterator[BrokerNode]:
    """Every live broker, this one under the address by which the asking client reaches it."""
    services = call.services
    for broker in services.cluster.image.brokers.values():
        if broker.id == services.node_id:
            yield here(call, broker)
        else:
            yield broker


def here(call: Call, me: BrokerNode) -> BrokerNode:
    """This broker, under the address by which the asking client reaches it."""
    host, port = call.services.advertised(call.peer)
    return BrokerNode(me.id, host, port, me.rack)


def known_broker(call: Call, number: int) -> BrokerNode | None:
    """A live broker by its number, where the asking client reaches it."""
    node = call.services.cluster.image.brokers.get(number)
    return here(call, node) if node is not None and number == call.services.node_id else node


def leaderships(call: Call, topic: Topic) -> Iterator[Leadership]:
    """Who serves each partition of a topic, in the order of the partitions.

    A partition whose files are damaged, or not open yet, has no leader: clients then wait instead
    of asking on.
    """
    services = call.services
    hosted = services.replicas.by_name.get(topic.name)
    damaged = hosted.damaged if hosted is not None else {}
    opening = hosted if hosted is not None and hosted.has_opening else None
    alive = services.cluster.image.brokers
    for index, state in enumerate(topic.partitions):
        is_here = state.leader == services.node_id
        offline = tuple(each for each in state.replicas if each not in alive)
        if index in damaged and services.node_id not in offline:
            offline = (*offline, services.node_id)
        is_opening = is_here and opening is not None and opening.is_opening(index)
        is_damaged = is_here and index in damaged
        if state.leader not in alive or is_opening or is_damaged:
            yield Leadership(ErrorCode.leader_not_available, NO_LEADER, offline)
        else:
            yield Leadership(ErrorCode.none, state.leader, offline)


def check_broker_name(name: str, node_id: int) -> None:
    """Raise INVALID_REQUEST unless a broker resource names this broker (or, empty, all)."""
    if not name or name == str(node_id):
        return
    if not name.isascii() or not name.removeprefix("-").isdigit():
        raise KafkaError(
            ErrorCode.invalid_request, f"Broker id must be an integer, but it is: {name}"
        )
    raise KafkaError(
        ErrorCode.invalid_request,
        f"Unexpected broker id, expected {node_id} or empty string, but received {name}",
    )
