"""Damaged replicas are quarantined and copied anew from their leaders.

First the damage is noted in the folder, then the replica stops to count (by a write to the store
that holds whatever others believe), then its folder gets another name and an empty log is begun,
which follows the leader as any new replica does. Whatever ends this half way, the next start finds
a replica that does not count, or the note. A replica that nobody else can stand in for stays what
it is, and serves what is sound. But one that was found damaged at start waits for the others, also
while none of them is there: it may lack what they have, and they would follow it.
"""

import asyncio
import errno
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from barnabas.cluster.elections import able
from barnabas.cluster.image import NO_LEADER, PartitionState, Topic
from barnabas.cluster.quarantine import Loss
from barnabas.cluster.service import Cluster
from barnabas.log.recovery import DamagedLogError
from barnabas.model.errors import KafkaError
from barnabas.model.topics import TopicPartition
from barnabas.ports.coordination import CoordinationError, CoordinationLostError
from barnabas.ports.work import Lane, Work
from barnabas.replica.committing import Committing
from barnabas.replica.service import HostedTopic, Replicas

logger = logging.getLogger(__name__)

_AGAIN_S: Final = 1.0
"""While the store does not answer, or nobody can take over."""


@dataclass(slots=True, eq=False)
class _Case:
    """One damaged partition."""

    hosted: HostedTopic
    number: int
    what: str
    is_useless: bool
    """Nothing of it can be served, so it goes whoever else is there."""
    is_renewable: bool
    """It is worth to begin anew where it lies."""
    waits: bool
    """It does not count until others are there who could take over from it."""
    tried: "asyncio.Future[None]"
    """Done once it was seen whether it can go."""

    @property
    def name(self) -> TopicPartition:
        return TopicPartition(self.hosted.topic.name, self.number)


