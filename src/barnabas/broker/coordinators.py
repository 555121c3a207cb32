"""Which coordinators are in office: those whose partitions this broker leads."""

from barnabas.api.producer_ids import ProducerIds
from barnabas.broker.enrolment import ClusterEnrolment
from barnabas.broker.internal_log import InternalLog
from barnabas.broker.markers import PartitionMarkers
from barnabas.broker.remote_markers import ClusterMarkers
from barnabas.cluster.changes import Change, PartitionsAdded, TopicCreated, TopicDeleted
from barnabas.cluster.image import Topic
from barnabas.cluster.service import Cluster
from barnabas.coordinator.group.service import GroupCoordinator
from barnabas.coordinator.txn.service import TransactionCoordinator
from barnabas.link.pool import LinkPool
from barnabas.model.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from barnabas.ports.clock import Clock
from barnabas.ports.entropy import Entropy
from barnabas.ports.work import Work
from barnabas.replica.partition import Partition
from barnabas.replica.service import Replicas


class Coordinators:
    """Follows the cluster's changes, after the partitions themselves have."""

    def __init__(
        self,
        cluster: Cluster,
        replicas: Replicas,
        links: LinkPool,
        clock: Clock,
        entropy: Entropy,
        work: Work,
    ) -> None:
        self.groups = GroupCoordinator(cluster, clock, entropy)
        self.producer_ids = ProducerIds(cluster)
        self.markers = PartitionMarkers(replicas, self.groups, clock)
        self.transactions = TransactionCoordinator(
            cluster,
            clock,
            entropy,
            ClusterMarkers(cluster, self.markers, links),
            self.producer_ids.take,
        )
        self.enrolment = ClusterEnrolment(cluster, self.transactions, links)
        self._by_topic: dict[str, GroupCoordinator | TransactionCoordinator] = {
            CONSUMER_OFFSETS: self.groups,
            TRANSACTION_STATE: self.transactions,
        }
        self._cluster = cluster
        self._replicas = replicas
        self._work = work

    def start(self) -> None:
        """Every partition is open: let their shards load."""
        for name in self._by_topic:
            topic = self._cluster.image.topics.get(name)
            for index in range(len(topic.partitions) if topic is not None else 0):
                partition = self._replicas.find(name, index)
                if partition is not None:
                    self.served(partition)

    def served(self, partition: Partition) -> None:
        """A partition is led here, or elsewhere, from now on."""
        topic, index = partition.log.partition
        coordinator = self._by_topic.get(topic)
        if coordinator is None:
            return
        if partition.leads:
            coordinator.elect(index, InternalLog(partition, self._replicas, self._work))
        else:
            coordinator.resign(index)

    def dropped(self, partition: TopicPartition) -> None:
        """A partition has no replica here any more."""
        coordinator = self._by_topic.get(partition.topic)
        if coordinator is not None:
            coordinator.resign(partition.partition)

    def follow(self, change: Change) -> None:
        """The cluster has changed."""
        match change:
            case TopicCreated(topic) | PartitionsAdded(topic):
                self.groups.topics_changed([topic])
            case TopicDeleted(topic):
                self._resign(topic)
                self.groups.topics_deleted([topic])
                self.transactions.topics_deleted([topic])
            case _:
                pass

    def _resign(self, topic: Topic) -> None:
        coordinator = self._by_topic.get(topic.name)
        if coordinator is not None:
            for index in range(len(topic.partitions)):
                coordinator.resign(index)

    def close(self) -> None:
        """Nobody is in office any more. (Transactions first: they have markers written to those
        partitions that groups are kept in.)"""
        self.transactions.close()
        self.groups.close()
