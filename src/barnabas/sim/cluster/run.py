"""Tell the story of a seed, and let nothing of it outlive it."""

import asyncio
import gc
from collections.abc import Sequence

from barnabas.sim.cluster.plan import Fault, draw_plan
from barnabas.sim.cluster.settings import Settings
from barnabas.sim.cluster.story import Report, Story
from barnabas.sim.loop import SimLoop


class SeedFailedError(Exception):
    """A seed broke a promise; `report` is what had come of it until then."""

    def __init__(self, report: Report, plan: Sequence[Fault], why: BaseException) -> None:
        super().__init__(f"seed {report.seed}: {type(why).__name__}: {why}")
        self.report = report
        self.plan = list(plan)
        self.why = why
        self.last: Sequence[str] = ()


def simulate(
    seed: int | str, plan: Sequence[Fault] | None = None, settings: Settings | None = None
) -> Report:
    """The story of a seed, with the faults of its own plan or of another; raises
    SeedFailedError."""
    settings = settings or Settings.draw(seed)
    plan = draw_plan(seed, settings) if plan is None else plan
    loop = SimLoop(seed)
    story = Story(loop, seed, settings)
    collecting = gc.isenabled()
    # What becomes of things must not depend on when the collector comes by.
    gc.disable()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(story.tell(plan))
        return story.report()
    except Exception as error:
        failed = SeedFailedError(story.report(), plan, error)
        failed.last = loop.trace.last()
        raise failed from error
    finally:
        _forget(loop)
        if collecting:
            gc.enable()
            gc.collect()


def _forget(loop: SimLoop) -> None:
    loop.after_event = None
    loop.forget()
    asyncio.set_event_loop(None)
    loop.close()
