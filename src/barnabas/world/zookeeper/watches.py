"""Watches that last, made of ZooKeeper's that fire once.

A watch of ours is two of ZooKeeper's: one for the node, one for its children. When either fires
both are set again, and only then `changed` is called: requests are answered in the order they are
sent, so whatever the callee reads was read after the new watches stood, and nothing falls between.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.ports.coordination import CoordinationError, CoordinationLostError, NoNodeError
from barnabas.world.zookeeper.one_session import OneSession


class Watches:
    """All watches of one process; they outlive sessions. `failed` is told one sentence."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        self._failed = failed
        self._watches: list[_Watch] = []
        self._session: OneSession | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}

    def add(self, path: str, changed: Callable[[], None]) -> None:
        """Watch from now on; if there is no connection, from the next one on."""
        watch = _Watch(path, changed)
        self._watches.append(watch)
        if self._session is not None:
            self._arm(watch, self._session)

    def connected(self, session: OneSession) -> None:
        """There is a connection, and no watch of an earlier one is left: set all, call all."""
        self._session = session
        for watch in self._watches:
            watch.fired = session.when_fired(partial(self._fired, watch, session))
            self._arm(watch, session)
            watch.call()

    def disconnected(self) -> None:
        """There is no connection."""
        self._session = None

    def close(self) -> None:
        """No call from now on."""
        self._session = None
        self._watches.clear()
        for task in self._tasks:
            task.cancel()

    def _fired(self, watch: "_Watch", session: OneSession) -> None:
        if self._session is session and watch in self._watches:
            self._arm(watch, session)
            watch.call()

    def _arm(self, watch: "_Watch", session: OneSession) -> None:
        if watch.fired is None:
            watch.fired = session.when_fired(partial(self._fired, watch, session))
        answers = _send(watch, session)
        task = asyncio.get_running_loop().create_task(self._see_to_it(watch, session, answers))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _see_to_it(
        self, watch: "_Watch", session: OneSession, answers: list["asyncio.Future[Any]"]
    ) -> None:
        """Without an answer the watch may not stand: ask again, as long as there is a connection
        (when there is another, everything is set anew)."""
        in_time = True
        while self._session is session:
            try:
                await _arrived(watch, session, answers)
            except CoordinationLostError:
                in_time = False
                await asyncio.sleep(session.timeout_s / 6)
                if self._session is session:
                    answers = _send(watch, session)
            except CoordinationError as error:
                self._failed(f"ZooKeeper does not let us watch {watch.path} ({error}).")
                return
            else:
                if not in_time:
                    watch.call()
                return


class _Watch:
    """One callback."""

    def __init__(self, path: str, changed: Callable[[], None]) -> None:
        self.path = path
        self.fired: Callable[[Any], None] | None = None
        self.call = changed


def _send(watch: _Watch, session: OneSession) -> list["asyncio.Future[Any]"]:
    return [
        session.send(lambda client: client.exists_async(watch.path, watch=watch.fired)),
        session.send(lambda client: client.get_children_async(watch.path, watch=watch.fired)),
    ]


async def _arrived(
    watch: _Watch, session: OneSession, answers: list["asyncio.Future[Any]"]
) -> None:
    results = await asyncio.gather(
        *(session.answer(watch.path, each) for each in answers), return_exceptions=True
    )
    for result in results:
        # Of a node that is not there the first of the two tells when it comes.
        if isinstance(result, BaseException) and not isinstance(result, NoNodeError):
            raise result
