"""Which partitions are copied from whom, as leaders come and go."""

import asyncio
from collections.abc import Callable

from barnabas.cluster.image import NO_LEADER, BrokerNode
from barnabas.cluster.service import Cluster
from barnabas.model.topics import TopicPartition
from barnabas.ports.clock import Clock
from barnabas.replica.copying import Copier
from barnabas.replica.fetcher import Fetcher, FetchSettings, Followed
from barnabas.replica.partition import Partition
from barnabas.replica.service import HostedTopic
from barnabas.replica.throttle import Throttle


class Followers:
    """The fetchers of one broker."""

    def __init__(
        self, cluster: Cluster, clock: Clock, settings: Callable[[], FetchSettings]
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._settings = settings
        self._copier = Copier(clock)
        self._throttle = Throttle()
        self._fetchers: dict[int, Fetcher] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._ending: dict[asyncio.Task[None], None] = {}
        self._closed = False

    def served(self, hosted: HostedTopic, partition: Partition) -> None:
        """A partition is here, or in another role or epoch than before."""
        name = partition.log.partition
        self.forget(name)
        leader = partition.state.leader
        if leader in (NO_LEADER, self._cluster.node_id) or self._closed:
            return
        if partition.log.damage is not None:
            # Whoever copies tells what he has, and is counted for it.
            return
        self._leaders[name] = leader
        followed = Followed(partition, hosted.topic.id_bytes, partition.leader_epoch)
        self._fetcher(leader).add(followed)

    def forget(self, name: TopicPartition) -> None:
        """A partition is not copied any more."""
        leader = self._leaders.pop(name, None)
        fetcher = None if leader is None else self._fetchers.get(leader)
        if leader is None or fetcher is None:
            return
        fetcher.remove(name)
        if fetcher.is_idle:
            del self._fetchers[leader]
            self._end(fetcher)

    def _fetcher(self, leader: int) -> Fetcher:
        found = self._fetchers.get(leader)
        if found is None:
            found = self._fetchers[leader] = Fetcher(
                leader,
                self._node,
                lambda: (self._cluster.node_id, self._cluster.broker_epoch),
                self._copier,
                self._clock,
                self._settings,
                self._throttle,
            )
        return found

    def _node(self, broker: int) -> BrokerNode | None:
        return self._cluster.image.brokers.get(broker)

    def _end(self, fetcher: Fetcher) -> None:
        task = asyncio.get_running_loop().create_task(fetcher.close())
        self._ending[task] = None
        task.add_done_callback(lambda done: self._ending.pop(done, None))

    async def close(self) -> None:
        """Copy nothing any more."""
        self._closed = True
        fetchers, self._fetchers = list(self._fetchers.values()), {}
        for fetcher in fetchers:
            await fetcher.close()
        for task in list(self._ending):
            await task
