"""A broker without sockets: real rooms over memory, frames in and frames out."""

import asyncio
import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from kio.serial import entity_reader

from barnabas.api.context import Services
from barnabas.api.dispatch import Dispatcher
from barnabas.api.fetch_sessions import FetchSessions
from barnabas.api.table import SERVED
from barnabas.broker.coordinators import Coordinators
from barnabas.broker.following import Following
from barnabas.broker.replication import Replication
from barnabas.cluster.service import Cluster
from barnabas.cluster.topics import NewTopic
from barnabas.config.broker_config import BrokerConfig
from barnabas.link.pool import LinkPool
from barnabas.log.store import LogStore
from barnabas.model.stops import Stop
from barnabas.ports.clock import Clock
from barnabas.ports.coordination import Coordination
from barnabas.ports.entropy import Entropy
from barnabas.ports.exchange import Frames, Later, Peer, Reply
from barnabas.ports.files import Files
from barnabas.ports.work import Work
from barnabas.replica.partition import Partition
from barnabas.replica.service import Replicas
from barnabas.wire.headers import parse_response_header, request_header
from barnabas.wire.messages import encode_request, version_type
from barnabas.wire.records.record import Record, encode_batch
from barnabas.wire.tolerant import field_type, zero_value
from barnabas.world.clock import RealClock
from barnabas.world.embedded import EmbeddedCoordination
from barnabas.world.entropy import RealEntropy
from barnabas.world.memory import MemoryFiles
from barnabas.world.work import ThreadWork

KEYS = {name: key for key, name in SERVED.items()}
NODE_ID = 1
ADVERTISED = ("broker.example", 19092)
T = 1_700_000_000_000
"""When the first test record was written."""


def build(entity: Any, values: Mapping[str, Any]) -> Any:
    """A message from plain dicts and lists; what is not named is as if absent."""
    known = {field.name for field in fields(entity)}
    unknown = values.keys() - known
    assert not unknown, f"{entity.__name__} has no {unknown}"
    return entity(
        **{
            field.name: _value(field, values[field.name])
            if field.name in values
            else zero_value(field)
            for field in fields(entity)
        }
    )


def _value(field: Any, value: Any) -> Any:
    inner, is_array, _, is_entity = field_type(field)
    if value is None:
        return None
    if is_array:
        return tuple(build(inner, each) if is_entity else each for each in value)
    return build(inner, value) if is_entity else value


