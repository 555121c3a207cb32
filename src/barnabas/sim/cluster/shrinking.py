"""From a plan that fails to the fewest faults that still do: delta debugging over the list."""

from collections.abc import Callable, Sequence
from typing import Final

from barnabas.sim.cluster.plan import Fault
from barnabas.sim.cluster.run import SeedFailedError, simulate
from barnabas.sim.cluster.settings import Settings
from barnabas.sim.cluster.truth import BrokenPromiseError

RUNS_MAX: Final = 60
"""A failing plan is seldom longer than fifteen faults: that is enough for most."""


def shrink(failure: SeedFailedError, runs_max: int = RUNS_MAX) -> list[Fault]:
    """The faults without which the same promise is kept."""
    seed = failure.report.seed
    settings = Settings.draw(seed)
    promise = promise_of(failure)

    def fails(plan: Sequence[Fault]) -> bool:
        try:
            simulate(seed, plan, settings)
        except SeedFailedError as again:
            return promise_of(again) == promise
        return False

    return minimal(failure.plan, fails, runs_max)


def promise_of(failure: SeedFailedError) -> str:
    """Which promise was broken: other words of the same one are the same failure."""
    first = str(failure.why).partition(":")[0]
    is_promise = isinstance(failure.why, BrokenPromiseError)
    return first if is_promise else f"{type(failure.why).__name__} {first}"


def minimal(
    plan: Sequence[Fault], fails: Callable[[Sequence[Fault]], bool], runs_max: int
) -> list[Fault]:
    """Leave out more and more, in smaller and smaller pieces, for as long as it still fails."""
    kept, pieces, runs = list(plan), 2, 0
    while kept and runs < runs_max:
        size = max(len(kept) // pieces, 1)
        for start in range(0, len(kept), size):
            fewer = kept[:start] + kept[start + size :]
            runs += 1
            if fails(fewer):
                kept, pieces = fewer, max(pieces - 1, 2)
                break
            if runs >= runs_max:
                break
        else:
            if size == 1:
                break
            pieces = min(pieces * 2, len(kept))
    return kept
