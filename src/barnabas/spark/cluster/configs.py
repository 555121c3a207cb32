"""What a topic is like: how much it holds, and whose clock its timestamps are."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from barnabas.link.broker import Broker
from barnabas.model.errors import ErrorCode
from barnabas.spark.cluster.grouping import by_topic
from barnabas.spark.cluster.metadata import Node
from barnabas.spark.cluster.retrying import check
from barnabas.spark.places import Place, listed
from barnabas.wire.messages import newest_type
from barnabas.wire.reshape import element_type

if TYPE_CHECKING:
    from barnabas.spark.cluster.cluster import Cluster

DESCRIBE_CONFIGS: Final = 32
DESCRIBE_LOG_DIRS: Final = 35
_TOPIC: Final = 2
_TIMESTAMP_TYPE: Final = "message.timestamp.type"
_MAY_NOT_ASK: Final = (
    ErrorCode.cluster_authorization_failed,
    ErrorCode.topic_authorization_failed,
)


def stored_bytes(cluster: "Cluster", places: Collection[Place]) -> dict[Place, int]:
    """From each leader's own log directories; a user without the right gets nothing."""

    def attempt() -> dict[Place, int]:
        by_node: dict[Node, list[Place]] = {}
        for place, node in cluster.leaders(places).items():
            by_node.setdefault(node, []).append(place)
        found: dict[Place, int] = {}
        for node, theirs in by_node.items():
            found |= _sizes(cluster.broker(node), theirs)
        return found

    return cluster.retrying(f"Asking for the size of {listed(places)}", attempt) if places else {}


def _sizes(broker: Broker, places: list[Place]) -> dict[Place, int]:
    if not broker.speaks(DESCRIBE_LOG_DIRS):
        return {}
    request = newest_type(DESCRIBE_LOG_DIRS, "request")
    topic_type = element_type(request, "topics")
    topics = tuple(
        topic_type(topic=topic, partitions=tuple(numbers))
        for topic, numbers in by_topic(places).items()
    )
    answer = broker.ask(DESCRIBE_LOG_DIRS, request(topics=topics))
    # Version 1 and 2 say it by leaving everything out.
    if answer.error_code in _MAY_NOT_ASK:
        return {}
    check(answer.error_code)
    return {
        Place(topic.name, each.partition_index): each.partition_size
        for result in answer.results
        if result.error_code is ErrorCode.none
        for topic in result.topics
        for each in topic.partitions
        # A replica that moves to another disk is there twice: the one that is read counts.
        if not each.is_future_key
    }


def timestamp_types(cluster: "Cluster", topics: Collection[str]) -> dict[str, str]:
    """`message.timestamp.type` of each; a user without the right gets nothing for a topic."""
    request = newest_type(DESCRIBE_CONFIGS, "request")
    resource = element_type(request, "resources")
    asked = request(
        resources=tuple(
            resource(
                resource_type=_TOPIC, resource_name=name, configuration_keys=(_TIMESTAMP_TYPE,)
            )
            for name in sorted(topics)
        )
    )

    def attempt() -> dict[str, str]:
        found = {}
        for result in cluster.any_broker().ask(DESCRIBE_CONFIGS, asked).results:
            if result.error_code in _MAY_NOT_ASK:
                continue
            if result.error_code is ErrorCode.unknown_topic_or_partition:
                cluster.partition_counts([result.resource_name])
            check(result.error_code, result.error_message)
            for each in result.configs:
                if each.name == _TIMESTAMP_TYPE and each.value is not None:
                    found[result.resource_name] = each.value
        return found

    what = f"Asking for the {_TIMESTAMP_TYPE} of {', '.join(sorted(topics))}"
    return cluster.retrying(what, attempt) if topics else {}
