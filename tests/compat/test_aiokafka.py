"""aiokafka against the broker: every scenario of the table that the library can play."""

from collections.abc import Iterator

import pytest
from tests.compat.aiokafka_client import AiokafkaClient
from tests.compat.conftest import TopicMaker
from tests.compat.scenarios import scenarios_for
from tests.compat.stage import Scenario, Stage


@pytest.fixture(scope="module")
def client(bootstrap: str) -> Iterator[AiokafkaClient]:
    connected = AiokafkaClient(bootstrap)
    yield connected
    connected.close()


@pytest.mark.parametrize("scenario", scenarios_for(AiokafkaClient), ids=lambda row: row.name)
def test_aiokafka(scenario: Scenario, client: AiokafkaClient, make_topic: TopicMaker) -> None:
    scenario.play(Stage(client, make_topic))
