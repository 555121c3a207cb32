"""Copying from leaders and counting followers: what makes several brokers' logs one."""

from collections.abc import Callable

from barnabas.cluster.image import Topic
from barnabas.cluster.service import Cluster
from barnabas.model.topics import TopicPartition
from barnabas.ports.clock import Clock
from barnabas.replica.committing import Committing
from barnabas.replica.fetcher import FetchSettings
from barnabas.replica.followers import Followers
from barnabas.replica.isr_keeping import IsrKeeping
from barnabas.replica.partition import Partition
from barnabas.replica.service import HostedTopic, Replicas


class Replication:
    """Both sides of it, for all partitions of one broker."""

    def __init__(self, cluster: Cluster, replicas: Replicas, clock: Clock) -> None:
        self._cluster = cluster
        self._mend: Callable[[Committing, str], bool] = _nobody_mends
        self._isr = IsrKeeping(cluster, replicas, lambda: cluster.image.brokers, self._lag_max_s)
        self._followers = Followers(cluster, clock, self._fetch_settings)

    def start(self) -> None:
        """Begin to look for followers that lag."""
        self._isr.start()

    def served(self, hosted: HostedTopic, partition: Partition) -> None:
        """A partition is here, or in another role or epoch than before."""
        partition.progressed = self._isr.progressed
        partition.found_damage = self.found_damage
        self._followers.served(hosted, partition)

    def on_damage(self, told: Callable[[Committing, str], bool]) -> None:
        """Call `told` with each partition that is found to be damaged."""
        self._mend = told

    def found_damage(self, partition: Committing, what: str) -> bool:
        """Part of a log is damaged. Whether other brokers can serve it instead."""
        # Not one fetch more may tell the leader what this replica has.
        self._followers.forget(partition.log.partition)
        return self._mend(partition, what)

    def forget(self, topic: Topic) -> None:
        """A topic is gone."""
        for number in range(len(topic.partitions)):
            self._followers.forget(TopicPartition(topic.name, number))

    def dropped(self, partition: TopicPartition) -> None:
        """A partition has no replica here any more."""
        self._followers.forget(partition)

    async def close(self) -> None:
        """Copy nothing, and change no ISR, any more."""
        await self._isr.close()
        await self._followers.close()

    def _lag_max_s(self) -> float:
        return self._cluster.image.config.cluster.replica_lag_max_ms / 1000

    def _fetch_settings(self) -> FetchSettings:
        settings = self._cluster.image.config.cluster
        return FetchSettings(
            wait_ms=settings.replica_fetch_wait_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            partition_bytes=settings.replica_fetch_max_bytes,
            response_bytes=settings.replica_fetch_response_max_bytes,
            throttled_rate=settings.follower_throttled_rate,
        )


def _nobody_mends(_partition: Committing, _what: str) -> bool:
    """It stays as it is."""
    return False
