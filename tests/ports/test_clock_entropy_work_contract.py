"""What clocks, chance and slow work promise, real or pretended."""

import asyncio
import threading
import uuid
from collections.abc import Awaitable, Callable

import pytest

from barnabas.ports.clock import Clock
from barnabas.ports.entropy import Entropy
from barnabas.ports.work import Work
from barnabas.sim import loop as sim_loop
from barnabas.sim.clock import SimClock
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.work import SimWork
from barnabas.world.clock import RealClock
from barnabas.world.entropy import RealEntropy
from barnabas.world.work import ThreadWork

Outside = tuple[Clock, Entropy, Work]
Scenario = Callable[[Clock, Entropy, Work], Awaitable[None]]


def _in_world(scenario: Scenario) -> None:
    async def main() -> None:
        work = ThreadWork()
        await scenario(RealClock(), RealEntropy(), work)
        work.close()

    asyncio.run(main())


def _in_sim(scenario: Scenario) -> None:
    async def main(loop: sim_loop.SimLoop) -> None:
        work = SimWork(loop, loop.seed)
        await scenario(SimClock(loop), SimEntropy(loop.seed), work)
        work.close()

    sim_loop.run(main, seed=5)


@pytest.fixture(params=[_in_world, _in_sim], ids=["world", "sim"])
def within(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    runner: Callable[[Scenario], None] = request.param
    return runner


Within = Callable[[Scenario], None]


def test_clocks_go_forward(within: Within) -> None:
    async def scenario(clock: Clock, _entropy: Entropy, _work: Work) -> None:
        wall, monotonic = clock.wall_ms(), clock.monotonic()
        assert wall > 1_600_000_000_000
        await asyncio.sleep(0.005)
        assert clock.wall_ms() > wall
        assert clock.monotonic() > monotonic

    within(scenario)


def test_entropy_stays_in_bounds(within: Within) -> None:
    async def scenario(_clock: Clock, entropy: Entropy, _work: Work) -> None:
        drawn = {entropy.below(4) for _ in range(400)}
        assert drawn == {0, 1, 2, 3}
        assert entropy.below(1) == 0
        identities = {entropy.uuid() for _ in range(100)}
        assert len(identities) == 100
        assert uuid.UUID(int=0) not in identities
        with pytest.raises(ValueError, match="empty range"):
            entropy.below(0)

    within(scenario)


def test_work_gives_results_and_errors(within: Within) -> None:
    async def scenario(_clock: Clock, _entropy: Entropy, work: Work) -> None:
        assert await work.run(lambda: 6 * 7) == 42
        with pytest.raises(ZeroDivisionError):
            await work.run(lambda: 1 // 0)
        assert await asyncio.gather(*[work.run(lambda n=n: n) for n in range(20)]) == list(  # type: ignore[misc]
            range(20)
        )

    within(scenario)


def test_work_is_not_done_inside_run(within: Within) -> None:
    async def scenario(_clock: Clock, _entropy: Entropy, work: Work) -> None:
        gate = threading.Event()
        gate.set()
        done = work.run(lambda: gate.wait(10))
        assert not done.done()
        assert await done

    within(scenario)


def test_close_finishes_what_was_submitted(within: Within) -> None:
    async def scenario(_clock: Clock, _entropy: Entropy, work: Work) -> None:
        finished: list[int] = []
        futures = [work.run(lambda n=n: finished.append(n)) for n in range(10)]  # type: ignore[misc]
        work.close()
        assert sorted(finished) == list(range(10))
        await asyncio.gather(*futures)
        with pytest.raises(RuntimeError, match="closed"):
            work.run(lambda: None)

    within(scenario)


def test_the_real_world_never_takes_the_rare_branch() -> None:
    entropy = RealEntropy()
    assert not any(entropy.sometimes("anything") for _ in range(1000))


def test_work_leaves_the_loop_free() -> None:
    async def main() -> None:
        work = ThreadWork()
        gate = threading.Event()
        blocked = work.run(lambda: gate.wait(10))
        await asyncio.sleep(0)
        assert not blocked.done()
        gate.set()
        assert await blocked
        work.close()

    asyncio.run(main())


def test_unused_work_starts_no_thread() -> None:
    before = threading.active_count()
    ThreadWork().close()
    assert threading.active_count() == before
