"""Followers copy their leaders' logs: one task for each broker that leads something followed here.

A fetch says where our log ends and in which epoch its last batch was written. The leader answers
with what comes next, or, where the two logs have parted, with the place up to which they may agree
(KIP-595): so nothing is copied onto a log that does not match, and nothing is cut off that might
be committed. Requests and answers are of one leader epoch, and worth nothing in another (KIP-320).
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from barnabas.cluster.image import BrokerNode
from barnabas.config.keys import LONG_MAX
from barnabas.link.aio import Link
from barnabas.link.reaching import reach
from barnabas.model.errors import DecodeError
from barnabas.model.topics import TopicPartition
from barnabas.ports.clock import Clock
from barnabas.replica.copying import Copier, is_unsynced, question
from barnabas.replica.fetch_session import FollowerSession
from barnabas.replica.partition import Partition
from barnabas.replica.throttle import Throttle, is_listed
from barnabas.wire.fetch import FetchPartition, FetchPartitionResult, FetchRequest
from barnabas.wire.fetch_client import FetchResponse

logger = logging.getLogger(__name__)

FETCH_VERSION: Final = 18
_BACKOFF_S: Final = 1.0
"""As Kafka's `replica.fetch.backoff.ms`: for a leader that can not be reached, or a partition that
it does not lead (any more)..."""
_FIRST_BACKOFF_S: Final = 0.02
"""... yet. Mostly it is about to hear of that, and whoever writes with acks=all waits meanwhile: so
the first times are shorter."""
_PATIENCE_S: Final = 30.0
_SYNC_S: Final = 0.5
"""How long all partitions wait for those that have to be synced before they can say what they
have. Without that, these would have to wait for the next answer about the others, which a leader
without news holds back for as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """How much is asked for at once."""

    wait_ms: int = 500
    min_bytes: int = 1
    partition_bytes: int = 1024 * 1024
    response_bytes: int = 10 * 1024 * 1024
    throttled_rate: int = LONG_MAX
    """Bytes a second of replicas that are held down to it."""


@dataclass(slots=True, eq=False)
class Followed:
    """One partition that is copied."""

    partition: Partition
    topic_id: bytes
    leader_epoch: int
    not_before_s: float = 0.0
    """It is left out of requests until then."""
    backoff_s: float = _FIRST_BACKOFF_S
    """For how long, when it comes to that again."""
    syncing: "asyncio.Future[None] | None" = None
    """It is left out of requests until that is done."""

    @property
    def name(self) -> TopicPartition:
        """Which it is."""
        return self.partition.log.partition

    def wanted(self, max_bytes: int) -> FetchPartition:
        """The next piece of its log."""
        return question(self.partition, self.leader_epoch, max_bytes)


