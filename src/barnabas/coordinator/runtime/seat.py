"""One shard in office: it is loaded, has its turns, and is loaded anew when an append failed."""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Any, Final, Generic, TypeVar

from barnabas.cluster.image import Image, Topic
from barnabas.coordinator.runtime.batches import pack
from barnabas.coordinator.runtime.codec import Codec
from barnabas.coordinator.runtime.loading import read_back
from barnabas.coordinator.runtime.log import ShardLog
from barnabas.coordinator.runtime.shard import Shard, transactional
from barnabas.coordinator.runtime.turn import (
    Answer,
    Parked,
    TimerKey,
    TransactionalWrite,
    Turn,
    Waiter,
)
from barnabas.coordinator.runtime.waiting import Replies, Waiting, deliver
from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.model.transactions import Marker
from barnabas.ports.clock import Clock

logger = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S", bound=Shard[Any])

_LOAD_AGAIN_S: Final = 1.0
_LOAD_AGAIN_S_MAX: Final = 60.0


class Seat(Generic[R, S]):
    """A shard, its partition, its timers and those who wait for its answers."""

    def __init__(
        self,
        name: str,
        log: ShardLog,
        new_shard: Callable[[], S],
        codec: Codec[R],
        clock: Clock,
        image: Callable[[], Image],
    ) -> None:
        self.name = name
        self._log = log
        self._new_shard = new_shard
        self._codec = codec
        self._clock = clock
        self._image = image
        self._shard: S | None = None
        self._timers: dict[TimerKey, asyncio.TimerHandle] = {}
        self._waiting = Waiting()
        self._uncommitted: asyncio.Future[None] | None = None
        self._closed = False
        self._loading = asyncio.get_running_loop().create_task(self._load())

    # --- asking --------------------------------------------------------------------------------

    def ask(self, decide: Callable[[S, Turn[R], Waiter], T | Parked]) -> Answer[T]:
        """The answer, or a future of it when it has to wait for a commit or for others.

        Raises KafkaError when the request is refused.
        """
        shard = self._shard
        if shard is None:
            raise self._absence()
        waiter, turn = Waiter(), self._turn(shard)
        answer = self._decided(turn, lambda: decide(shard, turn, waiter))
        if turn.transactional is not None:
            self._write_in_transaction(shard, turn.transactional, turn.now_ms)
        if isinstance(answer, Parked):
            promised = self._waiting.wait(waiter)
            self._settle(turn)
            return promised
        if not self._settle(turn):
            raise KafkaError(ErrorCode.not_coordinator)
        return self._once_committed(waiter, answer)

    def end_transaction(self, marker: Marker) -> Answer[None]:
        """Write the end of a producer's transaction, and have the shard take it over.

        Raises KafkaError when the log refuses the marker: nothing has changed then.
        """
        shard = self._shard
        if shard is None:
            raise self._absence()

        def write() -> None:
            self._appended(self._log.append_marker(marker, self._clock.wall_ms()))
            transactional(shard).end_transaction(marker.producer_id, committed=marker.committed)

        self._log_first(write)
        return self._once_committed(Waiter(), None)

    def _once_committed(self, waiter: Waiter, answer: T) -> Answer[T]:
        if self._uncommitted is None:
            return answer
        promised = self._waiting.wait(waiter)
        self._deliver_once_committed([(waiter, answer)])
        return promised

    def _absence(self) -> KafkaError:
        if self._closed:
            return KafkaError(ErrorCode.not_coordinator)
        return KafkaError(ErrorCode.coordinator_load_in_progress)

    def _turn(self, shard: S) -> Turn[R]:
        clock = self._clock
        return Turn(
            clock.wall_ms(),
            int(clock.monotonic() * 1000),
            self._image(),
            shard.apply,
            self._log.leader_epoch,
        )

    def _decided(self, turn: Turn[R], decide: Callable[[], T]) -> T:
        """A refusal is an answer like any other; anything else that is raised is a defect, and
        what the shard holds now can not be trusted."""
        try:
            return decide()
        except KafkaError:
            if turn.records or turn.replies:
                logger.exception("%s refused what it had half done: it is loaded anew", self.name)
                self._drop(ErrorCode.not_coordinator)
            raise
        except Exception as error:
            logger.exception("a defect in %s: it is loaded anew", self.name)
            self._drop(ErrorCode.not_coordinator)
            raise KafkaError(ErrorCode.unknown_server_error, "A defect; see the log.") from error

    # --- doing what was decided ----------------------------------------------------------------

    def _settle(self, turn: Turn[R]) -> bool:
        """Whether everything that was decided is done, or will be once it is committed."""
        self._set_timers(turn)
        if turn.records and not self._write(turn):
            return False
        if turn.replies:
            self._deliver_once_committed(turn.replies)
        return True

    def _set_timers(self, turn: Turn[R]) -> None:
        for key, delay_ms in turn.timers.items():
            old = self._timers.pop(key, None)
            if old is not None:
                old.cancel()
            if delay_ms is not None:
                loop = asyncio.get_running_loop()
                self._timers[key] = loop.call_later(delay_ms / 1000, self._fire, key)

    def _write(self, turn: Turn[R]) -> bool:
        try:
            self._append(turn)
        except (KafkaError, OSError) as error:
            logger.error("%s could not be written, and is loaded anew: %s", self.name, error)
        except Exception:
            # The shard has taken over what the log does not have.
            logger.exception("a defect in what %s writes: it is loaded anew", self.name)
        else:
            return True
        self._drop(ErrorCode.not_coordinator)
        return False

    def _append(self, turn: Turn[R]) -> None:
        for batch in pack(map(self._codec.encode, turn.records), turn.now_ms):
            self._appended(self._log.append(batch, turn.now_ms))

    def _write_in_transaction(self, shard: S, asked: TransactionalWrite[R], now_ms: int) -> None:
        def write() -> None:
            for batch in pack(map(self._codec.encode, asked.records), now_ms, asked.producer):
                self._appended(self._log.append(batch, now_ms, asked.guard))
            for record in asked.records:
                transactional(shard).apply_pending(record, asked.producer.producer_id)

        self._log_first(write)

    def _log_first(self, write: Callable[[], None]) -> None:
        """For what the log may refuse: unlike what a shard decides, that is no reason to load it
        anew. It is when the log has taken some of it."""
        end = self._log.end_offset
        try:
            write()
        except Exception as error:
            if isinstance(error, KafkaError) and self._log.end_offset == end:
                raise
            logger.exception("%s could not be written, and is loaded anew", self.name)
            self._drop(ErrorCode.not_coordinator)
            raise KafkaError(ErrorCode.not_coordinator) from error

    def _appended(self, committed: "asyncio.Future[None] | None") -> None:
        if committed is not None:
            self._uncommitted = committed
            committed.add_done_callback(self._committed)

    def _committed(self, done: "asyncio.Future[None]") -> None:
        if done is self._uncommitted:
            self._uncommitted = None
        error = None if done.cancelled() else done.exception()
        if (done.cancelled() or error is not None) and self._shard is not None:
            logger.error("%s was not committed, and is loaded anew: %s", self.name, error)
            self._drop(ErrorCode.not_coordinator)

    def _deliver_once_committed(self, replies: Replies) -> None:
        """What an answer tells of must not be undone: so it waits, even if it wrote nothing."""
        if self._uncommitted is None:
            deliver(replies)
            return

        def committed(done: "asyncio.Future[None]") -> None:
            if not done.cancelled() and done.exception() is None:
                deliver(replies)

        self._uncommitted.add_done_callback(committed)

    # --- what comes by itself ------------------------------------------------------------------

    def _fire(self, key: TimerKey) -> None:
        self._timers.pop(key, None)
        self._tell(lambda shard, turn: shard.fire(turn, key))

    def topics_changed(self, topics: Collection[Topic]) -> None:
        """Topics came, or got other partitions."""
        self._tell(lambda shard, turn: shard.topics_changed(turn, topics))

    def topics_deleted(self, topics: Collection[Topic]) -> None:
        """Topics are gone."""
        self._tell(lambda shard, turn: shard.topics_deleted(turn, topics))

    def _tell(self, event: Callable[[S, Turn[R]], None]) -> None:
        shard = self._shard
        if shard is None:
            return  # It sees how things are once it is loaded.
        turn = self._turn(shard)
        try:
            self._decided(turn, lambda: event(shard, turn))
        except KafkaError:
            return  # A defect, told and dealt with.
        self._settle(turn)

    # --- loading -------------------------------------------------------------------------------

    async def _load(self) -> None:
        """Read the log back, then take office. A log that takes no records is no reason to try
        again at once: what `loaded` has to write can wait as long as what can not be read."""
        patience_s = _LOAD_AGAIN_S
        while not self._closed:
            try:
                shard = self._new_shard()
                await read_back(self.name, self._log, self._codec, shard, self._clock.wall_ms())
                turn = self._turn(shard)
                shard.loaded(turn)
                self._append(turn)
            except (KafkaError, DecodeError, OSError) as error:
                logger.error("%s can not be loaded and is tried again: %s", self.name, error)
            except Exception:
                logger.exception("a defect while %s is loaded: it is tried again", self.name)
            else:
                self._shard = shard
                self._set_timers(turn)
                self._deliver_once_committed(turn.replies)
                return
            await asyncio.sleep(patience_s)
            patience_s = min(patience_s * 2, _LOAD_AGAIN_S_MAX)

    def _drop(self, code: ErrorCode) -> None:
        """Forget the shard; everybody who waits is told to look for their coordinator again."""
        self._shard = None
        self._uncommitted = None
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._waiting.refuse_all(code)
        if not self._closed:
            self._loading = asyncio.get_running_loop().create_task(self._load())

    # --- ending --------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave office: this broker does not lead the partition any more, or stops."""
        self._closed = True
        self._loading.cancel()
        self._drop(ErrorCode.not_coordinator)
