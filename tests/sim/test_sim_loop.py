"""Virtual time: order, jumps, deadlocks, spinning, determinism."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from barnabas.sim.clock import SimClock
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.loop import DeadlockError, SimLoop, SpinningError, UnhandledError, run
from barnabas.sim.work import SimWork


def test_a_day_passes_at_once_and_timers_fire_in_order() -> None:
    async def main(loop: SimLoop) -> list[tuple[str, float]]:
        fired: list[tuple[str, float]] = []

        def fire(name: str) -> None:
            fired.append((name, loop.time()))

        for name, delay in (("day", 86_400.0), ("second", 1.0), ("hour", 3_600.0)):
            loop.call_later(delay, fire, name)
        await asyncio.sleep(100_000)
        assert loop.time() == pytest.approx(100_000)
        return fired

    assert run(main, 1) == [("second", 1.0), ("hour", 3_600.0), ("day", 86_400.0)]


def test_callbacks_run_in_the_order_they_were_scheduled() -> None:
    async def main(loop: SimLoop) -> list[int]:
        seen: list[int] = []
        for number in range(100):
            call = loop.call_soon if number % 2 else loop.call_soon_threadsafe
            call(seen.append, number)
        await asyncio.sleep(0)
        return seen

    assert run(main, 1) == list(range(100))


def test_timeouts_and_asyncio_primitives_work() -> None:
    async def main(loop: SimLoop) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(2))
            group.create_task(asyncio.sleep(7))
        return loop.time()

    assert run(main, 1) == pytest.approx(42)


def test_a_deadlock_is_told_with_who_waits() -> None:
    async def waits_for_what_never_comes() -> None:
        await asyncio.Event().wait()

    async def main(_loop: SimLoop) -> None:
        await waits_for_what_never_comes()

    with pytest.raises(DeadlockError, match="main"):
        run(main, 1)


def test_spinning_at_one_moment_is_told() -> None:
    async def main(_loop: SimLoop) -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(SpinningError, match="turns at second"):
        run(main, 1, spins_max=1_000)


def test_many_turns_are_fine_while_time_passes() -> None:
    async def main(_loop: SimLoop) -> None:
        for _ in range(3_000):
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)

    run(main, 1, spins_max=100)


def test_threads_are_refused() -> None:
    async def main(_loop: SimLoop) -> None:
        await asyncio.to_thread(time.monotonic)

    with pytest.raises(RuntimeError, match="no threads"):
        run(main, 1)


def test_an_exception_in_a_callback_fails_the_run() -> None:
    async def main(loop: SimLoop) -> None:
        loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(UnhandledError, match="ZeroDivisionError"):
        run(main, 1)


def test_an_exception_in_a_forgotten_task_fails_the_run() -> None:
    async def fail() -> None:
        raise ValueError("forgotten")

    async def main(loop: SimLoop) -> None:
        loop.create_task(fail())
        await asyncio.sleep(1)

    with pytest.raises(UnhandledError, match="forgotten"):
        run(main, 1)


def test_what_is_left_is_cancelled_in_order_and_generators_are_closed() -> None:
    ended: list[object] = []

    async def endless(number: int) -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            ended.append(number)

    async def numbers() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.append("generator")

    async def main(loop: SimLoop) -> str:
        tasks = [loop.create_task(endless(number)) for number in range(5)]
        kept.append(numbers())
        await anext(kept[0])
        await asyncio.sleep(1)
        assert not any(task.done() for task in tasks)
        return "result"

    kept: list[AsyncIterator[int]] = []
    assert run(main, 1) == "result"
    assert ended == [0, 1, 2, 3, 4, "generator"]


def test_the_result_and_the_error_of_main_come_out() -> None:
    async def main(_loop: SimLoop) -> None:
        raise LookupError("out of main")

    with pytest.raises(LookupError, match="out of main"):
        run(main, 1)


def test_the_wall_clock_follows_and_jumps() -> None:
    async def main(loop: SimLoop) -> None:
        clock = SimClock(loop, base_wall_ms=1_000_000)
        assert clock.wall_ms() == 1_000_000
        await asyncio.sleep(2.5)
        assert clock.wall_ms() == 1_002_500
        clock.jump(-5_000)
        assert clock.wall_ms() == 997_500
        assert clock.monotonic() == pytest.approx(2.5)

    run(main, 1)


async def _busy(loop: SimLoop) -> tuple[str, list[object]]:
    entropy = SimEntropy(loop.seed)
    work = SimWork(loop, loop.seed)
    seen: list[object] = []

    async def worker(number: int) -> None:
        for _ in range(20):
            await asyncio.sleep(entropy.below(1000) / 1000)
            seen.append((number, await work.run(lambda: entropy.below(10))))
            if entropy.sometimes("rarely"):
                seen.append(entropy.uuid())

    await asyncio.gather(*[worker(number) for number in range(5)])
    return loop.trace.digest(), seen


def test_the_same_seed_gives_the_same_run_and_another_another() -> None:
    runs = [run(_busy, 7), run(_busy, 7)]
    assert runs[0] == runs[1]
    assert len({run(_busy, seed)[0] for seed in range(5)}) == 5


def test_entropy_is_replayed_and_counts() -> None:
    def draw(seed: int) -> list[object]:
        entropy = SimEntropy(seed)
        return [entropy.uuid(), entropy.below(1 << 30), [entropy.sometimes("x") for _ in range(50)]]

    assert draw(3) == draw(3)
    assert draw(3) != draw(4)
    entropy = SimEntropy(0)
    taken = {name: sum(entropy.sometimes(name) for _ in range(500)) for name in "abcdefghijkl"}
    assert entropy.asked["a"] == 500
    assert {name: entropy.hits[name] for name in taken} == taken
    assert any(taken.values())
    assert len(set(taken.values())) > 2


def test_a_new_place_leaves_the_others_as_they_were() -> None:
    alone, together = SimEntropy(11), SimEntropy(11)
    expected = [alone.sometimes("x") for _ in range(100)]
    seen = []
    for _ in range(100):
        together.sometimes("new")
        seen.append(together.sometimes("x"))
    assert seen == expected


def test_jobs_may_finish_out_of_order() -> None:
    async def main(loop: SimLoop) -> list[int]:
        work = SimWork(loop, loop.seed)
        finished: list[int] = []
        await asyncio.gather(*[work.run(lambda n=n: finished.append(n)) for n in range(10)])  # type: ignore[misc]
        return finished

    orders = {tuple(run(main, seed)) for seed in range(5)}
    assert len(orders) > 1
    assert all(sorted(order) == list(range(10)) for order in orders)


def test_killed_work_is_never_done_and_cancelled_work_is_skipped() -> None:
    async def main(loop: SimLoop) -> None:
        done: list[str] = []
        work = SimWork(loop, loop.seed)
        cancelled = work.run(lambda: done.append("cancelled"))
        cancelled.cancel()
        await asyncio.sleep(60)
        killed = work.run(lambda: done.append("killed"))
        work.kill()
        await asyncio.sleep(60)
        assert killed.cancelled()
        assert done == []

    run(main, 1)
