"""A broker for the client's tests, topics with names of their own, and databases for ledgers.

With BARNABAS_TEST_BOOTSTRAP set the tests run against the broker at that address instead, which is
how they are checked against Apache Kafka itself.
"""

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.client import Admin

# The tests share modules (tests.client.…), which the importlib mode of pytest does not find alone.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

TopicMaker = Callable[..., str]

HASTY = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
}
"""Groups that wait for nobody."""


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """host:port of the broker under test."""
    given = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    from barnabas.testing import Broker

    with Broker(memory=True, config=HASTY) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> Admin:
    """For the tests' own needs."""
    return Admin(bootstrap)


@pytest.fixture(scope="session")
def make_topic(admin: Admin) -> TopicMaker:
    """Makes a topic of a new name with so many partitions, and returns the name."""

    def make(partitions: int = 1, **config: object) -> str:
        name = unique("topic")
        admin.create_topic(name, partitions, config=config)
        return name

    return make


def unique(what: str) -> str:
    """A name that no other test uses."""
    return f"{what}-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def group() -> str:
    """The name of a group that nobody uses."""
    return unique("group")
