"""Mistakes that replicated logs are known to have been built with, put in from outside.

Each is a function that changes the code under test for as long as a test runs. Nothing of it is in
the package: whoever installs Barnabas can not turn one on.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest
from tests.sim.planted import answering, deciding, moving, replicating, storing

Plant = Callable[[pytest.MonkeyPatch], None]

PLANTS: Final[Mapping[str, Plant]] = {
    plant.__name__: plant
    for room in (answering, replicating, deciding, moving, storing)
    for plant in room.PLANTS
}


@contextlib.contextmanager
def a_mistake(plant: Plant) -> Iterator[None]:
    """It is made for as long as this lasts."""
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        yield
