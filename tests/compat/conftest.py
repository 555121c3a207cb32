"""The broker that the client libraries talk to, and the stage hand that makes topics for them.

With BARNABAS_TEST_BOOTSTRAP set the suites run against the broker at that address instead, which
is how they are checked against Apache Kafka itself.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# The suites share modules (tests.compat.…), which the importlib mode of pytest does not find alone.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
pytest.register_assert_rewrite(
    "tests.compat.stage",
    "tests.compat.scenarios",
    "tests.compat.admin_scenarios",
    "tests.compat.clients.dump_tool",
)

from tests.compat.clients.probe import Probe  # noqa: E402 - only now it can be found

SOON = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
TopicMaker = Callable[[str, int, dict[str, str]], None]


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """host:port of the broker under test."""
    given = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    from barnabas.testing import Broker

    with Broker(memory=False) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def make_topic(bootstrap: str) -> TopicMaker:
    """Creates a topic by raw requests and waits until its leaders are in office."""

    def make(name: str, partitions: int, configs: dict[str, str]) -> None:
        probe = Probe(bootstrap)
        probe.make_topic(name, partitions, **configs)
        probe.reconnect()

    return make


@pytest.fixture(scope="session")
def txn_bootstrap() -> Iterator[str]:
    """A broker that soon looks for transactions that take too long."""
    given = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    from barnabas.testing import Broker

    with Broker(memory=False, config=SOON) as broker:
        yield broker.bootstrap_servers
