"""A broker: opened from the bottom up, stopped from the top down."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final

from barnabas.api.context import Services
from barnabas.api.dispatch import Dispatcher
from barnabas.api.fetch_sessions import FetchSessions
from barnabas.api.forwarding import FORWARDER
from barnabas.broker.cleaning import Cleaning
from barnabas.broker.coordinators import Coordinators
from barnabas.broker.following import Following
from barnabas.broker.healing import Healing
from barnabas.broker.health import Health, Phase
from barnabas.broker.housekeeping import Housekeeping
from barnabas.broker.identity import Identity, keep_cluster, load_identity
from barnabas.broker.lease import LeaseKeeping
from barnabas.broker.outside import Outside
from barnabas.broker.remote_controller import AskingController
from barnabas.broker.replication import Replication
from barnabas.broker.scrubbing import Scrubbing
from barnabas.cluster.changes import BrokerConfigChanged, Change
from barnabas.cluster.service import Cluster
from barnabas.config.broker_config import BrokerConfig
from barnabas.link.pool import LinkPool
from barnabas.log.store import LogStore
from barnabas.model.errors import BarnabasError
from barnabas.net.health import HealthListener
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
        self._resigning: asyncio.Task[None] | None = None
        self._resting: tuple[Cleaning | Scrubbing, ...] = ()
        """Chores that are told when settings have changed."""
        self.address: Address = ("", 0)
        self.health_address: Address | None = None

    async def start(self) -> Address:
        """Lock the directory, load what is stored, recover the logs, then listen."""
        outside, config = self._outside, self._config
        async with AsyncExitStack() as undo:
            self._store = LogStore(outside.files, config.log_dir, outside.clock, outside.entropy)
            undo.callback(self._store.abandon)
            identity = load_identity(
                outside.files, self._store.root, config.node_id, outside.entropy
            )
            self._coordination = outside.open_coordination(self._cluster_failed)
            undo.push_async_callback(self._coordination.close)
            self._links = LinkPool(self._address_of, FORWARDER)
            undo.push_async_callback(self._links.close)
            self._cluster = Cluster(
                self._coordination,
                config,
                outside.entropy,
                outside.clock,
                remote=AskingController(self._links),
                failed=self._cluster_failed,
            )
            self._replicas = Replicas(self._store, outside.work, self._disk_failed, config.node_id)
            self._make_rooms(undo)
            limits = _net_limits(config, outside.descriptors)
            self._listener = Listener(Dispatcher(self._services()), limits)
            undo.push_async_callback(self._listener.stop, 0)
            asked = config.listeners[0]
            self.address = await self._listener.bind(asked.host, asked.port)
            await self._open_health(undo)
            await self._load_cluster(identity)
            await self._open_logs()
            self._lease = LeaseKeeping(self._cluster, self._replicas.hold_lease)
            undo.callback(self._lease.close)
            await self._cluster.join()
            self._lease.start()
            self._make_chores()
            await self._listener.serve()
            self._replication.start()
            self._housekeeping.start()
            self._cleaning.start()
            self._scrubbing.start()
            self._health.phase = Phase.SERVING
            undo.pop_all()
        return self.address

    def _make_rooms(self, undo: AsyncExitStack) -> None:
        """Coordinators, replication and healing, on what is there by now."""
        outside = self._outside
        self._coordinators = Coordinators(
            self._cluster,
            self._replicas,
            self._links,
            outside.clock,
            outside.entropy,
            outside.work,
        )
        undo.callback(self._coordinators.close)
        self._healing = Healing(self._cluster, self._replicas, outside.work)
        undo.push_async_callback(self._healing.close)
        self._replication = Replication(self._cluster, self._replicas, outside.clock)
        undo.push_async_callback(self._replication.close)
        self._replication.on_damage(self._healing.noticed)
        self._following = Following(
            self._replicas, self._coordinators, self._replication, self._disk_failed
        )

    async def _open_health(self, undo: AsyncExitStack) -> None:
        """Before logs are recovered, which may take long: a process that does that lives."""
        self._health = Health(
            self._config.node_id,
            self._cluster,
            self._replicas,
            self._outside.clock,
            lambda: self._failure,
        )
        self._health_listener = HealthListener(self._health.answer)
        undo.push_async_callback(self._health_listener.stop)
        where = self._config.health_listener
        if where is not None:
            host, port = self.health_address = await self._health_listener.start(*where)
            logger.info("Health is told at http://%s:%d/health.", host, port)

    def _make_chores(self) -> None:
        """What is done now and then, in the background."""
        outside = self._outside
        self._housekeeping = Housekeeping(
            self._replicas, outside.clock, outside.work, lambda: self._cluster.image.config
        )
        self._cleaning = Cleaning(
            self._replicas,
            outside.clock,
            outside.entropy,
            outside.work,
            lambda: self._cluster.image.config,
            self._replication.found_damage,
        )
        self._scrubbing = Scrubbing(
            self._replicas,
            outside.clock,
            outside.work,
            lambda: self._cluster.image.config,
            self._replication.found_damage,
        )
        self._resting = (self._cleaning, self._scrubbing)

    async def _load_cluster(self, identity: Identity) -> None:
        """See what is stored. This broker is not registered yet: its logs may take long to open,
        and meanwhile others shall lead what they can."""
        host, port = self._advertised_address(self.address)
        await self._cluster.load(
            host,
            port,
            directory=identity.directory_id,
            stop=self._store.last_stop,
            cluster_id=identity.cluster_id,
        )
        self._cluster.subscribe(self._changed)
        cluster_id = self._cluster.image.cluster_id
        keep_cluster(self._outside.files, self._store.root, identity, cluster_id)

    async def _open_logs(self) -> None:
        """Open what is here; what is lost or damaged does not count from then on."""
        self._replicas.hold_lease(False)
        self._replicas.on_roles_changed(self._coordinators.served)
        await self._healing.leave_lost(self._cluster.image.topics.values())
        await self._following.start(self._cluster.image.topics.values())
        await self._healing.settle_opened()
        if self._failure is not None:
            raise BarnabasError(self._failure)
        # Not before: who is killed while it recovers from a power loss must go on with that, and
        # not take what power loss has left for damage that no kill explains.
        self._store.mark_boot()

    def _services(self) -> Services:
        outside = self._outside
        return Services(
            node_id=self._config.node_id,
            cluster=self._cluster,
            replicas=self._replicas,
            groups=self._coordinators.groups,
            transactions=self._coordinators.transactions,
            enrolment=self._coordinators.enrolment,
            links=self._links,
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

    def _address_of(self, broker: int) -> Address | None:
        node = self._cluster.image.brokers.get(broker)
        return None if node is None else (node.host, node.port)

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
            for chore in self._resting:
                chore.reconfigured()
        return self._following.follow(change)

    def _cluster_failed(self, reason: str) -> None:
        """This broker is no part of the cluster any more: only a new start can mend that."""
        if self._failure is None:
            self._failure = reason
            logger.critical("the cluster is lost: %s", reason)
            self._tell_failed(reason)

    def _disk_failed(self, reason: str) -> None:
        """Nothing more is acknowledged; the process has to end and recover at its next start."""
        if self._failure is None:
            self._failure = reason
            logger.critical("the data directory has failed: %s", reason)
            self._replicas.fail_all(reason)
            self._store.distrust()
            # Others take over at once, not when this session runs out.
            self._resigning = asyncio.get_running_loop().create_task(self._cluster.resign())
            self._tell_failed(f"{reason}; see to the disk, then start the broker again")

    async def stop(self) -> None:
        """Hand over what is led here, finish what is under way, make everything durable, leave the
        clean-stop mark."""
        self._health.phase = Phase.STOPPING
        if self._resigning is not None:
            await asyncio.wait([self._resigning])
        elif self._failure is None and self._cluster.image.config.cluster.controlled_shutdown:
            await self._cluster.leave()
        self._following.stop()
        self._lease.close()
        async with AsyncExitStack() as steps:
            # The last first; each is taken even when one before it has failed.
            steps.push_async_callback(self._health_listener.stop)
            steps.push_async_callback(self._replicas.close)
            steps.push_async_callback(self._cluster.close)
            steps.push_async_callback(self._replicas.settle)
            steps.push_async_callback(self._housekeeping.stop)
            steps.push_async_callback(self._cleaning.stop)
            steps.push_async_callback(self._scrubbing.stop)
            steps.push_async_callback(self._healing.close)
            # Those who wait for others of their group learn that they must look elsewhere.
            self._coordinators.close()
            await self._replication.close()
            self._replicas.wake_fetches()
            await self._listener.stop(GRACE_S)
            await self._links.close()

    async def abandon(self) -> None:
        """Stop as a killed process would: nothing is saved that was not saved already."""
        await self._health_listener.stop()
        self._following.stop()
        self._lease.close()
        self._coordinators.close()
        await self._healing.close()
        await self._replication.close()
        await self._listener.stop(0)
        await self._links.close()
        await self._scrubbing.stop()
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
