"""What a handler may use, and what it knows of the request it answers."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from barnabas.api.fetch_sessions import FetchSessions
from barnabas.api.producer_ids import ProducerIds
from barnabas.cluster.service import Cluster
from barnabas.coordinator.group.service import GroupCoordinator
from barnabas.coordinator.txn.enrolment import Enrolment
from barnabas.coordinator.txn.markers import Markers
from barnabas.coordinator.txn.service import TransactionCoordinator
from barnabas.link.pool import LinkPool
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.ports.clock import Clock
from barnabas.ports.entropy import Entropy
from barnabas.ports.exchange import Address, Peer
from barnabas.ports.work import Work
from barnabas.replica.partition import Partition
from barnabas.replica.service import HostedTopic, Replicas
from barnabas.replica.throttle import Throttle
from barnabas.wire.headers import RequestHeader


@dataclass(slots=True, kw_only=True)
class Services:
    """The rooms a handler reaches."""

    node_id: int
    cluster: Cluster
    replicas: Replicas
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    enrolment: Enrolment
    """The coordinators of all transactions, here or elsewhere."""
    markers: Markers
    """Of the partitions that this broker leads."""
    links: LinkPool
    """To the other brokers."""
    sessions: FetchSessions
    producer_ids: ProducerIds
    clock: Clock
    entropy: Entropy
    work: Work
    advertised: Callable[[Peer], Address]
    """The address under which the asking client reaches this broker."""
    sent: Throttle = field(default_factory=Throttle)
    """What this broker, as a leader, has sent of replicas that are held down to a rate."""
    verifying: "dict[tuple[Partition, int], asyncio.Task[Any]]" = field(default_factory=dict)
    """The last append of a producer, by its id, that waits for its coordinator's word before it
    opens a transaction in a partition: what the same producer sends there queues behind it."""


@dataclass(slots=True, frozen=True)
class Call:
    """One request: who asks, in which version, and the rooms that can answer."""

    services: Services
    peer: Peer
    header: RequestHeader

    @property
    def version(self) -> int:
        """The version the client speaks."""
        return self.header.api_version


def hosted_partition(hosted: HostedTopic | None, index: int) -> Partition:
    """The partition, if this broker leads it, or the error a client must get."""
    partition = hosted_replica(hosted, index)
    if not partition.leads:
        raise KafkaError(ErrorCode.not_leader_or_follower)
    return partition


def hosted_replica(hosted: HostedTopic | None, index: int) -> Partition:
    """The partition, led here or followed, or the error a client must get."""
    if hosted is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    partition = hosted.partitions.get(index)
    if partition is not None:
        return partition
    if index in hosted.damaged:
        raise KafkaError(ErrorCode.kafka_storage_error, hosted.damaged[index])
    if hosted.is_opening(index):
        raise KafkaError(ErrorCode.not_leader_or_follower, "The partition is being opened.")
    if hosted.exists(index):
        raise KafkaError(ErrorCode.not_leader_or_follower)
    raise KafkaError(ErrorCode.unknown_topic_or_partition)


def check_leader_epoch(partition: Partition, claimed: int) -> None:
    """KIP-320: a client that names a leader epoch must name ours."""
    if claimed < 0 or claimed == partition.leader_epoch:
        return
    if claimed < partition.leader_epoch:
        raise KafkaError(ErrorCode.fenced_leader_epoch)
    raise KafkaError(ErrorCode.unknown_leader_epoch)
