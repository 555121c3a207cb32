"""Kafka's Java client against the broker: every scenario of the table that the library can play."""

import shutil
from collections.abc import Iterator

import pytest
from tests.compat import real_kafka
from tests.compat.clients.java_client import JavaClient
from tests.compat.conftest import TopicMaker
from tests.compat.scenarios import scenarios_for
from tests.compat.stage import Scenario, Stage

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(
        not real_kafka.available() or shutil.which("javac") is None, reason="needs javac"
    ),
]


@pytest.fixture(scope="module")
def client(bootstrap: str) -> Iterator[JavaClient]:
    connected = JavaClient(bootstrap)
    yield connected
    connected.close()


@pytest.mark.parametrize("scenario", scenarios_for(JavaClient), ids=lambda row: row.name)
def test_java(scenario: Scenario, client: JavaClient, make_topic: TopicMaker) -> None:
    scenario.play(Stage(client, make_topic))
