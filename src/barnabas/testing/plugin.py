"""The pytest plugin: `barnabas_broker` is a broker in memory, `barnabas_disk_broker` one on disk,
`barnabas_cluster` three of them on a ZooKeeper.

Loaded by every pytest session where Barnabas is installed, so nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from barnabas.testing.broker import Broker
    from barnabas.testing.cluster import Cluster


@pytest.fixture(scope="session")
def barnabas_broker() -> Iterator[Broker]:
    """One broker in memory for the whole session; give each test topics of its own."""
    from barnabas.testing.broker import Broker

    with Broker(memory=True) as broker:
        yield broker


@pytest.fixture
def barnabas_disk_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A fresh broker on disk for each test; `stop` and `start` it to see what survives."""
    from barnabas.testing.broker import Broker

    with Broker(memory=False, data=tmp_path_factory.mktemp("barnabas")) as broker:
        yield broker


@pytest.fixture
def barnabas_cluster() -> Iterator[Cluster]:
    """A fresh cluster of three brokers for each test; `kill` and `start` them. Needs Java."""
    from barnabas.testing.cluster import Cluster

    with Cluster(brokers=3) as cluster:
        yield cluster
