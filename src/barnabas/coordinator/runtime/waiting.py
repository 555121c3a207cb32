"""Those who wait for a shard's answers."""

import asyncio
from typing import Any

from barnabas.coordinator.runtime.turn import Waiter
from barnabas.model.errors import ErrorCode, KafkaError

Replies = list[tuple[Waiter, Any]]


class Waiting:
    """The futures of everybody who has not been answered yet."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        # (A dictionary, because it keeps an order that is the same in every run.)
        self._futures: dict[asyncio.Future[Any], None] = {}

    def wait(self, waiter: Waiter) -> "asyncio.Future[Any]":
        """A future of what `waiter` will be answered."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._futures[future] = None
        future.add_done_callback(self._forget)

        def answer(value: Any) -> None:
            if future.done():
                return  # Whoever asked has gone.
            if isinstance(value, KafkaError):
                _fail(future, value)
            else:
                future.set_result(value)

        waiter.answer = answer
        return future

    def _forget(self, future: "asyncio.Future[Any]") -> None:
        self._futures.pop(future, None)

    def refuse_all(self, code: ErrorCode) -> None:
        """Nobody gets the answer they wait for."""
        for future in tuple(self._futures):
            if not future.done():
                _fail(future, KafkaError(code))
        self._futures.clear()


def deliver(replies: Replies) -> None:
    """Answer those who wait, and do what else was to be done by now."""
    for waiter, value in replies:
        if waiter.answer is not None:
            waiter.answer(value)


def _fail(future: "asyncio.Future[Any]", error: KafkaError) -> None:
    future.set_exception(error)
    future.exception()  # Seen: that whoever asked has gone meanwhile is nothing to complain of.
