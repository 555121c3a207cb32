"""A cluster of three brokers, each a process of its own, on a real ZooKeeper."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The suites share modules (tests.failover.…), which pytest's importlib mode does not find alone.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from barnabas.testing import Cluster

for library in ("aiokafka", "kafka"):
    # That connections break is what these tests are about.
    logging.getLogger(library).setLevel(logging.CRITICAL)

FAST_GROUPS = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 500,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One for all tests of a file: each leaves it with all brokers running."""
    with Cluster(config=FAST_GROUPS) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def tell_what_brokers_said(request: pytest.FixtureRequest) -> Iterator[None]:
    """With a failure, for whoever looks into it."""
    cluster: Cluster = request.getfixturevalue("cluster")
    yield
    for number in (1, 2, 3):
        print(f"-- broker {number}\n{cluster.log_of(number)[-4000:]}")
