"""A consumer group's offsets, kept and asked for without joining the group."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas.link.broker import Broker
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.spark.cluster.grouping import by_topic
from barnabas.spark.cluster.retrying import check
from barnabas.spark.places import Place
from barnabas.wire.messages import newest_type
from barnabas.wire.reshape import element_type

if TYPE_CHECKING:
    from barnabas.spark.cluster.cluster import Cluster

OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
_BY_NAME: Final = 9
"""The newest version of both that calls topics by their names; the next one takes ids alone."""

_STABLE_FROM: Final = 7
"""The first version of OffsetFetch that can wait for open transactions."""

_NOT_COMMITTED: Final = -1


def commit_offsets(cluster: "Cluster", group: str, offsets: Mapping[Place, int]) -> None:
    """Repeated as it is where an answer is lost: the same offsets once more change nothing."""
    if not offsets:
        return
    request = newest_type(OFFSET_COMMIT, "request")
    topic_type = element_type(request, "topics")
    partition_type = element_type(topic_type, "partitions")
    topics = tuple(
        topic_type(
            name=topic,
            partitions=tuple(
                partition_type(
                    partition_index=number,
                    committed_offset=offsets[Place(topic, number)],
                    committed_metadata="",
                )
                for number in numbers
            ),
        )
        for topic, numbers in by_topic(offsets).items()
    )
    asked = request(group_id=group, member_id="", topics=topics)

    def attempt(broker: Broker) -> None:
        answer = broker.ask(OFFSET_COMMIT, asked, at_most=_BY_NAME)
        check_committed(cluster, answer)

    cluster.ask_coordinator(f"Committing offsets of the group {group}", "group", group, attempt)


def check_committed(cluster: "Cluster", answer: Any) -> None:
    """KafkaError, or UnknownTopicError, unless every offset of a commit was taken."""
    codes = {
        Place(topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code is not ErrorCode.none
    }
    for place, code in codes.items():
        if code is ErrorCode.unknown_topic_or_partition:
            cluster.forget_leaders()
            cluster.leaders([place])
        check(code, str(place))


def committed_offsets(
    cluster: "Cluster", group: str, places: Collection[Place] | None, *, stable: bool
) -> dict[Place, tuple[int, str]]:
    """Places without a committed offset are left out; a group that nobody knows has none."""
    request = newest_type(OFFSET_FETCH, "request")
    group_type = element_type(request, "groups")
    topic_type = element_type(group_type, "topics")
    topics = (
        None
        if places is None
        else tuple(
            topic_type(name=topic, partition_indexes=tuple(numbers))
            for topic, numbers in by_topic(places).items()
        )
    )
    asked = request(groups=(group_type(group_id=group, topics=topics),), require_stable=stable)

    def attempt(broker: Broker) -> dict[Place, tuple[int, str]]:
        if stable and broker.version(OFFSET_FETCH) < _STABLE_FROM:
            raise KafkaError(ErrorCode.unsupported_version)
        (found,) = broker.ask(OFFSET_FETCH, asked, at_most=_BY_NAME).groups
        if found.error_code is ErrorCode.group_id_not_found:
            return {}
        check(found.error_code)
        return _committed(found)

    if places is not None and not places:
        return {}
    what = f"Asking for the offsets of the group {group}"
    return cluster.ask_coordinator(what, "group", group, attempt)


def _committed(group: Any) -> dict[Place, tuple[int, str]]:
    found = {}
    for topic in group.topics:
        for each in topic.partitions:
            place = Place(topic.name, each.partition_index)
            # A topic that is gone has no offsets, which is no reason to wait.
            if each.error_code is not ErrorCode.unknown_topic_or_partition:
                check(each.error_code, str(place))
                if each.committed_offset != _NOT_COMMITTED:
                    found[place] = (each.committed_offset, each.metadata or "")
    return found
