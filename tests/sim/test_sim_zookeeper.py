"""The simulated ensemble: what can go wrong with it does, and only as it does with the real one."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest
from tests.ports.stores import Told

from barnabas.model.errors import BarnabasError
from barnabas.ports.coordination import (
    CoordinationLostError,
    Create,
    Node,
    SessionEvent,
    SessionOverError,
    SetData,
)
from barnabas.sim.loop import SimLoop, run
from barnabas.sim.network import _machine
from barnabas.sim.zookeeper import Ensemble, SimCoordination, Transaction

CONNECTED, SUSPENDED, OVER = SessionEvent.CONNECTED, SessionEvent.SUSPENDED, SessionEvent.OVER
SEEDS = range(20)


class Scene:
    """An ensemble and two clients: `tree` on machine "a", to whom things happen, and `other`."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.zk = Ensemble(loop, session_timeout_s=6.0)
        self.tree = self.zk.client("a")
        self.other = self.zk.client("b")
        self.events = Told()

    async def open(self) -> None:
        await self.tree.open()
        await self.other.open()
        self.tree.listen(self.events)

    async def until(self, event: SessionEvent) -> None:
        await self.events.until(lambda: event in self.events.events)


def play(scenario: Callable[[Scene], Awaitable[None]], seeds: range = SEEDS) -> None:
    async def main(loop: SimLoop) -> None:
        scene = Scene(loop)
        await scene.open()
        await scenario(scene)
        await scene.tree.close()
        await scene.other.close()

    for seed in seeds:
        run(main, seed)


class TestCuts:
    @pytest.mark.parametrize("by_network", [False, True])
    def test_a_long_one_ends_the_session(self, by_network: bool) -> None:
        async def scenario(scene: Scene) -> None:
            tree, zk, network = scene.tree, scene.zk, scene.loop.network
            await tree.commit(Create("/e", ephemeral=True))
            if by_network:
                network.cut("a", "zk")
            else:
                zk.cut("a")
            started = scene.loop.time()
            with pytest.raises(CoordinationLostError):
                await tree.get("/e")
            await scene.until(SUSPENDED)
            assert scene.loop.time() < started + 6, "before the session is over"
            await asyncio.sleep(30)
            assert zk.get("/e") is None
            assert scene.events.events == [SUSPENDED], "only a server can say that it is over"
            if by_network:
                network.heal("a", "zk")
            else:
                zk.heal("a")
            await scene.until(OVER)
            with pytest.raises(SessionOverError):
                await tree.get("/e")
            await tree.open()
            await tree.commit(Create("/e", ephemeral=True))

        play(scenario)

    def test_a_short_one_does_not(self) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.tree.commit(Create("/e", ephemeral=True))
            session = scene.tree.session
            scene.zk.cut("a")
            await scene.until(SUSPENDED)
            scene.zk.heal("a")
            await scene.until(CONNECTED)
            assert scene.tree.session == session
            assert await scene.tree.get("/e") == Node(b"", 0)

        play(scenario)

    def test_requests_without_answers(self) -> None:
        """What was asked is done; nobody hears of it; and without a handshake there is no other
        connection, so the session ends."""

        async def scenario(scene: Scene) -> None:
            await scene.tree.commit(Create("/a"), Create("/e", ephemeral=True))
            scene.zk.cut("a", requests=False)
            with pytest.raises(CoordinationLostError):
                await scene.tree.commit(SetData("/a", b"done"))
            assert scene.zk.get("/a") == Node(b"done", 1)
            await asyncio.sleep(20)
            assert scene.zk.get("/e") is None
            scene.zk.heal("a")
            await scene.until(OVER)

        play(scenario)

    def test_answers_without_requests(self) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.tree.commit(Create("/a"), Create("/e", ephemeral=True))
            scene.zk.cut("a", answers=False)
            with pytest.raises(CoordinationLostError):
                await scene.tree.commit(SetData("/a", b"lost"))
            await asyncio.sleep(20)
            assert scene.zk.get("/e") is None
            assert scene.zk.get("/a") == Node(b"", 0)

        play(scenario)

    def test_a_write_may_arrive_after_it_was_given_up_but_not_after_the_reconnection(self) -> None:
        outcomes: list[bool] = []

        async def scenario(scene: Scene) -> None:
            await scene.tree.commit(Create("/a"))
            scene.zk.cut("a")
            with pytest.raises(CoordinationLostError):
                await scene.tree.commit(SetData("/a", b"late"))
            assert scene.zk.get("/a") == Node(b"", 0)
            scene.zk.heal("a")
            await scene.until(CONNECTED)
            await scene.tree.sync()
            seen = await scene.tree.get("/a")
            await asyncio.sleep(10)
            assert scene.zk.get("/a") == seen
            outcomes.append(seen == Node(b"late", 1))

        play(scenario)
        assert True in outcomes
        assert False in outcomes


