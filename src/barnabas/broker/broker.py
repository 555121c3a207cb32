"""A broker: opened from the bottom up, stopped from the top down."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final

from barnabas.api.context import Services
from barnabas.api.dispatch import Dispatcher
from barnabas.api.fetch_sessions import FetchSessions
from barnabas.broker.cleaning import Cleaning
from barnabas.broker.coordinators import Coordinators
from barnabas.broker.following import Following
from barnabas.broker.housekeeping import Housekeeping
from barnabas.broker.outside import Outside
from barnabas.cluster.changes import BrokerConfigChanged, Change
from barnabas.cluster.service import Cluster
from barnabas.config.broker_config import BrokerConfig
from barnabas.log.store import LogStore
from barnabas.net.limits import NetLimits
from barnabas.net.listener import Listener
from barnabas.ports.exchange import Address, Peer
from barnabas.replica.service import Replicas

logger = logging.getLogger(__name__)

GRACE_S: Final = 5.0
"""How long a stopping broker lets requests in flight come to their end."""


class Broker:
    """One broker on one event loop."""

    def __init__(
        self, config: BrokerConfig, outside: Outside, failed: Callable[[str], None]
    ) -> None:
        self._config = config
        self._outside = outside
        self._tell_failed = failed
        self._failure: str | None = None
        self.address: Address = ("", 0)

    async def start(self) -> Address:
        """Lock the directory, load what is stored, recover the logs, then listen."""
        outside, config = self._outside, self._config
        async with AsyncExitStack() as undo:
            self._store = LogStore(outside.files, config.log_dir, outside.clock, outside.entropy)
            undo.callback(self._store.abandon)
            self._coordination = outside.open_coordination()
            undo.push_async_callback(self._coordination.close)
            self._cluster = Cluster(self._coordination, config, outside.entropy, outside.clock)
            self._replicas = Replicas(self._store, outside.work, self._disk_failed)
            self._coordinators = Coordinators(
                self._cluster, self._replicas, outside.clock, outside.entropy, outside.work
            )
            undo.callback(self._coordinators.close)
            self._following = Following(self._replicas, self._coordinators, self._disk_failed)
            limits = _net_limits(config, outside.descriptors)
            self._listener = Listener(Dispatcher(self._services()), limits)
            undo.push_async_callback(self._listener.stop, 0)
            asked = config.listeners[0]
            self.address = await self._listener.bind(asked.host, asked.port)
            host, port = self._advertised_address(self.address)
            await self._cluster.start(host, port, new_epochs=not self._store.clean)
            self._cluster.subscribe(self._changed)
            await self._replicas.open_all(self._cluster.image.topics.values())
            self._coordinators.start()
            self._housekeeping = Housekeeping(
                self._replicas, outside.clock, outside.work, lambda: self._cluster.image.config
            )
            self._cleaning = Cleaning(
                self._replicas,
                outside.clock,
                outside.entropy,
                outside.work,
                lambda: self._cluster.image.config,
            )
            await self._listener.serve()
            self._housekeeping.start()
            self._cleaning.start()
            undo.pop_all()
        return self.address

    def _services(self) -> Services:
        outside = self._outside
        return Services(
            node_id=self._config.node_id,
            cluster=self._cluster,
            replicas=self._replicas,
            groups=self._coordinators.groups,
            transactions=self._coordinators.transactions,
            markers=self._coordinators.markers,
            sessions=FetchSessions(
                outside.clock,
                outside.entropy,
                self._config.max_incremental_fetch_session_cache_slots,
            ),
            producer_ids=self._coordinators.producer_ids,
            clock=outside.clock,
            entropy=outside.entropy,
            work=outside.work,
            advertised=self._advertised,
        )

    def _advertised(self, peer: Peer) -> Address:
        """Where the asking client reaches us: as configured, else as it has just done so."""
        return self._advertised_address((peer.local[0], self.address[1]))

    def _advertised_address(self, otherwise: Address) -> Address:
        told = self._config.advertised_listeners
        if not told:
            return otherwise
        return told[0].host, told[0].port or otherwise[1]

    def _changed(self, change: Change) -> Awaitable[None] | None:
        if isinstance(change, BrokerConfigChanged):
            self._listener.limit(_net_limits(change.config, self._outside.descriptors))
        return self._following.follow(change)

    def _disk_failed(self, reason: str) -> None:
        """Nothing more is acknowledged; the process has to end and recover at its next start."""
        if self._failure is None:
            self._failure = reason
            logger.critical("the data directory has failed: %s", reason)
            self._replicas.fail_all(reason)
            self._tell_failed(reason)

    async def stop(self) -> None:
        """Finish what is under way, make everything durable, leave the clean-stop mark."""
        self._following.stop()
        async with AsyncExitStack() as steps:
            # The last first; each is taken even when one before it has failed.
            steps.push_async_callback(self._replicas.close)
            steps.push_async_callback(self._cluster.close)
            steps.push_async_callback(self._replicas.settle)
            steps.push_async_callback(self._housekeeping.stop)
            steps.push_async_callback(self._cleaning.stop)
            # Those who wait for others of their group learn that they must look elsewhere.
            self._coordinators.close()
            self._replicas.wake_fetches()
            await self._listener.stop(GRACE_S)

    async def abandon(self) -> None:
        """Stop as a killed process would: nothing is saved that was not saved already."""
        self._following.stop()
        self._coordinators.close()
        await self._listener.stop(0)
        await self._cleaning.stop()
        await self._housekeeping.stop()
        await self._replicas.settle()
        await self._coordination.close()
        self._store.abandon()


def _net_limits(config: BrokerConfig, descriptors: int) -> NetLimits:
    return NetLimits(
        frame_bytes_max=config.socket_request_max_bytes,
        connection_idle_s_max=config.connections_max_idle_ms / 1000,
        connections_max=config.max_connections,
        connections_per_address_max=config.max_connections_per_ip,
    ).within_descriptors(descriptors)
