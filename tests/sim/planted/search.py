"""Which seed finds a planted mistake: the story is told with it, seed by seed, until it fails."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.sim.planted.finds import FOUND_BY
from tests.sim.planted.mistakes import Plant, a_mistake

from barnabas.sim.cluster.run import SeedFailedError, simulate
from barnabas.sim.cluster.shrinking import promise_of


@dataclass(frozen=True, slots=True)
class Found:
    """The first seed that fails with a mistake in the code."""

    seed: int
    promise: str
    words: str


def failure_with(plant: Plant, seed: int) -> SeedFailedError | None:
    """What a seed finds when the mistake is made; None if it finds nothing."""
    try:
        with a_mistake(plant):
            simulate(seed)
    except SeedFailedError as failure:
        return failure
    return None


def first_that_finds(plant: Plant, seeds: Iterable[int]) -> Found | None:
    """Try one seed after the other, until one fails of a promise that this mistake breaks."""
    expected = FOUND_BY[plant.__name__].promises
    for seed in seeds:
        failure = failure_with(plant, seed)
        if failure is not None and promise_of(failure) in expected:
            return Found(seed, promise_of(failure), str(failure.why))
    return None
