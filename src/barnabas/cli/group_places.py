"""Where groups stand in the logs: what they committed, and where each log begins and ends."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from barnabas.cli.client import REQUEST_S, admin_api, existing_topics

Place = tuple[str, int]
"""A topic and one of its partitions."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a partition's log begins, and which offset comes next."""

    start: int
    end: int


def committed_offsets(client: Any, group: str) -> dict[Place, int]:
    """What the group committed, partition by partition. May raise KafkaException."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    (answer,) = client.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_S
    ).values()
    return {
        (each.topic, each.partition): each.offset
        for each in answer.result(REQUEST_S).topic_partitions
        if each.offset >= 0
    }


def extents(client: Any, places: Iterable[Place]) -> dict[Place, Extent]:
    """Of those partitions that exist and have a leader. May raise KafkaException."""
    wanted = existing(client, places)
    spec = admin_api().OffsetSpec
    starts = offsets_at(client, wanted, spec.earliest())
    ends = offsets_at(client, wanted, spec.latest())
    return {
        place: Extent(starts[place], ends[place])
        for place in wanted
        if place in starts and place in ends
    }


def existing(client: Any, places: Iterable[Place]) -> list[Place]:
    """Those of the partitions that there are; asking on for others could create their topics."""
    known = existing_topics(client)
    return sorted(
        place for place in places if place[0] in known and place[1] in known[place[0]].partitions
    )


def offsets_at(client: Any, places: list[Place], spec: Any) -> dict[Place, int]:
    """The offset of each partition at a spec; without those whose leader does not tell."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    leaderless = (
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    )
    if not places:
        return {}
    asked = {TopicPartition(*place): spec for place in places}
    found = {}
    for place, answer in client.list_offsets(asked, request_timeout=REQUEST_S).items():
        try:
            found[place.topic, place.partition] = answer.result(REQUEST_S).offset
        except KafkaException as error:
            # One partition without a leader must not hide the others.
            if error.args[0].code() not in leaderless:
                raise
    return found
