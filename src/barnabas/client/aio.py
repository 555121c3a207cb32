"""The same client for asyncio: nothing here blocks the loop.

What must wait for a broker waits on a thread of each client's own; what is at hand is handed out
at once. Cancelling a task never loses a message: the next `await` gets it.
"""

import asyncio
import functools
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, Unpack

from barnabas.client.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.delivery import Delivered, Delivery
from barnabas.client.errors import DeliveryError
from barnabas.client.message import HeadersGiven, Message
from barnabas.client.options import AdminOptions, ConsumerOptions, ProducerOptions
from barnabas.client.producer import Producer
from barnabas.client.settings import DEFAULT_BOOTSTRAP
from barnabas.client.transactions import OpenTransaction
from barnabas.model.topics import TopicPartition

P = ParamSpec("P")
R = TypeVar("R")

_YIELD_EVERY: Final = 100
"""After so many messages that were at hand, let other tasks run."""
_SLICE_S: Final = 0.25
"""How long one call may hold a consumer's thread while no message comes."""


class _Threaded:
    """One thread, on which one client is used."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=name)

    def _start(self, call: Callable[[], R]) -> "asyncio.Future[R]":
        return asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def _run(self, call: Callable[[], R]) -> R:
        # Shielded: the thread goes on anyway, and the next call waits its turn behind it.
        return await asyncio.shield(self._start(call))


def _on_thread(
    method: Callable[Concatenate[Any, P], R],
    *,
    first: Callable[[Any], Coroutine[Any, Any, None]] | None = None,
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """The method of the synchronous face, awaited; `first` goes before it."""

    @functools.wraps(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if first is not None:
            await first(self)
        result: R = await self._run(functools.partial(method, self._core, *args, **kwargs))
        return result

    return call


class AsyncAdmin(_Threaded):
    """`Admin` for asyncio: the same calls, awaited."""

    def __init__(
        self, bootstrap_servers: str = DEFAULT_BOOTSTRAP, **options: Unpack[AdminOptions]
    ) -> None:
        super().__init__("barnabas-admin")
        self._core = Admin(bootstrap_servers, **options)

    create_topic = _on_thread(Admin.create_topic)
    create_topics = _on_thread(Admin.create_topics)
    delete_topic = _on_thread(Admin.delete_topic)
    list_topics = _on_thread(Admin.list_topics)
    describe_topic = _on_thread(Admin.describe_topic)
    grow_topic = _on_thread(Admin.grow_topic)
    delete_records = _on_thread(Admin.delete_records)
    topic_config = _on_thread(Admin.topic_config)
    set_topic_config = _on_thread(Admin.set_topic_config)
    broker_config = _on_thread(Admin.broker_config)
    set_broker_config = _on_thread(Admin.set_broker_config)
    list_groups = _on_thread(Admin.list_groups)
    describe_group = _on_thread(Admin.describe_group)
    group_offsets = _on_thread(Admin.group_offsets)
    lag = _on_thread(Admin.lag)
    delete_group = _on_thread(Admin.delete_group)
    reset_offsets = _on_thread(Admin.reset_offsets)

    async def close(self) -> None:
        """Let go of the thread."""
        self._executor.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncProducer(_Threaded):
    """`Producer` for asyncio: `await producer.send(…)` tells where the message stands.

    `send` without `await` starts it and returns a future; messages leave in the order of the
    calls. Cancelling the future does not call the message back.
    """

    def __init__(
        self, bootstrap_servers: str = DEFAULT_BOOTSTRAP, **options: Unpack[ProducerOptions]
    ) -> None:
        super().__init__("barnabas-producer")
        self._core = Producer(bootstrap_servers, **options)
        self._loop = asyncio.get_running_loop()
        self._settled: deque[tuple[asyncio.Future[Delivered], Delivered | DeliveryError]] = deque()
        self._waking = False
        self._slow = 0

    def send(
        self,
        topic: str,
        value: object = None,
        *,
        key: object = None,
        partition: int | None = None,
        headers: HeadersGiven | None = None,
        timestamp: int | datetime | None = None,
    ) -> "asyncio.Future[Delivered]":
        """Send one message; the future ends when it is acknowledged, or with a DeliveryError."""
        future: asyncio.Future[Delivered] = self._loop.create_future()
        send = functools.partial(
            self._send, future, topic, value, key=key, partition=partition, headers=headers,
            timestamp=timestamp,
        )  # fmt: skip
        self._in_turn(topic, send, future)
        return future

    async def post(
        self,
        topic: str,
        value: object = None,
        *,
        key: object = None,
        partition: int | None = None,
        headers: HeadersGiven | None = None,
        timestamp: int | datetime | None = None,
    ) -> None:
        """Fire and forget; waits while the queue is full. `flush` or `close` tells of losses."""
        post = functools.partial(
            self._core.post, topic, value, key=key, partition=partition, headers=headers,
            timestamp=timestamp,
        )  # fmt: skip
        if self._is_quick(topic):
            post()
        else:
            await self._run(post)

    def transaction(self) -> "AsyncTransaction":
        """`async with producer.transaction():` commits on leaving; an exception aborts it."""
        return AsyncTransaction(self._core.transaction(), self)

    async def in_turn(self, call: Callable[[], R]) -> R:
        """Behind everything that was sent before, on the producer's thread."""
        return await self._run(call)

    flush = _on_thread(Producer.flush)
    partitions = _on_thread(Producer.partitions)

    async def close(self, timeout: float | None = None) -> None:
        """Flush and let go; raises DeliveryError when a posted message was lost."""
        try:
            await self._run(functools.partial(self._core.close, timeout))
        finally:
            self._executor.shutdown(wait=False)
        self._wake()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except DeliveryError as loss:
            if error is None:
                raise
            error.add_note(f"On closing the producer: {loss}")

    def _is_quick(self, topic: str) -> bool:
        """Whether sending waits for nothing, and nothing that was sent before is still waiting."""
        return not self._slow and self._core.is_ready(topic) and self._core.has_room()

    def _in_turn(
        self, topic: str, send: Callable[[], None], future: "asyncio.Future[Delivered]"
    ) -> None:
        if self._is_quick(topic):
            send()
            return
        self._slow += 1

        def sent(done: "asyncio.Future[None]") -> None:
            self._slow -= 1
            error = done.exception()
            if error is not None and not future.done():
                future.set_exception(error)

        self._start(send).add_done_callback(sent)

    def _send(self, future: "asyncio.Future[Delivered]", *args: Any, **kwargs: Any) -> None:
        self._core.send_to(functools.partial(self._note, future), *args, **kwargs)

    def _note(self, future: "asyncio.Future[Delivered]", delivery: Delivery) -> None:
        """On the producer's delivery thread: many outcomes wake the loop once."""
        # The future carries the error from here on; asyncio tells when nobody looks at it.
        delivery.error()
        outcome = delivery.outcome
        if outcome is not None:
            self._settled.append((future, outcome))
            if not self._waking:
                self._waking = True
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._waking = False
        while self._settled:
            future, outcome = self._settled.popleft()
            if future.done():
                continue
            if isinstance(outcome, DeliveryError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)


