"""A broker in a process of its own, and a bystander who must notice nothing of what goes on."""

import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

# The suites share modules (tests.…), which the importlib mode of pytest does not find alone.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.chaos import talk
from tests.chaos.broker_process import BrokerProcess
from tests.hostile.forms import Stage


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The broker that most of the hostility is shown to."""
    with BrokerProcess(tmp_path_factory.mktemp("hostile")) as broker:
        broker.start()
        with broker.link() as link:
            talk.create_topic(link, "bystander")
            talk.create_topic(link, "target")
            talk.create_topic(link, "compacted", 1, {"cleanup.policy": "compact"})
            talk.create_topic(link, "compressing", 1, {"compression.type": "lz4"})
            talk.create_topic(link, "unpacking", 1, {"compression.type": "uncompressed"})
        yield broker
        assert broker.terminate() == 0
        assert "Traceback" not in broker.log_text()


@pytest.fixture(scope="session")
def stage(shared_broker: BrokerProcess) -> Stage:
    """What hostile requests are about: a topic that exists."""
    with shared_broker.link() as link:
        topic = talk.topics(link)["target"]
    return Stage(topic_id=UUID(topic["topic_id"]))


@pytest.fixture
def broker(shared_broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """The shared broker; a client that was there before is served after as if nothing had been."""
    place = "bystander", 0
    with shared_broker.link() as link:
        before = talk.offset_of(link, place, -1)
        yield shared_broker
        assert shared_broker.child is not None
        assert shared_broker.child.poll() is None, "the broker has ended"
        batch = talk.batch_of(b"still here")
        assert talk.produce(link, place, batch) == before
        assert talk.fetch(link, place, before)[61:] == batch[61:]
    assert "Traceback" not in shared_broker.log_text()
