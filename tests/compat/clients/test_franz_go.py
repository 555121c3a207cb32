"""franz-go against the broker: every scenario of the table that the library can play."""

import shutil
from collections.abc import Iterator

import pytest
from tests.compat.clients.franz_go_client import FranzGoClient
from tests.compat.conftest import TopicMaker
from tests.compat.scenarios import scenarios_for
from tests.compat.stage import Scenario, Stage

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(shutil.which("go") is None, reason="needs go"),
]


@pytest.fixture(scope="module")
def client(bootstrap: str) -> Iterator[FranzGoClient]:
    connected = FranzGoClient(bootstrap)
    yield connected
    connected.close()


@pytest.mark.parametrize("scenario", scenarios_for(FranzGoClient), ids=lambda row: row.name)
def test_franz_go(scenario: Scenario, client: FranzGoClient, make_topic: TopicMaker) -> None:
    scenario.play(Stage(client, make_topic))
