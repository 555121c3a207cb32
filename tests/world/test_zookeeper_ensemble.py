"""Three real servers: one dies, two die, and all is as before when they are back."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ports.stores import Told

from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import (
    CoordinationLostError,
    Create,
    Node,
    SessionEvent,
    SetData,
)
from barnabas.world.zookeeper import ZooKeeperCoordination, ZooKeeperOptions
from barnabas.world.zookeeper_ensemble import ZooKeeperEnsemble
from barnabas.world.zookeeper_server import ZooKeeperServer

CONNECTED, SUSPENDED = SessionEvent.CONNECTED, SessionEvent.SUSPENDED


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("ensemble"), 3, sync=False) as started:
        yield started


def _fail(sentence: str) -> None:
    raise AssertionError(sentence)


def _client(ensemble: ZooKeeperEnsemble, chroot: str) -> ZooKeeperCoordination:
    options = ZooKeeperOptions(
        f"{ensemble.connect}/{chroot}", session_timeout_s=20, connect_timeout_s=60
    )
    return ZooKeeperCoordination(options, _fail)


async def _start_again(servers: list[ZooKeeperServer]) -> None:
    for server in servers:
        server.start()
    for server in servers:
        await asyncio.to_thread(server.wait_ready)


async def _until_done(tree: ZooKeeperCoordination, data: bytes) -> None:
    while True:
        try:
            await tree.commit(SetData("/a", data))
        except CoordinationLostError:
            await asyncio.sleep(0.1)
        else:
            return


def test_the_leader_dies_and_the_session_goes_on(ensemble: ZooKeeperEnsemble) -> None:
    async def main() -> None:
        tree, other = _client(ensemble, "one"), _client(ensemble, "one")
        await tree.open()
        await other.open()
        sessions = (tree.session, other.session)
        await tree.commit(Create("/a"), Create("/e", ephemeral=True))
        leader = ensemble.leader()
        leader.kill()
        await _until_done(tree, b"x")
        await _until_done(other, b"y")
        await tree.sync()
        node = await tree.get("/a")
        assert node is not None
        assert node.data == b"y"
        assert await tree.get("/e") == Node(b"", 0)
        assert (tree.session, other.session) == sessions
        await _start_again([leader])
        await tree.close()
        await other.close()

    asyncio.run(main())


def test_without_a_quorum_nobody_is_answered_until_there_is_one(
    ensemble: ZooKeeperEnsemble,
) -> None:
    async def main() -> None:
        tree, events, told = _client(ensemble, "two"), Told(), Told()
        await tree.open()
        session = tree.session
        tree.listen(events)
        await tree.commit(Create("/a", b"kept"), Create("/e", ephemeral=True))
        tree.watch("/a", told)
        down = list(ensemble.servers[:2])
        for server in down:
            server.kill()
        await events.until(lambda: SUSPENDED in events.events)
        with pytest.raises(CoordinationLostError):
            await tree.commit(SetData("/a", b"perhaps"))
        with pytest.raises(BarnabasError, match="too few servers of the ensemble"):
            await ZooKeeperCoordination(
                ZooKeeperOptions(f"{ensemble.connect}/two", connect_timeout_s=1), _fail
            ).open()
        called = told.count
        await _start_again(down)
        await events.until(lambda: events.events[-1:] == [CONNECTED])
        await told.more_than(called)
        # However long it took: without a quorum nobody could decide that the session is over.
        assert tree.session == session
        assert await tree.get("/e") == Node(b"", 0)
        # And what was asked for while it got lost is done or not; either way it stays so.
        settled = await tree.get("/a")
        assert settled in (Node(b"kept", 0), Node(b"perhaps", 1))
        await tree.commit(SetData("/a", b"after", settled.version if settled else 0))
        await tree.close()

    asyncio.run(main())


def test_another_number_of_servers_is_refused(tmp_path: Path) -> None:
    with ZooKeeperEnsemble(tmp_path, 1, sync=False):
        pass
    with pytest.raises(BarnabasError, match="ensemble of 1, not of 3: start it with --ensemble 1"):
        ZooKeeperEnsemble(tmp_path, 3, sync=False).start()
