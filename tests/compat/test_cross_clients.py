"""What one library writes, every other one reads identically."""

from collections.abc import Iterator
from itertools import product
from typing import Final

import pytest
from tests.compat.aiokafka_client import AiokafkaClient
from tests.compat.confluent_client import ConfluentClient
from tests.compat.conftest import TopicMaker
from tests.compat.kafka_python_client import KafkaPythonClient
from tests.compat.port import CODECS, Client, Sending
from tests.compat.stage import Stage, produced, same, sample

LIBRARIES: Final[tuple[type[Client], ...]] = (ConfluentClient, KafkaPythonClient, AiokafkaClient)
WRITINGS: Final = [
    (library, codec) for library, codec in product(LIBRARIES, CODECS) if codec in library.codecs
]


@pytest.fixture(scope="module")
def clients(bootstrap: str) -> Iterator[dict[type[Client], Client]]:
    connected = {library: library(bootstrap) for library in LIBRARIES}
    yield connected
    for client in connected.values():
        client.close()


@pytest.mark.parametrize(
    ("writer", "codec"), WRITINGS, ids=[f"{library.name} {codec}" for library, codec in WRITINGS]
)
def test_what_one_writes_the_others_read(
    writer: type[Client],
    codec: str,
    clients: dict[type[Client], Client],
    make_topic: TopicMaker,
) -> None:
    stage = Stage(clients[writer], make_topic)
    topic = stage.topic()
    messages = sample(writer.can)
    produced(stage, topic, messages, Sending(codec=codec))
    for library, reader in clients.items():
        if codec in library.codecs:
            same(messages, reader.consume(topic, len(messages)))
