"""Clusters under faults whose consumers read at followers, too: what is found there is committed,
and the same as at the leader."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from barnabas.replica.partition import Partition
from barnabas.sim.cluster.run import SeedFailedError, simulate
from barnabas.sim.cluster.settings import Settings
from barnabas.sim.cluster.story import Report

SEEDS = range(3)


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def told(seed: int) -> Report:
    return simulate(seed, settings=replace(Settings.draw(seed), nearby=True))


@pytest.mark.timeout(600)
def test_what_is_read_at_followers_is_committed() -> None:
    reports = [told(seed) for seed in SEEDS]
    assert all(each.read_nearby > 20 for each in reports), [each.read_nearby for each in reports]


@pytest.mark.timeout(600)
def test_a_follower_that_shows_what_is_not_committed_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = Partition.read

    def read(self: Partition, offset: int, size: int, up_to: int, **options: Any) -> Any:
        return plain(self, offset, size, up_to if self.is_leader else 2**62, **options)

    monkeypatch.setattr(Partition, "read", read)
    with pytest.raises(SeedFailedError, match="ConsistentRead"):
        told(SEEDS[0])
