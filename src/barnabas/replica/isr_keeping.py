"""Followers join and leave the ISR: the leader notices, and has it written into the store.

One write of a partition at a time. While its outcome is unknown it is repeated: the store compares
versions, so it is done once, and until then old and new members count alike.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from barnabas.cluster.errors import StateChangedError
from barnabas.cluster.image import BrokerNode, PartitionState, Topic
from barnabas.model.errors import KafkaError
from barnabas.ports.coordination import CoordinationError, CoordinationLostError
from barnabas.replica.in_sync import InSync
from barnabas.replica.partition import Partition
from barnabas.replica.service import HostedTopic, Replicas

logger = logging.getLogger(__name__)

_AGAIN_S: Final = 0.5
"""After a write whose outcome is unknown."""


class IsrStore(Protocol):
    """Where ISRs are kept."""

    async def alter_isr(
        self,
        topic: Topic,
        number: int,
        state: PartitionState,
        isr: tuple[int, ...],
        *,
        fetched_as: Mapping[int, int],
    ) -> PartitionState:
        """The state with another ISR, once it is stored; `fetched_as` are the lives in which those
        who join have caught up. StateChangedError: another state is stored; KafkaError and
        CoordinationError: nothing was done; CoordinationLostError: who knows."""
        ...


class IsrKeeping:
    """The ISRs of all partitions that this broker leads."""

    def __init__(
        self,
        store: IsrStore,
        replicas: Replicas,
        brokers: Callable[[], Mapping[int, BrokerNode]],
        lag_max_s: Callable[[], float],
    ) -> None:
        self._store = store
        self._replicas = replicas
        self._brokers = brokers
        self._lag_max_s = lag_max_s
        self._writes: dict[Partition, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def start(self) -> None:
        """Begin to look for followers that lag."""
        self._again()

    def _again(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._lag_max_s() / 2, self._look)

    def _look(self) -> None:
        self._again()
        now_s = asyncio.get_running_loop().time()
        for partition in self._replicas:
            self._shrink(partition, now_s)

    def _shrink(self, partition: Partition, now_s: float) -> None:
        in_sync = partition.in_sync
        if in_sync is None or not partition.leads:
            # (Without a lease followers are turned away: that they lag is no fault of theirs.)
            return
        if in_sync.proposed is not None:
            # A write that a defect has ended: whether it was done must be found out.
            self._propose(partition, in_sync, in_sync.proposed)
            return
        isr = in_sync.shrunk(partition.log.end_offset, now_s, self._lag_max_s())
        if isr is not None:
            self._propose(partition, in_sync, isr)
            return
        if in_sync.state.eligible and in_sync.has_enough_by(
            partition.log.config.min_insync_replicas
        ):
            # Mostly the controller does so. It does not where it was started with another minimum.
            self._propose(partition, in_sync, in_sync.state.isr)
            return
        for broker in in_sync.outsiders(now_s, self._lag_max_s()):
            # It may have caught up while it was not registered yet, and not fetched since.
            self.progressed(partition, broker)

    def progressed(self, partition: Partition, broker: int) -> None:
        """A follower outside of the ISR has fetched."""
        in_sync = partition.in_sync
        if in_sync is None:
            return
        isr = in_sync.grown(broker, partition.high_watermark, self._brokers())
        if isr is not None:
            self._propose(partition, in_sync, isr)

    def _propose(self, partition: Partition, in_sync: InSync, isr: tuple[int, ...]) -> None:
        if self._closed or partition in self._writes:
            return
        in_sync.propose(isr)
        write = self._write(partition, in_sync, isr)
        task = self._writes[partition] = asyncio.get_running_loop().create_task(write)
        task.add_done_callback(lambda done: self._written(partition, done))

    def _written(self, partition: Partition, task: "asyncio.Task[None]") -> None:
        if self._writes.get(partition) is task:
            del self._writes[partition]
        if not task.cancelled() and (error := task.exception()) is not None:
            # Both ISRs count until the next look, which tries again.
            logger.error("an ISR could not be written: %s", error, exc_info=error)

    async def _write(self, partition: Partition, in_sync: InSync, isr: tuple[int, ...]) -> None:
        name = partition.log.partition.directory
        is_unknown = False
        while partition.in_sync is in_sync and (hosted := self._hosted(partition)) is not None:
            state, number = in_sync.state, partition.log.partition.partition
            joining = in_sync.epochs_of([each for each in isr if each not in state.isr])
            try:
                stored = await self._store.alter_isr(
                    hosted.topic, number, state, isr, fetched_as=joining
                )
            except StateChangedError as error:
                stored = error.actual
            except CoordinationLostError as error:
                is_unknown = True
                logger.warning("whether the ISR of %s is %s is not known: %s", name, isr, error)
                await asyncio.sleep(_AGAIN_S)
                continue
            except (KafkaError, CoordinationError) as error:
                logger.warning("the ISR of %s is not made %s: %s", name, isr, error)
                if not is_unknown:
                    in_sync.refused()
                    self._catch_up(partition, in_sync)
                    return
                # An attempt before it may still be on its way. Writing what is there already takes
                # its version away from it.
                isr = state.isr
                await asyncio.sleep(_AGAIN_S)
                continue
            self._settle(partition, in_sync, stored)
            return

    def _hosted(self, partition: Partition) -> HostedTopic | None:
        """The partition's topic, unless that is gone or another one of its name."""
        name, number = partition.log.partition
        hosted = self._replicas.by_name.get(name)
        is_here = hosted is not None and hosted.partitions.get(number) is partition
        return hosted if is_here else None

    def _settle(self, partition: Partition, in_sync: InSync, stored: PartitionState) -> None:
        if partition.in_sync is not in_sync or stored.leader_epoch != in_sync.state.leader_epoch:
            # This broker leads no more, or in another epoch, and will hear of it. Until then both
            # ISRs count.
            return
        in_sync.update(stored, asyncio.get_running_loop().time())
        self._catch_up(partition, in_sync)

    @staticmethod
    def _catch_up(partition: Partition, in_sync: InSync) -> None:
        """The controller may have written something of which we heard before our own answer."""
        if in_sync.is_news(partition.state):
            in_sync.update(partition.state, asyncio.get_running_loop().time())
        partition.advance()

    async def close(self) -> None:
        """No more writes."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        writes = list(self._writes.values())
        for task in writes:
            task.cancel()
        if writes:
            await asyncio.wait(writes)
