"""kafkajs against the broker: every scenario of the table that the library can play."""

import shutil
from collections.abc import Iterator

import pytest
from tests.compat.clients.kafkajs_client import KafkajsClient
from tests.compat.conftest import TopicMaker
from tests.compat.scenarios import scenarios_for
from tests.compat.stage import Scenario, Stage

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(
        shutil.which("node") is None or shutil.which("npm") is None, reason="needs node and npm"
    ),
]


@pytest.fixture(scope="module")
def client(bootstrap: str) -> Iterator[KafkajsClient]:
    connected = KafkajsClient(bootstrap)
    yield connected
    connected.close()


@pytest.mark.parametrize("scenario", scenarios_for(KafkajsClient), ids=lambda row: row.name)
def test_kafkajs(scenario: Scenario, client: KafkajsClient, make_topic: TopicMaker) -> None:
    scenario.play(Stage(client, make_topic))
