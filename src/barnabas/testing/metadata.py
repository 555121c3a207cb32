"""What a broker says of the cluster's topics and leaders."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from barnabas.link.broker import Broker
from barnabas.link.sync import Link
from barnabas.wire.messages import newest_type
from barnabas.wire.reshape import element_type

METADATA: Final = 3


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """Who has a partition, and who leads it."""

    number: int
    leader: int
    """-1: nobody, just now."""
    replicas: list[int]
    in_sync: list[int]


@dataclass(frozen=True, slots=True)
class Metadata:
    """One answer; of topics that do not exist there is nothing in it."""

    controller: int
    """-1: nobody, just now."""
    topics: dict[str, list[PartitionFacts]]


def ask_metadata(
    address: tuple[str, int], topics: Collection[str] | None, timeout_s: float
) -> Metadata:
    """About these topics, or all; never makes one. Raises OSError when nobody answers."""
    request = newest_type(METADATA, "request")
    wanted = element_type(request, "topics")
    with Broker(Link(*address, timeout_s=timeout_s)) as broker:
        answer = broker.ask(
            METADATA,
            request(
                topics=None
                if topics is None
                else tuple(wanted(topic_id=None, name=name) for name in topics),
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            ),
        )
    return Metadata(
        answer.controller_id,
        {
            each.name: [
                PartitionFacts(
                    part.partition_index,
                    part.leader_id,
                    list(part.replica_nodes),
                    list(part.isr_nodes),
                )
                for part in each.partitions
            ]
            for each in answer.topics
        },
    )
