"""Answers of ZooKeeper that nobody waits for any more."""

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

from kazoo.exceptions import ConnectionLoss

from barnabas.world.zookeeper.one_session import OneSession


class _Broken:
    """What kazoo returns when a call has failed already."""

    def __init__(self) -> None:
        self.exception = ConnectionLoss()

    def get(self) -> None:
        raise self.exception

    def successful(self) -> bool:
        return False

    def rawlink(self, function: Any) -> None:
        function(self)


def test_a_failure_that_nobody_waits_for_is_not_complained_of() -> None:
    """A broker that loses its session cancels what it waits for, just as that fails."""
    complaints: list[Any] = []

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: complaints.append(context))
        session = SimpleNamespace(
            _loop=loop, _client=None, _hand_over=lambda function, *arguments: function(*arguments)
        )
        answered = OneSession.send(session, lambda _client: _Broken())  # type: ignore[arg-type]
        assert answered.done()
        await asyncio.sleep(0)
        del answered
        gc.collect()

    asyncio.run(scene())
    assert not complaints
