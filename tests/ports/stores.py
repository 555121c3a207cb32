"""The stores that the contract of the coordination port is tested on, each in its own world."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

from kazoo.client import KazooClient

from barnabas.ports.coordination import Coordination
from barnabas.sim.loop import SimLoop
from barnabas.sim.loop import run as simulate
from barnabas.sim.zookeeper import Ensemble
from barnabas.world.embedded import EmbeddedCoordination
from barnabas.world.zookeeper import ZooKeeperCoordination, ZooKeeperOptions

WAIT_S = 30.0
"""Far more than anything takes; who waits longer waits for ever."""


class Store(Protocol):
    """One fresh tree, and sessions of it."""

    @property
    def tree(self) -> Coordination:
        """The first session, open."""
        ...

    async def another(self) -> Coordination:
        """A further session of the same tree, open."""
        ...

    async def expire(self, tree: Coordination) -> None:
        """End a session as the store would, if nothing were heard of it."""
        ...


Scenario = Callable[[Store], Awaitable[None]]


class Told:
    """Counts calls, and lets a scenario wait for them."""

    def __init__(self) -> None:
        self.count = 0
        self.events: list[object] = []
        self._more = asyncio.Event()

    def __call__(self, event: object = None) -> None:
        self.count += 1
        self.events.append(event)
        self._more.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until a call has come after which `reached()` holds."""
        async with asyncio.timeout(WAIT_S):
            while not reached():
                self._more.clear()
                await self._more.wait()

    async def more_than(self, count: int) -> None:
        """Wait until there were more calls."""
        await self.until(lambda: self.count > count)


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Ask until the answer is yes."""
    async with asyncio.timeout(WAIT_S):
        while not await holds():
            await asyncio.sleep(0.02)


class _Embedded:
    def __init__(self, path: str) -> None:
        self.tree = EmbeddedCoordination(path)

    async def another(self) -> Coordination:
        raise NotImplementedError

    async def expire(self, tree: Coordination) -> None:
        raise NotImplementedError


class _Simulated:
    def __init__(self, loop: SimLoop, stack: AsyncExitStack) -> None:
        self.ensemble = Ensemble(loop)
        self._stack = stack
        self._count = 1
        self.tree = self.ensemble.client("machine-1")

    async def another(self) -> Coordination:
        self._count += 1
        client = self.ensemble.client(f"machine-{self._count}")
        await client.open()
        self._stack.push_async_callback(client.close)
        return client

    async def expire(self, tree: Coordination) -> None:
        self.ensemble.expire(self.ensemble.sessions[tree.session])


class _Real:
    def __init__(self, connect: str, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._connect = connect
        self.tree = ZooKeeperCoordination(ZooKeeperOptions(connect), _fail)

    async def another(self) -> Coordination:
        client = ZooKeeperCoordination(ZooKeeperOptions(self._connect), _fail)
        await client.open()
        self._stack.push_async_callback(client.close)
        return client

    async def expire(self, tree: Coordination) -> None:
        """As kazoo's own tests do: a second client takes the session by its number and password,
        and closes it."""
        assert isinstance(tree, ZooKeeperCoordination)
        await asyncio.to_thread(_close_session_of, tree, self._connect)


def _close_session_of(tree: ZooKeeperCoordination, connect: str) -> None:
    assert tree._session is not None
    client_id = tree._session._client.client_id
    thief = KazooClient(connect.partition("/")[0], client_id=client_id)
    thief.start(WAIT_S)
    thief.stop()
    thief.close()


def _fail(sentence: str) -> None:
    raise AssertionError(sentence)


def on_embedded(scenario: Scenario, path: str) -> None:
    async def main() -> None:
        store = _Embedded(path)
        await store.tree.open()
        try:
            await scenario(store)
        finally:
            await store.tree.close()

    asyncio.run(main())


def on_simulator(scenario: Scenario, seed: int) -> None:
    async def main(loop: SimLoop) -> None:
        async with AsyncExitStack() as stack:
            store = _Simulated(loop, stack)
            await store.tree.open()
            stack.push_async_callback(store.tree.close)
            await scenario(store)

    simulate(main, seed)


def on_zookeeper(scenario: Scenario, servers: str) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            store = _Real(f"{servers}/contract/{uuid.uuid4()}", stack)
            await store.tree.open()
            stack.push_async_callback(store.tree.close)
            await scenario(store)

    asyncio.run(main())


Runner = Callable[[Scenario], None]


def embedded_runner(path: Path | None) -> Runner:
    """On disk, or in memory."""
    return lambda scenario: on_embedded(scenario, str(path) if path else ":memory:")


def simulator_runner() -> Runner:
    """In as many worlds as there are seeds here."""

    def run(scenario: Scenario) -> None:
        for seed in range(5):
            on_simulator(scenario, seed)

    return run


def zookeeper_runner(servers: str) -> Runner:
    """Below a chroot of its own on a real ZooKeeper."""
    return lambda scenario: on_zookeeper(scenario, servers)
