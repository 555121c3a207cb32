"""Apache Storm's own Kafka spout and bolt: a topology that reads from Barnabas and writes to it."""

import pytest
from tests.compat.clients.storm import jars
from tests.compat.clients.storm.plays import Counted, undisturbed, with_a_kill

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(1800),  # The jars may have to be brought first.
    pytest.mark.skipif(not jars.available(), reason=jars.NEEDED),
]


def test_a_topology_reads_transforms_writes_and_commits() -> None:
    check(undisturbed())


def test_nothing_is_missing_when_the_broker_is_killed_in_the_middle() -> None:
    counted = with_a_kill()
    check(counted)
    assert counted.read_before_the_kill is not None
    assert counted.read_before_the_kill < counted.sent


def check(counted: Counted) -> None:
    assert counted.missing == set()
    assert counted.foreign == set()
    assert counted.committed == counted.sent