class Fetcher:
    """Copies from one broker, over one connection, for as long as there is something to copy."""

    def __init__(
        self,
        leader: int,
        find: Callable[[int], BrokerNode | None],
        who: Callable[[], tuple[int, int]],
        copier: Copier,
        clock: Clock,
        settings: Callable[[], FetchSettings],
        throttle: Throttle | None = None,
    ) -> None:
        """`throttle` counts what is copied from all brokers."""
        self._leader = leader
        self._find = find
        self._who = who
        self._copier = copier
        self._clock = clock
        self._settings = settings
        self._throttle = throttle or Throttle()
        self._followed: dict[TopicPartition, Followed] = {}
        self._changed = asyncio.Event()
        self._link: Link | None = None
        self._session = FollowerSession()
        self._complained = ""
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to copy."""
        return not self._followed

    def add(self, followed: Followed) -> None:
        """Copy this, too."""
        self._followed[followed.name] = followed
        self._changed.set()

    def remove(self, name: TopicPartition) -> None:
        """Do not copy that any more. What is on its way is of no use then."""
        self._followed.pop(name, None)

    async def close(self) -> None:
        """Stop at once."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            while True:
                try:
                    await self._copy_some()
                except (OSError, DecodeError) as error:
                    self._complain(f"copying from broker {self._leader} failed: {error}")
                    await self._pause()
                except Exception:
                    logger.exception("a defect in copying from broker %d", self._leader)
                    await self._pause()
        finally:
            await self._hang_up()

    async def _pause(self) -> None:
        await self._hang_up()
        await asyncio.sleep(_BACKOFF_S)

    async def _copy_some(self) -> None:
        """One request and what comes of it; or a wait for something to ask for."""
        now_s = self._clock.monotonic()
        ready = self._ready(now_s)
        if not ready:
            await self._wait(now_s)
            return
        link = self._link
        if link is None or not link.is_open:
            self._session.forget()
            link = self._link = await self._connect()
        response = await link.fetch(FETCH_VERSION, self._request(ready))
        if self._session.answered(response.error, response.session_id):
            return
        if response.error:
            raise DecodeError(f"it answers with error {response.error}")
        self._complained = ""
        self._take_all(ready, response)
        syncs = [each.syncing for each in ready if self._is_syncing(each) and each.syncing]
        if syncs:
            await asyncio.wait(syncs, timeout=_SYNC_S)

    def _take_all(self, asked: list[Followed], response: FetchResponse) -> None:
        by_name = {(each.topic_id, each.name.partition): each for each in asked}
        for topic in response.topics:
            for result in topic.partitions:
                followed = by_name.get((topic.topic_id or b"", result.index))
                if followed is not None and self._followed.get(followed.name) is followed:
                    self._take(followed, result)

    def _ready(self, now_s: float) -> list[Followed]:
        return [
            each
            for each in self._followed.values()
            if each.not_before_s <= now_s
            and not self._is_syncing(each)
            and not self._is_held_back(each, now_s)
        ]

    def _is_held_back(self, followed: Followed, now_s: float) -> bool:
        """Whether enough was copied of what is not in sync: then it is left out for a while."""
        if not self._is_throttled(followed) or self._who()[0] in followed.partition.state.isr:
            return False
        wait_s = self._throttle.wait_s(self._settings().throttled_rate, now_s)
        followed.not_before_s = now_s + wait_s
        return wait_s > 0

    def _is_throttled(self, followed: Followed) -> bool:
        listed = followed.partition.log.config.follower_replication_throttled_replicas
        return bool(listed) and is_listed(listed, followed.name.partition, self._who()[0])

    def _is_syncing(self, followed: Followed) -> bool:
        """Whether it has to wait for a sync; which is begun, if need be."""
        if followed.syncing is not None and not followed.syncing.done():
            return True
        followed.syncing = None
        if is_unsynced(followed.partition):
            followed.syncing = followed.partition.durable()
        if followed.syncing is None:
            return False
        followed.syncing.add_done_callback(self._is_synced)
        return True

    def _is_synced(self, done: "asyncio.Future[None]") -> None:
        if not done.cancelled():
            done.exception()  # Told to whoever stopped it, too.
        self._changed.set()

    async def _wait(self, now_s: float) -> None:
        """Until a partition comes, or one that was left out is to be tried again.

        `now_s`: the time at which none was ready. One whose time has come since is still waited
        for, if only for a moment; by a later time nobody would wait for it.
        """
        later = [each.not_before_s for each in self._followed.values() if each.not_before_s > now_s]
        try:
            async with asyncio.timeout(min(later) - now_s if later else None):
                await self._changed.wait()
                self._changed.clear()
        except TimeoutError:
            return

    async def _connect(self) -> Link:
        node = self._find(self._leader)
        if node is None:
            raise ConnectionError("it is not registered")
        return await reach(
            node.id, node.host, node.port, client_id="barnabas-replica", timeout_s=_PATIENCE_S
        )

    def _request(self, ready: list[Followed]) -> FetchRequest:
        settings = self._settings()
        me, broker_epoch = self._who()
        most = settings.partition_bytes
        asked = self._session.ask(
            {(each.topic_id, each.name.partition): each.wanted(most) for each in ready}
        )
        return FetchRequest(
            me,
            broker_epoch,
            settings.wait_ms,
            settings.min_bytes,
            settings.response_bytes,
            0,
            *asked,
        )

    def _take(self, followed: Followed, result: FetchPartitionResult) -> None:
        try:
            is_well = self._copier.take(followed.partition, followed.leader_epoch, result)
        except Exception:
            # The others must not suffer for it.
            logger.exception("a defect in copying %s", followed.name.directory)
            is_well = False
        if is_well:
            followed.backoff_s = _FIRST_BACKOFF_S
        else:
            followed.not_before_s = self._clock.monotonic() + followed.backoff_s
            followed.backoff_s = min(2 * followed.backoff_s, _BACKOFF_S)
        if result.records:
            if self._is_throttled(followed):
                rate, now_s = self._settings().throttled_rate, self._clock.monotonic()
                self._throttle.record(len(result.records), rate, now_s)
            # The last one next time: an answer has only so much room, and who has much to
            # copy must not starve the others.
            self._followed[followed.name] = self._followed.pop(followed.name)

    def _complain(self, sentence: str) -> None:
        """Once, not for every attempt."""
        if sentence != self._complained:
            self._complained = sentence
            logger.warning("%s", sentence)

    async def _hang_up(self) -> None:
        link, self._link = self._link, None
        self._session.forget()
        if link is not None:
            await link.close()
