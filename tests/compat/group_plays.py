"""Plays the scenarios of groups, several at once: most of their time is waiting for sessions."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pytest
from tests.compat.group_member import Way
from tests.compat.group_scenarios import GROUP_SCENARIOS, GroupScenario, together
from tests.compat.group_stage import PATIENT_MS, GroupStage

AT_ONCE: Final = 6
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": 200,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 5_000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
}
"""Quick to rebalance, quick to miss somebody."""


@dataclass(frozen=True)
class Play:
    """A scenario and who plays it."""

    scenario: GroupScenario
    way: Way

    def __str__(self) -> str:
        return f"{self.way.name}: {self.scenario.name}"

    def run(self, bootstrap: str) -> None:
        """From a new topic to no process left."""
        session_ms = self.scenario.session_ms or PATIENT_MS
        with GroupStage(self.way, bootstrap, session_ms=session_ms) as stage:
            self.scenario.play(stage)


def plays_of(ways: Sequence[Way]) -> list[Play]:
    """Every row of the table, for every way that can play it."""
    return [
        Play(scenario, way) for scenario in GROUP_SCENARIOS for way in ways if scenario.suits(way)
    ]


def play_together(ways: Sequence[Way]) -> Play:
    """Members of several libraries in one group."""
    others = ", ".join(way.name for way in ways[1:])
    return Play(GroupScenario(together(ways), f"together with {others}"), ways[0])


@contextmanager
def broker_of_groups() -> Iterator[str]:
    """host:port of a broker; BARNABAS_TEST_BOOTSTRAP names another one, with the same settings."""
    given = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    from barnabas.testing import Broker

    with Broker(config=SETTINGS) as broker:
        yield broker.bootstrap_servers


@contextmanager
def played(
    request: pytest.FixtureRequest, *, at_once: int = AT_ONCE
) -> Iterator[dict[Play, "Future[None]"]]:
    """The results of those plays of the asking module that were selected, as they come."""
    chosen: list[Play] = [
        item.callspec.params["play"]  # type: ignore[misc]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.module is request.module
        and hasattr(item, "callspec")
        and "play" in item.callspec.params
    ]
    # What has to be built is built now, by one thread.
    for play in chosen:
        play.way.command()
    with broker_of_groups() as bootstrap, ThreadPoolExecutor(at_once) as pool:
        yield {play: pool.submit(play.run, bootstrap) for play in chosen}
        pool.shutdown(cancel_futures=True)
