"""The shared broker's topics."""

from collections.abc import Iterator

import pytest
from tests.spark.source_driver.driver_world import World

from barnabas.testing import Broker


@pytest.fixture(scope="session")
def world(shared_broker: Broker) -> Iterator[World]:
    world = World(shared_broker.bootstrap_servers)
    yield world
    world.close()