class Healing:
    """The damaged partitions of one broker."""

    def __init__(self, cluster: Cluster, replicas: Replicas, work: Work) -> None:
        self._cluster = cluster
        self._replicas = replicas
        self._work = work
        self._cases: dict[TopicPartition, _Case] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._closed = False
        replicas.on_unopened(self._unopened)

    # --- at start ------------------------------------------------------------------------------

    async def leave_lost(self, topics: Iterable[Topic]) -> None:
        """Before logs are opened: where not even a folder is left, this broker does not count.

        Were an empty log opened first, a broker that has nothing would be one that has all, and
        others would throw away what they have, to be like it.
        """
        for topic, number in await self._replicas.lost(topics):
            state, me = topic.partitions[number], self._cluster.node_id
            counts = me in (*state.isr, *state.eligible)
            is_lost = self._had(TopicPartition(topic.name, number))
            if len(state.replicas) > 1 and (counts or (is_lost and state.leader == NO_LEADER)):
                loss = Loss.EVERYTHING if is_lost else Loss.ALL_OF_USE
                try:
                    after = await self._quarantine(topic, number, loss)
                except KafkaError as error:
                    # Nobody follows yet what happens to topics: this one was deleted meanwhile.
                    logger.warning("%s-%d does not count: %s", topic.name, number, error)
                else:
                    if is_lost or after is not None:
                        _tell_lost(topic, number, after or state)

    def _had(self, partition: TopicPartition) -> bool:
        """Whether there was a log here. All brokers may die between the creation of a topic and
        that of its folders: then nobody has lost anything, and nobody has to be waited for."""
        return self._cluster.has_new_directory or self._replicas.store.has_noted(partition)

    async def settle_opened(self) -> None:
        """After logs were opened, and before this broker takes part: those that turned out to be
        damaged do not count any more, unless nobody else does."""
        for partition in list(self._replicas):
            if partition.log.damage is not None:
                self.noticed(partition, partition.log.damage, at_start=True)
            elif self._cluster.node_id in partition.state.emptied:
                await self._found(partition)
        waiting = [case.tried for case in self._cases.values()]
        if waiting:
            await asyncio.wait(waiting)

    async def _found(self, partition: Committing) -> None:
        """A log that was gone is there again: its disk had not been mounted, for instance. As long
        as nobody has led since then, it is what it was."""
        name, log = partition.log.partition, partition.log
        hosted = self._replicas.by_name.get(name.topic)
        if hosted is None or log.end_offset == 0:
            return  # (That is the log that was begun when nothing was there.)
        logger.warning("%s is there again, up to offset %d", name.directory, log.end_offset)
        try:
            await self._quarantine(hosted.topic, name.partition, Loss.NOTHING)
        except KafkaError as error:
            logger.warning("%s does not count: %s", name.directory, error)

    # --- noticing ------------------------------------------------------------------------------

    def noticed(self, partition: Committing, what: str, *, at_start: bool = False) -> bool:
        """A log that is served is damaged. Whether others can serve it instead."""
        name = partition.log.partition
        hosted = self._replicas.by_name.get(name.topic)
        if hosted is None or hosted.partitions.get(name.partition) is not partition:
            return True  # It is not served any more: who has asked, asks again.
        if len(hosted.topic.partitions[name.partition].replicas) == 1 or self._closed:
            return False
        if name not in self._cases:
            logger.error("%s is damaged: %s", name.directory, what)
            partition.log.damage = what
            self._begin(hosted, name.partition, what, is_useless=False, waits=at_start)
        return self._has_others(hosted, name.partition)

    def _unopened(self, hosted: HostedTopic, number: int, error: Exception) -> None:
        if len(hosted.topic.partitions[number].replicas) > 1 and not self._closed:
            broken = isinstance(error, OSError) and error.errno == errno.EIO
            renewable = broken or isinstance(error, DamagedLogError)
            self._begin(hosted, number, str(error), is_useless=True, is_renewable=renewable)

    def _has_others(self, hosted: HostedTopic, number: int) -> bool:
        state, brokers = hosted.topic.partitions[number], self._cluster.image.brokers
        others = {*state.isr, *state.eligible} - {self._cluster.node_id}
        return any(each in brokers and not brokers[each].leaving for each in others)

    # --- healing -------------------------------------------------------------------------------

    def _begin(
        self,
        hosted: HostedTopic,
        number: int,
        what: str,
        *,
        is_useless: bool,
        is_renewable: bool = True,
        waits: bool = False,
    ) -> None:
        loop = asyncio.get_running_loop()
        tried = loop.create_future()
        case = _Case(hosted, number, what, is_useless, is_renewable, waits, tried)
        self._cases[case.name] = case
        task = loop.create_task(self._heal(case))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._ended(case, done))

    def _ended(self, case: _Case, task: "asyncio.Task[None]") -> None:
        del self._tasks[task]
        if self._cases.get(case.name) is case:
            del self._cases[case.name]
        if not case.tried.done():
            case.tried.set_result(None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("%s is not healed: %s", case.name.directory, error, exc_info=error)

    async def _heal(self, case: _Case) -> None:
        await self._note(case)
        if not await self._leave(case) or not case.is_renewable:
            return
        while (
            case.waits and self._lives_here(case) and not self._has_others(case.hosted, case.number)
        ):
            await asyncio.sleep(_AGAIN_S)
            # (Somebody may have had it elected all the same.)
            if self._counts(case) and not await self._leave(case):
                return
        if not self._lives_here(case):
            return
        kept = await self._replicas.begin_anew(case.hosted, case.number)
        if kept is not None:
            logger.warning(
                "%s is copied anew from its leader; what was damaged is kept in %s until somebody "
                "removes it",
                case.name.directory, kept,
            )  # fmt: skip

    async def _note(self, case: _Case) -> None:
        partition = case.hosted.partitions.get(case.number)
        if partition is None:
            return
        store, log = self._replicas.store, partition.log
        try:
            await self._work.run(lambda: store.note_damage(log, case.what), Lane.CHORE)
        except OSError as error:
            logger.error("the damage of %s can not be noted: %s", case.name.directory, error)

    async def _leave(self, case: _Case) -> bool:
        """Whether the replica counts no more; False: nobody wants it."""
        is_told = False
        while self._lives_here(case):
            topic, is_part = case.hosted.topic, not (case.is_useless or case.waits)
            try:
                loss = Loss.SOME if is_part else Loss.ALL_OF_USE
                if await self._quarantine(topic, case.number, loss):
                    return True
            except KafkaError:
                return False
            finally:
                if not case.tried.done():
                    case.tried.set_result(None)
            if not is_told:
                is_told = True
                logger.warning(
                    "%s has no other replica in sync: this one stays, and serves what is sound",
                    case.name.directory,
                )
            await asyncio.sleep(_AGAIN_S)
        return False

    def _lives_here(self, case: _Case) -> bool:
        """Whether the topic was not deleted, nor the partition moved to other brokers."""
        return self._replicas.hosts(case.hosted.topic) and case.hosted.is_mine(case.number)

    def _counts(self, case: _Case) -> bool:
        state = case.hosted.topic.partitions[case.number]
        return self._cluster.node_id in (*state.isr, *state.eligible)

    async def _quarantine(self, topic: Topic, number: int, loss: Loss) -> PartitionState | None:
        while True:
            try:
                after = await self._cluster.quarantine(topic, number, loss)
            except CoordinationLostError as error:
                logger.warning(
                    "whether %s-%d counts no more is not known: %s", topic.name, number, error
                )
            except CoordinationError as error:
                logger.warning("%s-%d still counts: %s", topic.name, number, error)
            else:
                return after
            await asyncio.sleep(_AGAIN_S)

    async def close(self) -> None:
        """Begin nothing more. What is half done, the next start does anew."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _tell_lost(topic: Topic, number: int, now: PartitionState) -> None:
    if able(now):
        logger.error("%s-%d is gone from the data directory; it is copied anew", topic.name, number)
        return
    logger.error(
        "%s-%d is gone from the data directory, and nobody else has all that was acknowledged: "
        "nobody leads it. If its files can be had again, stop this broker, put them back and start "
        "it. Otherwise elect one of the others (%s), which may lack records: ElectLeaders with the "
        "type UNCLEAN, as kafka-leader-election.sh does",
        topic.name, number,
        ", ".join(str(each) for each in now.replicas if each not in now.emptied) or "none is left",
    )  # fmt: skip
