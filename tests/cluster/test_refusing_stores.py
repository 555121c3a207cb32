"""A store that lets a broker read and not write (ZooKeeper's ACLs): said, not tried for ever."""

import asyncio

import pytest
from tests.cluster.town import Town, in_town, machine

from barnabas.cluster.service import Cluster
from barnabas.model.errors import BarnabasError
from barnabas.model.stops import Stop
from barnabas.ports.coordination import CoordinationError, Op

REFUSAL = "ZooKeeper's ACLs do not allow it"


def refuse_all(cluster: Cluster) -> None:
    async def commit(*_operations: Op) -> None:
        await asyncio.sleep(0.001)
        raise CoordinationError(REFUSAL)

    cluster._coordination.commit = commit  # type: ignore[method-assign]


@pytest.mark.parametrize("stop", Stop)
@pytest.mark.parametrize("is_empty", [True, False])
def test_a_broker_that_may_not_write_says_so(is_empty: bool, stop: Stop) -> None:
    async def scenario(town: Town) -> None:
        if not is_empty:
            await town.start(0, 1)
            await town.create("t", [1, 0])
            await town.stop(1)
        cluster = town._cluster(1)
        refuse_all(cluster)
        with pytest.raises(BarnabasError, match=REFUSAL):
            async with asyncio.timeout(60):
                await cluster.start("host1", 9092, directory="dir-1", stop=stop)
        town.kill(1)

    in_town(scenario)


def test_a_broker_that_may_not_write_any_more_stops_all_the_same() -> None:
    async def scenario(town: Town) -> None:
        await town.start(0, 1)
        await town.create("t", [1, 0])
        refuse_all(town.brokers[1])
        async with asyncio.timeout(60):
            await town.stop(1)
        await town.led_by(0, "t")
        assert machine(1) not in town.ensemble.sessions.values()

    in_town(scenario)