class TestLostAnswers:
    @pytest.mark.parametrize("after", [False, True])
    def test_the_next_commit(self, after: bool) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.tree.commit(Create("/c"))
            scene.zk.lose_next("a", after=after)
            with pytest.raises(CoordinationLostError):
                await scene.tree.commit(Create("/c/n-", sequence=True))
            assert len(scene.zk.below("/c")) == int(after)
            await scene.until(CONNECTED)
            await scene.tree.sync()
            assert len(await scene.tree.children("/c")) == int(after)
            await scene.tree.commit(Create("/c/n-", sequence=True))
            assert scene.events.events == [SUSPENDED, CONNECTED]

        play(scenario)

    def test_by_chance(self) -> None:
        counted: list[tuple[int, int, int]] = []

        async def scenario(scene: Scene) -> None:
            await scene.tree.commit(Create("/c"))
            scene.zk.faults.break_before = scene.zk.faults.break_after = 0.05
            done = lost = 0
            while done < 50:
                try:
                    await scene.tree.commit(Create("/c/n-", sequence=True))
                except SessionOverError:
                    await scene.tree.open()
                except CoordinationLostError:
                    lost += 1
                    await asyncio.sleep(0.5)
                else:
                    done += 1
            counted.append((done, lost, len(scene.zk.below("/c"))))
            scene.zk.faults.break_before = scene.zk.faults.break_after = 0.0

        play(scenario)
        assert all(done <= made <= done + lost for done, lost, made in counted)
        assert any(done < made for done, _, made in counted)
        assert any(made < done + lost for done, lost, made in counted)


class TestSessions:
    def test_expiry_by_force(self) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.tree.commit(Create("/e", ephemeral=True))
            scene.zk.expire("a")
            assert scene.zk.get("/e") is None
            await scene.until(OVER)
            assert scene.tree.session not in scene.zk.sessions
            await scene.tree.open()
            assert scene.zk.sessions[scene.tree.session] == "a"

        play(scenario)

    def test_a_process_that_dies_is_missed_after_its_timeout(self) -> None:
        async def scenario(scene: Scene) -> None:
            told = Told()
            scene.tree.watch("/p", told)
            await scene.tree.commit(Create("/e", ephemeral=True), Create("/p"))
            await asyncio.sleep(1)
            called = told.count
            scene.zk.kill("a")
            await scene.other.commit(SetData("/p", b"x"))
            await asyncio.sleep(4)
            assert scene.zk.get("/e") is not None
            await asyncio.sleep(3)
            assert scene.zk.get("/e") is None
            assert told.count == called
            assert scene.events.events == []

        play(scenario)

    @pytest.mark.parametrize(("length_s", "ends"), [(1.0, False), (20.0, True)])
    def test_a_process_that_stands_still_notices_nothing(self, length_s: float, ends: bool) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.tree.commit(Create("/e", ephemeral=True))
            scene.zk.pause("a")
            await asyncio.sleep(length_s)
            assert scene.events.events == []
            assert (scene.zk.get("/e") is None) == ends
            scene.zk.resume("a")
            if ends:
                await scene.until(OVER)
            else:
                await scene.tree.commit(SetData("/e", b"x"))
                assert scene.events.events == []

        play(scenario)

    def test_a_session_that_ran_out_was_proven_for_no_longer_than_its_time(self) -> None:
        """What a lease builds on: it ends before the servers may give the session up."""

        async def scenario(scene: Scene) -> None:
            margins: list[float] = []

            def closed(transaction: Transaction) -> None:
                if transaction.session == scene.tree.session and not transaction.touched:
                    margins.append(scene.loop.time() - scene.tree.proven_s())

            scene.zk.on_commit(closed)
            scene.zk.faults.lag_s = 0.3
            await asyncio.sleep(3)
            assert scene.tree.proven_s() > scene.loop.time() - 2
            scene.zk.cut("a", requests=bool(scene.loop.seed))
            await asyncio.sleep(20)
            assert len(margins) == 1
            assert margins[0] >= scene.tree.session_timeout_s
            scene.zk.heal("a")
            await scene.until(OVER)

        play(scenario)