class AsyncTransaction:
    """An open transaction of an AsyncProducer."""

    def __init__(self, core: OpenTransaction, producer: AsyncProducer) -> None:
        self._core = core
        self._producer = producer

    async def abort(self) -> None:
        """Take back everything sent so far; leaving the block then does nothing."""
        await self._producer.in_turn(self._core.abort)

    async def __aenter__(self) -> Self:
        await self._producer.in_turn(self._core.__enter__)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._producer.in_turn(
            functools.partial(self._core.__exit__, kind, error, trace),
        )


class _LateConsumer(Consumer):
    """Asks the broker about its topics when told to, not when it is made."""

    def _begin(self, topics: list[str], places: list[TopicPartition]) -> None:
        self._wanted = topics, places

    def begin(self) -> None:
        """On the consumer's thread."""
        super()._begin(*self._wanted)


class AsyncConsumer(_Threaded):
    """`Consumer` for asyncio: `async for message in consumer`. One task at a time may use it."""

    def __init__(
        self,
        topics: str | Iterable[str] | None = None,
        group: str | None = None,
        bootstrap_servers: str = DEFAULT_BOOTSTRAP,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        super().__init__("barnabas-consumer")
        self._core = _LateConsumer(topics, group, bootstrap_servers, **options)
        self._begun = self._executor.submit(self._core.begin)
        self._coming: asyncio.Future[list[Message]] | None = None
        self._coming_size = 1
        self._quick = 0

    def _start(self, call: Callable[[], R]) -> "asyncio.Future[R]":
        def begun_call() -> R:
            # What went wrong at the beginning is told to whoever asks first, and to all after.
            self._begun.result()
            return call()

        return super()._start(begun_call)

    async def poll(self, timeout: float | None = None) -> Message | None:
        """The next message; None after `timeout` seconds or `stop()`."""
        if self._coming_size != 1:
            await self._give_back()
        self._coming_size = 1
        if self._coming is None:
            message = self._core.poll_at_hand()
            if message is not None:
                self._quick += 1
                if self._quick % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                return message
        batch = await self._next(1, 0.0, timeout)
        return batch[0] if batch else None

    async def _next(self, size: int, linger: float, timeout: float | None) -> list[Message]:
        """The next messages, asked for in short calls.

        So a commit after a cancelled task need not wait until a message comes.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SLICE_S if deadline is None else deadline - time.monotonic()
            if self._coming is None:
                slice_s = max(0.0, min(_SLICE_S, left))
                self._coming = self._start(
                    functools.partial(self._core.poll_batch, size, linger=linger, timeout=slice_s)
                )
            # When this task is cancelled here, what may be coming waits for the next call.
            await asyncio.wait({self._coming})
            coming, self._coming = self._coming, None
            batch = coming.result()
            if batch or (left <= _SLICE_S and deadline is not None) or self._core.is_stopped:
                return batch

    async def _give_back(self) -> None:
        """What came for a task that was cancelled was seen by nobody: it is not done."""
        if self._coming is not None:
            await asyncio.wait({self._coming})
            coming, self._coming = self._coming, None
            if coming.result():
                await self._run(self._core.give_back)

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Hand out messages until `stop()`, or until none comes for `timeout` seconds."""
        if self._coming is None:
            await self._run(self._core.abandon)
        while (message := await self.poll(self._core.timeout)) is not None:
            yield message

    async def batches(
        self, size: int = 500, *, linger: float = 0.1
    ) -> AsyncIterator[list[Message]]:
        """Hand out lists: when `size` messages are there, or `linger` seconds after the first."""
        if self._coming is None:
            await self._run(self._core.abandon)
        self._coming_size = size
        while batch := await self._next(size, linger, self._core.timeout):
            yield batch

    async def commit(self, message: Message | None = None, *, wait: bool = True) -> None:
        """Remember that everything handed out is done, or what stands up to `message`."""
        if message is None:
            await self._give_back()
        await self._run(functools.partial(self._core.commit, message, wait=wait))

    seek = _on_thread(Consumer.seek, first=_give_back)
    rewind = _on_thread(Consumer.rewind, first=_give_back)
    skip = _on_thread(Consumer.skip, first=_give_back)
    pause = _on_thread(Consumer.pause)
    resume = _on_thread(Consumer.resume)
    position = _on_thread(Consumer.position)
    committed = _on_thread(Consumer.committed)
    lag = _on_thread(Consumer.lag)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions this consumer reads now."""
        return self._core.assignment

    def stop(self) -> None:
        """End the loop after the current message."""
        self._core.stop()

    async def close(self) -> None:
        """Commit what is done and leave the group."""
        self._core.stop()
        try:
            await asyncio.shield(super()._start(self._core.close))
        finally:
            self._executor.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
