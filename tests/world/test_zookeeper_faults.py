"""A real ZooKeeper that stalls, dies, comes back, or forgets us."""

import asyncio
import subprocess
import sys
import threading
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tests.ports.stores import Told, eventually
from tests.world.stalling import Proxy

from barnabas.ports.coordination import (
    CoordinationLostError,
    Create,
    Node,
    SessionEvent,
    SessionOverError,
    SetData,
)
from barnabas.world.zookeeper import ZooKeeperCoordination, ZooKeeperOptions
from barnabas.world.zookeeper_server import ZooKeeperServer

SESSION_S = 2.0
LONG_SESSION_S = 20.0
"""For those that are to live on, however busy the machine is."""

CONNECTED, SUSPENDED, OVER = SessionEvent.CONNECTED, SessionEvent.SUSPENDED, SessionEvent.OVER


class Scene:
    """Clients of one ZooKeeper below one chroot, one of them behind a proxy."""

    def __init__(self, server: ZooKeeperServer, proxy: Proxy, stack: AsyncExitStack) -> None:
        self.proxy = proxy
        self.failures: list[str] = []
        self._stack = stack
        chroot = f"/faults/{uuid.uuid4()}"
        self._direct = ZooKeeperOptions(server.connect + chroot, session_timeout_s=LONG_SESSION_S)
        self._through = replace(self._direct, connect=proxy.connect + chroot)

    async def direct(self) -> ZooKeeperCoordination:
        return await self._open(self._direct)

    async def through_proxy(
        self, session_s: float = SESSION_S
    ) -> tuple[ZooKeeperCoordination, Told]:
        tree = await self._open(replace(self._through, session_timeout_s=session_s))
        events = Told()
        tree.listen(events)
        return tree, events

    async def _open(self, options: ZooKeeperOptions) -> ZooKeeperCoordination:
        tree = ZooKeeperCoordination(options, self.failures.append)
        self._stack.push_async_callback(tree.close)
        await tree.open()
        return tree


