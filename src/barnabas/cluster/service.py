"""The cluster as one broker takes part in it: what is so, and how it is changed."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from barnabas.cluster.changes import Decision
from barnabas.cluster.configs import (
    AlterResult,
    FullChange,
    IncrementalChange,
    decide_full,
    decide_incremental,
)
from barnabas.cluster.controller import (
    ElectionResult,
    could_hand_over,
    decide_elect_leaders,
    with_elections,
)
from barnabas.cluster.entrance import prepare_store
from barnabas.cluster.errors import NotControllerError, StateChangedError
from barnabas.cluster.following import Following
from barnabas.cluster.image import BrokerNode, Image, PartitionState, Topic
from barnabas.cluster.isr import IsrChange
from barnabas.cluster.membership import Membership
from barnabas.cluster.office import RETRY_S, Office
from barnabas.cluster.producer_ids import take_block
from barnabas.cluster.quarantine import Loss, quarantine
from barnabas.cluster.reading import Reading
from barnabas.cluster.reassignment import Reassignment, ReassignmentResult, decide_reassignments
from barnabas.cluster.remote import RemoteController
from barnabas.cluster.restarting import Restart
from barnabas.cluster.topics import (
    NewPartitions,
    NewTopic,
    TopicResult,
    decide_create,
    decide_create_partitions,
    decide_delete,
)
from barnabas.cluster.view import Listener, View
from barnabas.config.broker_config import BrokerConfig
from barnabas.model import limits
from barnabas.model.check import BrokenInvariantError
from barnabas.model.errors import BarnabasError, ErrorCode
from barnabas.model.stops import Stop
from barnabas.ports.clock import Clock
from barnabas.ports.coordination import Coordination, CoordinationError, CoordinationLostError
from barnabas.ports.entropy import Entropy

__all__ = ["Cluster", "Listener", "NotControllerError", "RemoteController", "StateChangedError"]

R = TypeVar("R")
T = TypeVar("T")

LEAVE_S_MAX: Final = 10.0
"""How long a stopping broker waits for others to take over what it leads."""

FOLLOW_S_MAX: Final = 5.0
"""How long a topic that another broker has made may take to be known here."""

CLOSE_S_MAX: Final = 5.0
"""How long a closing broker waits for a store that does not answer."""

_log = logging.getLogger(__name__)


def _only_log(_reason: str) -> None:
    """What has failed is in the log already."""


class Cluster:
    """One broker's part in a cluster of brokers, which may be the only one.

    What is stored becomes the image, and a commit that fails changes neither. Calls that change
    something finish even when the caller is cancelled.
    """

    def __init__(
        self,
        coordination: Coordination,
        config: BrokerConfig,
        entropy: Entropy,
        clock: Clock,
        partitions_max: int = limits.PARTITIONS_PER_BROKER_MAX,
        remote: RemoteController | None = None,
        failed: Callable[[str], None] = _only_log,
    ) -> None:
        """`failed` is told, in a sentence, that this broker can be no part of it any more."""
        self.node_id = config.node_id
        self._coordination = coordination
        self._config = config
        self._entropy = entropy
        self._clock = clock
        self._partitions_max = partitions_max
        self._remote = remote
        self._tell_failed = failed
        self._view = View()
        contested = config.cluster.zookeeper_connect is not None
        self._office = Office(coordination, config.node_id, clock, contested=contested)
        self._reading = Reading(coordination, config.node_id, config)
        self._restart = Restart(coordination, self._reading, config.node_id)
        self._stop = Stop.CLEAN
        self.has_new_directory = False
        """Whether this broker has kept its logs elsewhere before, and lost them all."""
        self._has_joined = False
        self._membership: Membership | None = None
        self._following: Following | None = None
        self._allocating = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()

    @property
    def image(self) -> Image:
        """The cluster as it is known here now. Read it anew after every await."""
        return self._view.image

    @property
    def is_started(self) -> bool:
        """Whether there is an image."""
        return self._view.is_loaded

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._office.held

    @property
    def complaint(self) -> str:
        """What keeps this broker from following the cluster, if it has for long; else nothing."""
        return self._following.complaint if self._following is not None else ""

    @property
    def broker_epoch(self) -> int:
        """The number of this broker's registration; higher each time."""
        return self._membership.node.epoch if self._membership else 0

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with each change once it is stored and in the image, in order.

        The call that made a change here returns when all that listeners have returned is done;
        other changes do not wait for that. A listener must not raise: the change is done already.
        """
        self._view.subscribe(listener)

    def in_touch(self) -> bool:
        """Whether this broker may still act as a member: past this lease others may have taken
        over what it leads."""
        return self.lease_left_s() > 0

    def lease_left_s(self) -> float:
        """For how long that holds, if nothing more is heard of the store; 0: it does not."""
        following = self._following
        if following is None or not following.joined:
            return 0.0
        lease_s = self._coordination.session_timeout_s * 2 / 3
        return max(self._coordination.proven_s() + lease_s - self._clock.monotonic(), 0.0)

    def on_session_event(self, told: Callable[[], None]) -> None:
        """Call `told` when the session with the store is broken, mended or over."""
        self._coordination.listen(lambda _event: told())

    async def start(
        self,
        host: str,
        port: int,
        *,
        directory: str,
        stop: Stop,
        cluster_id: str | None = None,
    ) -> None:
        """`load` and `join`, for a broker that has nothing to do in between."""
        await self.load(host, port, directory=directory, stop=stop, cluster_id=cluster_id)
        await self.join()

    async def load(
        self,
        host: str,
        port: int,
        *,
        directory: str,
        stop: Stop,
        cluster_id: str | None = None,
    ) -> None:
        """Open a session and load what is stored. This broker is no part of it yet: nobody elects
        it, whatever it still has to do with its logs.

        `directory` is the id of the data directory, `cluster_id` the cluster it belongs to, if to
        any. After a `stop` that was not clean its leaders begin new epochs (KIP-320); after a
        lossy one, logs may lack their tails, so first this broker leaves every ISR that has other
        members.
        """
        node = BrokerNode(self.node_id, host, port, self._config.broker_rack)
        self._membership = Membership(self._coordination, self._clock, node, directory)
        self._following = Following(
            self._coordination,
            self._view,
            self._reading,
            self._office,
            self._membership,
            self._tell_failed,
        )
        await self._persist(lambda: self._enter(stop=stop, cluster_id=cluster_id))

    async def join(self) -> None:
        """Register under the address clients reach this broker by, become the controller if nobody
        is, and keep up with the others from now on. Listeners hear of what has changed since
        `load`."""
        following = self._started()
        await self._persist(lambda: self._register(following))
        self._has_joined = True
        following.begin()

    async def _persist(self, attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Every step may be taken again, when the answer to it was lost."""
        deadline = self._clock.monotonic() + 3 * self._coordination.session_timeout_s
        while True:
            try:
                await self._started().open()
                await attempt()
            except (CoordinationLostError, NotControllerError) as error:
                if self._clock.monotonic() > deadline:
                    raise BarnabasError(
                        f"The cluster's store does not answer, so broker {self.node_id} can not "
                        f"start: {error}."
                    ) from error
                await asyncio.sleep(RETRY_S)
            except CoordinationError as error:
                raise BarnabasError(
                    f"The cluster's store refuses broker {self.node_id}: {error}."
                ) from error
            else:
                return

    async def _enter(self, *, stop: Stop, cluster_id: str | None) -> None:
        membership = self._membership
        if membership is None:
            raise BrokenInvariantError("the cluster has not been started")
        is_shared = self._config.cluster.zookeeper_connect is not None
        await prepare_store(self._coordination, self._entropy, cluster_id, is_shared=is_shared)
        self.has_new_directory = await membership.is_new_directory()
        self._stop = Stop.LOSSY if self.has_new_directory else stop
        if self._stop is not Stop.CLEAN:
            await membership.retire()
            await self._restart.carry_out(self._stop)
        await self._started().load()

    async def _register(self, following: Following) -> None:
        await following.join()
        if self._stop is Stop.CLEAN and self._restart.is_needed(self.image):
            await self._restart.carry_out(Stop.CLEAN)
            await following.join()

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, hand_on: bool = True
    ) -> list[TopicResult]:
        """One result for each different name, in the order of first mention.

        `hand_on`: where another broker is the controller, it is asked to, if there is a way to it.
        """
        remote = self._remote if hand_on and not validate_only else None
        if remote is not None and not self._office.held:
            return await self._to_the_end(self._create_elsewhere(remote, topics))
        return await self._change(
            lambda image: decide_create(
                image, topics, self._entropy, self._office.epoch, self._partitions_max
            ),
            validate_only,
        )

    async def delete_topics(self, topics: Sequence[str | uuid.UUID]) -> list[TopicResult]:
        """One result for each different name or topic id, in the order of first mention."""
        return await self._change(lambda image: decide_delete(image, topics))

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> list[TopicResult]:
        """One result for each different topic, in the order of first mention."""
        return await self._change(
            lambda image: decide_create_partitions(
                image, topics, self._entropy, self._office.epoch, self._partitions_max
            ),
            validate_only,
        )

    async def alter_configs(
        self, changes: Sequence[FullChange], *, validate_only: bool = False
    ) -> list[AlterResult]:
        """Replace all settings of each resource; one result for each change, in order."""
        return await self._alter(
            lambda image: decide_full(image, changes, self.node_id), validate_only
        )

    async def incremental_alter_configs(
        self, changes: Sequence[IncrementalChange], *, validate_only: bool = False
    ) -> list[AlterResult]:
        """Edit single settings; one result for each change, in order."""
        return await self._alter(
            lambda image: decide_incremental(image, changes, self.node_id), validate_only
        )

    async def elect_leaders(
        self, partitions: Sequence[tuple[str, int]] | None, *, unclean: bool = False
    ) -> list[ElectionResult]:
        """Elect preferred leaders, or leaders that may lack records where there is none at all.

        One result for each different partition; for None (all) only those that needed it.
        """
        return await self._change(
            lambda image: decide_elect_leaders(
                image, partitions, self._office.epoch, unclean=unclean
            )
        )

    async def reassign(
        self, wanted: Sequence[Reassignment], *, keeps_factor: bool = False
    ) -> list[ReassignmentResult]:
        """Begin to move partitions to other brokers, or take that back; one result for each, in
        order, once it is stored. The moves themselves take as long as the copying does."""
        return await self._change(
            lambda image: decide_reassignments(
                image,
                wanted,
                self._office.epoch,
                keeps_factor=keeps_factor,
                partitions_max=self._partitions_max,
            )
        )

    async def alter_isr(
        self,
        topic: Topic,
        number: int,
        state: PartitionState,
        isr: tuple[int, ...],
        *,
        fetched_as: Mapping[int, int] | None = None,
    ) -> PartitionState:
        """Replace the in-sync replicas of a partition, as its leader; the state that is stored now.

        `fetched_as`: by which broker epochs those who join had fetched. Raises StateChangedError
        when the stored state is not `state`; INELIGIBLE_REPLICA when it is, and one who joins is
        not alive (or alive anew); UNKNOWN_TOPIC_OR_PARTITION when the topic is gone; and
        CoordinationLostError when it is not known what became of it: until one of the others is
        known, or the image has a newer state, both the old and the new ISR must be counted on.
        """
        change = IsrChange.of(self.image, topic, number, state, isr, fetched_as or {})
        return await self._to_the_end(self._alter_isr(change))

    async def quarantine(
        self, topic: Topic, number: int, loss: Loss = Loss.SOME
    ) -> PartitionState | None:
        """Count no more as a replica of a partition whose log is damaged here, and lead it no more;
        the state that is stored now.

        None: nobody else is known to have all that is committed, so this broker stays what it is.
        Raises UNKNOWN_TOPIC_OR_PARTITION when the topic is gone, and CoordinationLostError when it
        is not known what became of it: then it may be asked for again.
        """
        return await self._to_the_end(
            quarantine(
                self._view,
                self._coordination,
                self._open_session,
                (topic, number),
                self.node_id,
                loss,
            )
        )

    async def leave(self) -> None:
        """Let others take over what this broker leads, as far as they can and in some seconds."""
        if self._following is None or not self.is_started:
            return
        brokers = self.image.brokers.values()
        if all(each.id == self.node_id or each.leaving for each in brokers):
            return
        try:
            await asyncio.wait_for(self._hand_over(self._following), LEAVE_S_MAX)
        except TimeoutError:
            _log.warning("Nobody took over all that this broker leads.")
        except CoordinationError as error:
            _log.warning("Nobody could be told that this broker leaves: %s", error)

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids nobody was given before, or will be given again."""
        return await self._to_the_end(self._allocate())

    async def close(self) -> None:
        """Finish what has begun, then end the session: this broker is registered no more."""
        if self._following is not None:
            await self._following.end(CLOSE_S_MAX)
        await self._coordination.close()

    async def resign(self) -> None:
        """The disk has failed: finish nothing, and end the session, so that others take over."""
        self.abandon()
        if self._membership is not None:
            await self._membership.distrust()
        await self._coordination.close()

    def abandon(self) -> None:
        """Stop at once, as a killed process would: nothing is finished, nobody is told."""
        if self._following is not None:
            self._following.stop()
        for task in self._running:
            task.cancel()

    async def _alter(
        self, decide: Callable[[Image], Decision[AlterResult]], validate_only: bool
    ) -> list[AlterResult]:
        return await self._change(
            lambda image: with_elections(decide(image), image, self._office.epoch), validate_only
        )

    async def _change(
        self, decide: Callable[[Image], Decision[R]], validate_only: bool = False
    ) -> list[R]:
        return await self._to_the_end(self._decide_and_tell(decide, validate_only))

    async def _decide_and_tell(
        self, decide: Callable[[Image], Decision[R]], validate_only: bool
    ) -> list[R]:
        results, told = await self._started().change(decide, validate_only=validate_only)
        for following in told:
            await following
        return results

    async def _create_elsewhere(
        self, remote: RemoteController, topics: Sequence[NewTopic]
    ) -> list[TopicResult]:
        controller = self.image.brokers.get(self.image.controller_id)
        if controller is None or controller.id == self.node_id:
            raise NotControllerError
        results = await remote.create_topics(controller, topics)
        made = [
            each.name
            for each in results
            if each.name and each.code in (ErrorCode.none, ErrorCode.topic_already_exists)
        ]
        known = self._view.until(lambda image: all(name in image.topics for name in made))
        try:
            await asyncio.wait_for(known, FOLLOW_S_MAX)
        except TimeoutError:
            _log.warning("Topics that were made by the controller are not known here yet.")
        return results

    async def _alter_isr(self, change: IsrChange) -> PartitionState:
        following = self._started()
        mark = following.next_mark()
        try:
            after = await change.commit(self._coordination, mark)
        except StateChangedError as error:
            self._view.found_state(change.topic, change.number, error.actual)
            raise
        if not after.is_moving and self.image.are_staying(after.isr):
            # (Otherwise this broker, if it is the controller, must look: a move may be complete
            # now, or a member gone since the controller looked last.)
            following.is_done(mark)
        self._view.found_state(change.topic, change.number, after)
        return after

    async def _open_session(self) -> None:
        if not self._has_joined:  # Logs may take longer to open than a session lives.
            await self._started().open()

    async def _hand_over(self, following: Following) -> None:
        while True:
            try:
                await following.announce_leaving()
                break
            except CoordinationLostError:
                await asyncio.sleep(RETRY_S)
        await self._view.until(lambda image: not could_hand_over(image, self.node_id))

    async def _allocate(self) -> range:
        async with self._allocating:
            return await take_block(self._coordination, self.node_id)

    def _started(self) -> Following:
        if self._following is None:
            raise BrokenInvariantError("the cluster has not been started")
        return self._following

    async def _to_the_end(self, work: Coroutine[Any, Any, T]) -> T:
        """A caller that goes away (a closed connection) must not stop a commit half way between
        store and image."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        """The error is the caller's to see to, who may have gone."""
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.debug("A change of the cluster was not made: %r", task.exception())