def plain(value: Any) -> Any:
    """An answer as dicts and lists, with error codes by name."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return value.name if type(value).__name__ == "ErrorCode" else value


class House:
    """The rooms of one broker, and a client that asks it."""

    def __init__(
        self,
        settings: Mapping[str, str],
        *,
        files: Files | None = None,
        work: Work | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        coordination: Coordination | None = None,
    ) -> None:
        self._runner = asyncio.Runner()
        self._correlation = itertools.count(1)
        self._threads = ThreadWork(2)
        self.files = files or MemoryFiles()
        self.work = self._threads if work is None else work
        clock, entropy = clock or RealClock(), entropy or RealEntropy()
        self.config = BrokerConfig({"node.id": str(NODE_ID), **settings})
        self.store = LogStore(self.files, "/data", clock, entropy)
        self.replicas = Replicas(self.store, self.work, pytest.fail, NODE_ID)
        store = coordination or EmbeddedCoordination(":memory:")
        self.cluster = Cluster(store, self.config, entropy, clock)
        self.links = LinkPool(lambda _: None, "tests")
        self.coordinators = Coordinators(
            self.cluster, self.replicas, self.links, clock, entropy, self.work
        )
        self.replication = Replication(self.cluster, self.replicas, clock)
        self.peer = Peer(1, ("127.0.0.1", 50000), ("127.0.0.1", 9092))
        self.services = Services(
            node_id=NODE_ID,
            cluster=self.cluster,
            replicas=self.replicas,
            groups=self.coordinators.groups,
            transactions=self.coordinators.transactions,
            enrolment=self.coordinators.enrolment,
            links=self.links,
            markers=self.coordinators.markers,
            sessions=FetchSessions(clock, entropy),
            producer_ids=self.coordinators.producer_ids,
            clock=clock,
            entropy=entropy,
            work=self.work,
            advertised=lambda _peer: ADVERTISED,
        )
        self.dispatch = Dispatcher(self.services)
        self.run(self.cluster.start("elsewhere.example", 1, directory="d", stop=Stop.CLEAN))
        following = Following(self.replicas, self.coordinators, self.replication, pytest.fail)
        self.cluster.subscribe(following.follow)
        self.run(following.start(self.cluster.image.topics.values()))

    def run(self, work: Any) -> Any:
        return self._runner.run(work)

    def close(self) -> None:
        self.run(self._resign())
        self.run(self.cluster.close())
        self._threads.close()
        self.store.close()
        self._runner.close()

    async def _resign(self) -> None:
        self.coordinators.close()
        await self.replication.close()
        await self.links.close()

    def ask(self, api: str, version: int, **body: Any) -> Any:
        """The answer to one request, read by kio at the same version."""
        key = KEYS[api]
        request = build(version_type(key, version, "request"), body)
        return plain(self.read(key, version, self.frame(key, version, request)))

    def frame(self, key: int, version: int, request: Any) -> bytes:
        correlation_id = next(self._correlation)
        header = request_header(key, version, correlation_id, "tests")
        return header + encode_request(key, version, request)

    def read(self, key: int, version: int, frame: bytes) -> Any:
        answer = self.send(frame)
        assert answer[:4] == frame[4:8], "another correlation id"
        return self._read(key, version, answer)

    def _read(self, key: int, version: int, answer: bytes) -> Any:
        _, start = parse_response_header(key, version, answer)
        response, size = entity_reader(version_type(key, version, "response"))(answer, start)
        assert start + size == len(answer), "bytes are left over"
        return response

    def decode(self, key: int, version: int, answer: bytes) -> Any:
        """An answer of which every byte is accounted for by kio."""
        return plain(self._read(key, version, answer))

    def send(self, frame: bytes) -> bytes:
        """One frame through the dispatcher."""
        return b"".join(self.run(self._send(frame)))

    async def _send(self, frame: bytes) -> Frames:
        reply = self.dispatch_once(self.peer, frame)
        if isinstance(reply, Later):
            reply = await reply.coroutine
        assert reply is not None
        return reply

    def dispatch_once(self, peer: Peer, frame: bytes) -> Reply:
        """As a connection does it: when the call returns, the frame's memory is another's."""
        memory = bytearray(frame)
        reply = self.dispatch(peer, memoryview(memory))
        memory[:] = bytes(len(memory))
        return reply

    def topic(self, name: str, partitions: int = 1, **configs: str) -> uuid.UUID:
        """Create a topic; `retention_ms="1"` is `retention.ms=1`."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(name, partitions, 1, (), settings)
        (result,) = self.run(self.cluster.create_topics([new]))
        assert result.topic is not None, result
        topic_id: uuid.UUID = result.topic.id
        return topic_id

    def partition(self, topic: str, index: int = 0) -> Partition:
        found = self.replicas.find(topic, index)
        assert found is not None
        return found

    def append(self, topic: str, *times: int, index: int = 0, **batch: Any) -> None:
        """One batch with a record for each time."""
        records = [Record(n, at, b"k", b"v", []) for n, at in enumerate(times)]
        partition = self.partition(topic, index)

        async def append() -> None:
            data = memoryview(bytearray(encode_batch(records, **batch)))
            partition.append(data, partition.log.check(data, T), T)

        self.run(append())

    def settings(self, topic: str, *keys: str) -> dict[str, tuple[str | None, int]]:
        """Value and source of some of a topic's settings."""
        resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": keys}
        answer = self.ask("describe_configs", 4, resources=[resource])
        (result,) = answer["results"]
        return {each["name"]: (each["value"], each["config_source"]) for each in result["configs"]}


@pytest.fixture
def build_house() -> Iterator[Callable[..., House]]:
    """For brokers whose outside is not the usual one: `build_house({...}, clock=...)`."""
    built: list[House] = []

    def build_one(settings: Mapping[str, str] | None = None, **outside: Any) -> House:
        built.append(House(settings or {}, **outside))
        return built[-1]

    yield build_one
    for each in built:
        each.close()


@pytest.fixture
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    """A broker; `@pytest.mark.parametrize("house", [{...}], indirect=True)` configures it."""
    made = House(getattr(request, "param", {}))
    yield made
    made.close()