class TestQuorum:
    def test_sessions_outlast_its_loss(self) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.tree.commit(Create("/a", b"kept"), Create("/e", ephemeral=True))
            session = scene.tree.session
            scene.zk.lose_quorum()
            await scene.until(SUSPENDED)
            with pytest.raises(CoordinationLostError):
                await scene.tree.get("/a")
            with pytest.raises(BarnabasError, match="No ZooKeeper answered within"):
                await scene.zk.client("c").open()
            await asyncio.sleep(60)
            scene.zk.regain_quorum()
            await scene.until(CONNECTED)
            assert scene.tree.session == session
            assert await scene.tree.get("/e") == Node(b"", 0)
            assert await scene.tree.get("/a") == Node(b"kept", 0)
            await asyncio.sleep(20)
            assert scene.zk.get("/e") is not None

        play(scenario)

    def test_a_dead_process_has_its_full_time_after_the_return(self) -> None:
        async def scenario(scene: Scene) -> None:
            await scene.tree.commit(Create("/e", ephemeral=True))
            scene.zk.lose_quorum()
            scene.zk.kill("a")
            await asyncio.sleep(60)
            scene.zk.regain_quorum()
            await asyncio.sleep(5)
            assert scene.zk.get("/e") is not None
            await asyncio.sleep(2)
            assert scene.zk.get("/e") is None

        play(scenario)

    def test_what_was_under_way_is_done_or_not_and_settled_at_the_return(self) -> None:
        outcomes: list[bool] = []

        async def scenario(scene: Scene) -> None:
            await scene.tree.commit(Create("/a"), Create("/b"))
            scene.zk.lose_quorum()
            try:
                await scene.tree.commit(SetData("/a", b"x"), SetData("/b", b"x"))
            except CoordinationLostError:
                assert scene.zk.get("/a") == Node(b"", 0)
                scene.zk.regain_quorum()
                settled = scene.zk.get("/a"), scene.zk.get("/b")
                await scene.until(CONNECTED)
                await asyncio.sleep(10)
                assert (scene.zk.get("/a"), scene.zk.get("/b")) == settled
                assert settled[0] == settled[1]
                outcomes.append(settled[0] == Node(b"x", 1))

        play(scenario, range(40))
        assert True in outcomes
        assert False in outcomes


class TestReading:
    def test_reads_may_be_stale_but_never_go_back_and_never_after_sync(self) -> None:
        stale: list[bool] = []

        async def scenario(scene: Scene) -> None:
            scene.zk.faults.lag_s = 0.5
            await scene.tree.commit(Create("/a"))
            await scene.other.sync()
            newest = 0
            for number in range(40):
                await scene.tree.commit(SetData("/a", b"", number))
                if number % 10 == 9:
                    scene.zk.break_connection("b")
                    await asyncio.sleep(1)
                seen = await scene.other.get("/a")
                assert seen is not None
                assert newest <= seen.version <= number + 1
                newest = seen.version
                stale.append(seen.version <= number)
                if number % 7 == 0:
                    await scene.other.sync()
                    assert await scene.other.get("/a") == Node(b"", number + 1)
                    newest = number + 1

        play(scenario)
        assert True in stale

    def test_news_come_late_and_on_the_right_machine(self) -> None:
        async def scenario(scene: Scene) -> None:
            scene.zk.faults.watch_delay_s = 5.0
            machines: list[str] = []
            told = Told()

            def changed() -> None:
                machines.append(_machine.get())
                told()

            scene.tree.watch("/a", changed)
            await scene.other.commit(Create("/a"))
            await told.more_than(0)
            scene.zk.faults.watch_delay_s = 0.0
            while await scene.tree.get("/a") is None:
                await told.more_than(told.count)
            assert set(machines) == {"a"}

        play(scenario)


def _busy(seed: int) -> str:
    """A run with every fault; the hash of all that happened."""

    async def main(loop: SimLoop) -> str:
        scene = Scene(loop)
        await scene.open()
        zk = scene.zk
        zk.faults.break_before = zk.faults.break_after = 0.02
        zk.faults.watch_delay_s, zk.faults.lag_s = 1.0, 0.2
        await _retry(scene.tree, lambda: scene.tree.commit(Create("/a")))
        clients = [scene.tree, scene.other]
        writers = [asyncio.create_task(_write(client)) for client in clients]
        for client in clients:
            client.watch("/a", lambda: loop.trace.note("called"))
        steps: list[Callable[[], None]] = [
            lambda: zk.cut("a"), lambda: zk.heal("a"), zk.lose_quorum, zk.regain_quorum,
            lambda: zk.pause("b"), lambda: zk.resume("b"), lambda: zk.expire("a"),
        ]  # fmt: skip
        for step in steps:
            step()
            await asyncio.sleep(7)
        await asyncio.gather(*writers)
        node = zk.get("/a")
        assert node is not None
        assert node.version >= 400
        return loop.trace.digest()

    return run(main, seed)


async def _retry(client: SimCoordination, act: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await act()
        except SessionOverError:
            await client.open()
        except CoordinationLostError:
            await asyncio.sleep(0.3)
        else:
            return


async def _write(client: SimCoordination) -> None:
    for _ in range(200):
        await _retry(client, lambda: client.commit(SetData("/a", b"x")))
        await asyncio.sleep(0.1)


def test_the_same_seed_gives_the_same_run_in_any_process() -> None:
    here = [_busy(seed) for seed in (1, 2)]
    assert here == [_busy(seed) for seed in (1, 2)]
    assert here[0] != here[1]
    for hash_seed in ("1", "77"):
        told = subprocess.run(
            [
                sys.executable, "-c",
                "from tests.sim.test_sim_zookeeper import _busy; print(_busy(1), _busy(2))",
            ],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True, text=True, timeout=100, check=True,
        )  # fmt: skip
        assert told.stdout.split() == here
