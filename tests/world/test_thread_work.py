"""Lanes: what is slow in one holds up nothing in another."""

import asyncio
import threading

import pytest

from barnabas.ports.work import Lane
from barnabas.world.work import THREADS, ThreadWork


@pytest.mark.parametrize("busy", Lane)
def test_a_lane_that_is_full_of_slow_jobs_holds_up_no_other(busy: Lane) -> None:
    go_on = threading.Event()

    async def scene() -> None:
        work = ThreadWork()
        slow = [work.run(lambda: go_on.wait(60), busy) for _ in range(3 * THREADS[busy])]
        for lane in Lane:
            if lane is not busy:
                name = await work.run(lambda: threading.current_thread().name, lane)
                assert name.startswith(f"barnabas-{lane.value}")
        assert not any(each.done() for each in slow)
        go_on.set()
        assert all(await asyncio.gather(*slow))
        work.close()

    asyncio.run(scene())


def test_nothing_is_submitted_after_the_end_and_what_was_is_finished() -> None:
    done: list[Lane] = []

    async def scene() -> None:
        work = ThreadWork()
        jobs = [work.run(lambda lane=lane: done.append(lane), lane) for lane in Lane]  # type: ignore[misc]
        work.close()
        assert set(done) == set(Lane)
        await asyncio.gather(*jobs)
        with pytest.raises(RuntimeError, match="it was closed"):
            work.run(lambda: None)

    asyncio.run(scene())
