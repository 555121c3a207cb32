"""kcat against the broker: every scenario of the table that the library can play."""

import shutil
from collections.abc import Iterator

import pytest
from tests.compat.clients.kcat_client import KcatClient
from tests.compat.confluent_client import ConfluentClient
from tests.compat.conftest import TopicMaker
from tests.compat.port import Message, Time
from tests.compat.scenarios import scenarios_for
from tests.compat.stage import Scenario, Stage, T, same

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="needs kcat"),
]


@pytest.fixture(scope="module")
def client(bootstrap: str) -> Iterator[KcatClient]:
    connected = KcatClient(bootstrap)
    yield connected
    connected.close()


@pytest.mark.parametrize("scenario", scenarios_for(KcatClient), ids=lambda row: row.name)
def test_kcat(scenario: Scenario, client: KcatClient, make_topic: TopicMaker) -> None:
    scenario.play(Stage(client, make_topic))


def test_kcat_seeks_to_a_time(client: KcatClient, bootstrap: str, make_topic: TopicMaker) -> None:
    """kcat cannot write timestamps, so another library writes them."""
    stage = Stage(client, make_topic)
    topic = stage.topic()
    messages = [Message(value=b"%d" % n, timestamp=T + 100 * n) for n in range(5)]
    writer = ConfluentClient(bootstrap)
    writer.produce(topic, messages)
    writer.close()
    same(messages[2:], client.consume(topic, 3, start=Time(T + 101)), first_offset=2)
    assert client.offset(topic, Time(T + 300)) == 3


def test_kcat_lists_topics(client: KcatClient, make_topic: TopicMaker) -> None:
    topic = Stage(client, make_topic).topic(3)
    listed = {row["topic"]: len(row["partitions"]) for row in client.listing()["topics"]}
    assert listed[topic] == 3
