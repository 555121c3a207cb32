"""Which coordinators are in office: those whose partitions this broker leads."""

from barnabas.broker.internal_log import InternalLog
from barnabas.cluster.changes import Change, PartitionsAdded, TopicCreated, TopicDeleted
from barnabas.cluster.image import Topic
from barnabas.cluster.service import Cluster
from barnabas.coordinator.group.service import GroupCoordinator
from barnabas.model.topics import CONSUMER_OFFSETS
from barnabas.ports.clock import Clock
from barnabas.ports.entropy import Entropy
from barnabas.ports.work import Work
from barnabas.replica.service import Replicas


class Coordinators:
    """Follows the cluster's changes, after the partitions themselves have."""

    def __init__(
        self, cluster: Cluster, replicas: Replicas, clock: Clock, entropy: Entropy, work: Work
    ) -> None:
        self.groups = GroupCoordinator(cluster, clock, entropy)
        self._cluster = cluster
        self._replicas = replicas
        self._work = work

    def start(self) -> None:
        """Every partition is open: let their shards load."""
        topic = self._cluster.image.topics.get(CONSUMER_OFFSETS)
        if topic is not None:
            self._elect(topic, 0)

    def follow(self, change: Change) -> None:
        """The cluster has changed."""
        match change:
            case TopicCreated(topic):
                self._elect(topic, 0)
                self.groups.topics_changed([topic])
            case PartitionsAdded(topic, first_new):
                self._elect(topic, first_new)
                self.groups.topics_changed([topic])
            case TopicDeleted(topic):
                self._resign(topic)
                self.groups.topics_deleted([topic])
            case _:
                pass

    def _elect(self, topic: Topic, first: int) -> None:
        if topic.name != CONSUMER_OFFSETS:
            return
        for index in range(first, len(topic.partitions)):
            partition = self._replicas.find(topic.name, index)
            if partition is not None:
                self.groups.elect(index, InternalLog(partition, self._replicas, self._work))

    def _resign(self, topic: Topic) -> None:
        if topic.name == CONSUMER_OFFSETS:
            for index in range(len(topic.partitions)):
                self.groups.resign(index)

    def close(self) -> None:
        """Nobody is in office any more."""
        self.groups.close()
