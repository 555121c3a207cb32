"""kafka-python against the broker: every scenario of the table that the library can play."""

from collections.abc import Iterator

import pytest
from tests.compat.conftest import TopicMaker
from tests.compat.kafka_python_client import KafkaPythonClient
from tests.compat.scenarios import scenarios_for
from tests.compat.stage import Scenario, Stage


@pytest.fixture(scope="module")
def client(bootstrap: str) -> Iterator[KafkaPythonClient]:
    connected = KafkaPythonClient(bootstrap)
    yield connected
    connected.close()


@pytest.mark.parametrize("scenario", scenarios_for(KafkaPythonClient), ids=lambda row: row.name)
def test_kafka_python(
    scenario: Scenario, client: KafkaPythonClient, make_topic: TopicMaker
) -> None:
    scenario.play(Stage(client, make_topic))
