"""confluent-kafka against the broker: every scenario of the table that the library can play."""

from collections.abc import Iterator

import pytest
from tests.compat.confluent_client import ConfluentClient
from tests.compat.conftest import TopicMaker
from tests.compat.port import Message
from tests.compat.scenarios import scenarios_for
from tests.compat.stage import Scenario, Stage


@pytest.fixture(scope="module")
def client(bootstrap: str) -> Iterator[ConfluentClient]:
    connected = ConfluentClient(bootstrap)
    yield connected
    connected.close()


@pytest.mark.parametrize("scenario", scenarios_for(ConfluentClient), ids=lambda row: row.name)
def test_confluent(scenario: Scenario, client: ConfluentClient, make_topic: TopicMaker) -> None:
    scenario.play(Stage(client, make_topic))


def test_confluent_watermarks(client: ConfluentClient, make_topic: TopicMaker) -> None:
    stage = Stage(client, make_topic)
    topic = stage.topic()
    assert client.watermarks(topic) == (0, 0)
    client.produce(topic, [Message(value=b"x")] * 7)
    assert client.watermarks(topic) == (0, 7)
    client.delete_records(topic, 3)
    assert client.watermarks(topic) == (3, 7)