def play(server: ZooKeeperServer, scenario: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Proxy(server.host, server.port) as proxy, AsyncExitStack() as stack:
            scene = Scene(server, proxy, stack)
            await scenario(scene)
            proxy.flow()

    asyncio.run(main())


def test_a_broken_connection_is_mended_within_the_session(zookeeper: ZooKeeperServer) -> None:
    async def scenario(scene: Scene) -> None:
        tree, events = await scene.through_proxy(LONG_SESSION_S)
        told = Told()
        await tree.commit(Create("/e", ephemeral=True))
        tree.watch("/e", told)
        session = tree.session
        for _ in range(3):
            events.events.clear()
            called = told.count
            scene.proxy.break_all()
            await events.until(lambda: CONNECTED in events.events)
            assert events.events == [SUSPENDED, CONNECTED]
            await told.more_than(called)
        assert tree.session == session
        assert await tree.get("/e") == Node(b"", 0)
        called = told.count
        await tree.commit(SetData("/e", b"x"))
        await told.more_than(called)

    play(zookeeper, scenario)


def test_a_stall_is_noticed_and_ends_the_session(zookeeper: ZooKeeperServer) -> None:
    """Cut off for ever it would stay suspended; only a server can say that it is over."""

    async def scenario(scene: Scene) -> None:
        other = await scene.direct()
        tree, events = await scene.through_proxy()
        await tree.commit(Create("/e", ephemeral=True))
        gone = Told()
        await other.sync()
        other.watch("/e", gone)
        scene.proxy.stall()
        waiting = asyncio.create_task(tree.commit(SetData("/e", b"x")))
        with pytest.raises(CoordinationLostError):
            await waiting
        await events.until(lambda: SUSPENDED in events.events)
        for request in (tree.get("/"), tree.commit(Create("/late")), tree.sync()):
            with pytest.raises(CoordinationLostError):
                await request
        while await other.get("/e") is not None:
            await gone.more_than(gone.count)
        assert OVER not in events.events
        proven = tree.proven_s()
        assert asyncio.get_running_loop().time() > proven + tree.session_timeout_s * 2 / 3
        scene.proxy.flow()
        await events.until(lambda: OVER in events.events)
        assert events.events == [SUSPENDED, OVER]
        with pytest.raises(SessionOverError):
            await tree.get("/")
        old = tree.session
        await tree.open()
        assert tree.session != old
        assert await tree.get("/late") is None
        assert not scene.failures

    play(zookeeper, scenario)


def test_an_answer_that_is_lost_leaves_the_outcome_open(zookeeper: ZooKeeperServer) -> None:
    """And nothing is done twice by itself."""

    async def scenario(scene: Scene) -> None:
        other = await scene.direct()
        tree, events = await scene.through_proxy(LONG_SESSION_S)
        await tree.commit(Create("/changes"))
        done = Told()
        await other.sync()
        other.watch("/changes", done)
        scene.proxy.swallow_answers()
        writing = asyncio.create_task(tree.commit(Create("/changes/c-", sequence=True)))
        while not await other.children("/changes"):
            await done.more_than(done.count)
        scene.proxy.break_all()
        scene.proxy.flow()
        with pytest.raises(CoordinationLostError):
            await writing
        await events.until(lambda: events.events[-1:] == [CONNECTED])
        await tree.sync()
        assert len(await tree.children("/changes")) == 1

    play(zookeeper, scenario)


def test_no_write_slips_into_another_session(zookeeper: ZooKeeperServer) -> None:
    """Left alone, kazoo would carry what is in its queue over to the session after this one."""

    async def scenario(scene: Scene) -> None:
        other = await scene.direct()
        tree, events = await scene.through_proxy()
        await tree.commit(Create("/e"))
        sessions = {tree.session}
        stop = asyncio.Event()

        async def register(number: int) -> None:
            while not stop.is_set():
                try:
                    await tree.commit(Create(f"/e/{number}-", ephemeral=True, sequence=True))
                except CoordinationLostError:
                    await asyncio.sleep(0)

        writing = [asyncio.create_task(register(number)) for number in range(4)]
        await asyncio.sleep(0.1)
        scene.proxy.stall()

        async def over() -> bool:
            await other.sync()
            return not await other.children("/e")

        await eventually(over)
        scene.proxy.flow()
        await events.until(lambda: OVER in events.events)
        await asyncio.sleep(0.5)
        await other.sync()
        assert list(await other.children("/e")) == []
        stop.set()
        await asyncio.gather(*writing)
        await tree.open()
        assert tree.session not in sessions

    play(zookeeper, scenario)


def test_a_server_that_is_killed_and_comes_back(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path, sync=False) as server:

        async def scenario(scene: Scene) -> None:
            tree = await scene.direct()
            events = Told()
            tree.listen(events)
            await tree.commit(Create("/a", b"kept"), Create("/e", ephemeral=True))
            session = tree.session
            server.kill()
            await events.until(lambda: SUSPENDED in events.events)
            with pytest.raises(CoordinationLostError):
                await tree.get("/a")
            await asyncio.to_thread(server.__enter__)
            await events.until(lambda: len(events.events) > 1)
            assert events.events == [SUSPENDED, CONNECTED]
            assert tree.session == session
            assert await tree.get("/e") == Node(b"", 0)
            assert await tree.get("/a") == Node(b"kept", 0)

        play(server, scenario)


_REGISTERING = """
import asyncio, sys
from barnabas.ports.coordination import Create
from barnabas.world.zookeeper import ZooKeeperCoordination, ZooKeeperOptions

async def main() -> None:
    tree = ZooKeeperCoordination(ZooKeeperOptions(sys.argv[1], session_timeout_s=2), print)
    await tree.open()
    await tree.commit(Create("/e", ephemeral=True))
    print(tree.session, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_a_process_that_is_killed_is_missed_after_its_session(zookeeper: ZooKeeperServer) -> None:
    async def scenario(scene: Scene) -> None:
        tree = await scene.direct()
        gone = Told()
        tree.watch("/e", gone)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _REGISTERING, tree._options.connect, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        session = int(await process.stdout.readline())
        await tree.sync()
        node = await tree.get("/e")
        assert node is not None
        assert node.owner == session
        process.kill()
        await process.wait()
        while await tree.get("/e") is not None:
            await gone.more_than(gone.count)

    play(zookeeper, scenario)


def test_close_comes_back_when_nobody_can_be_reached(zookeeper: ZooKeeperServer) -> None:
    async def scenario(scene: Scene) -> None:
        tree, events = await scene.through_proxy()
        scene.proxy.stall()
        await events.until(lambda: SUSPENDED in events.events)
        await tree.close()
        with pytest.raises(SessionOverError):
            await tree.get("/")

    play(zookeeper, scenario)


def test_a_client_that_hangs_is_told_once(
    zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(scene: Scene) -> None:
        tree, events = await scene.through_proxy()
        let_go = threading.Event()
        assert tree._session is not None

        def hang(*_: object, **__: object) -> None:
            let_go.wait(60)
            raise ConnectionRefusedError

        monkeypatch.setattr(tree._session._handler, "create_connection", hang)
        scene.proxy.break_all()
        await events.until(lambda: SUSPENDED in events.events)

        async def noticed() -> bool:
            return bool(scene.failures)

        await eventually(noticed)
        assert len(scene.failures) == 1
        assert "hangs" in scene.failures[0]
        let_go.set()

    play(zookeeper, scenario)
