"""A broker on disk, where logs are compacted quickly; each test has topics of its own."""

from collections.abc import Iterator

import pytest

from barnabas.testing import Broker


@pytest.fixture(scope="package")
def archive_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    data = tmp_path_factory.mktemp("archive-broker")
    with Broker(memory=False, data=data, config={"log.cleaner.backoff.ms": 100}) as broker:
        yield broker


@pytest.fixture
def servers(archive_broker: Broker) -> str:
    return archive_broker.bootstrap_servers
