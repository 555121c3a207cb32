"""Whole brokers on a simulated loop: virtual time, a simulated disk, a simulated network."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.create_topics.v7.request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.describe_configs.v4.request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta

from barnabas.broker.broker import Broker
from barnabas.broker.outside import Outside
from barnabas.config.broker_config import BrokerConfig
from barnabas.link.aio import Link, connect
from barnabas.model.errors import ErrorCode
from barnabas.sim.clock import SimClock
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles
from barnabas.sim.loop import SimLoop, run
from barnabas.sim.work import SimWork
from barnabas.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.produce import (
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceTopic,
)
from barnabas.wire.records.batch import walk
from barnabas.wire.records.record import decode_batch, encode_batch
from barnabas.world.embedded import EmbeddedCoordination

HOST, PORT = "127.0.0.1", 9092


class Client:
    """One connection that knows what to ask."""

    def __init__(self, link: Link, clock: SimClock) -> None:
        self.link = link
        self._clock = clock

    async def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        settings = tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        )
        topic = CreatableTopic(
            name=TopicName(name),
            num_partitions=i32(partitions),
            replication_factor=i16(1),
            assignments=(),
            configs=settings,
        )
        request = CreateTopicsRequest(topics=(topic,), timeout=_seconds(30), validate_only=False)
        (result,) = (await self.link.call(19, 7, request)).topics
        assert result.error_code is ErrorCode.none, result

    async def delete(self, name: str) -> None:
        request = DeleteTopicsRequest(
            topics=(DeleteTopicState(name=TopicName(name), topic_id=None),),
            timeout=_seconds(30),
        )
        (result,) = (await self.link.call(20, 6, request)).responses
        assert result.error_code is ErrorCode.none, result

    async def metadata(self, name: str) -> Any:
        """The whole answer about one topic."""
        topics = (MetadataRequestTopic(topic_id=None, name=TopicName(name)),)
        request = MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        return await self.link.call(3, 13, request)

    async def setting(self, topic: str, key: str) -> str | None:
        resource = DescribeConfigsResource(
            resource_type=i8(2), resource_name=topic, configuration_keys=(key,)
        )
        request = DescribeConfigsRequest(
            resources=(resource,), include_synonyms=False, include_documentation=False
        )
        (result,) = (await self.link.call(32, 4, request)).results
        value: str | None = result.configs[0].value
        return value

    async def produce(
        self, topic: str, *values: bytes, producer: tuple[int, int, int] | None = None
    ) -> ProducePartitionResult:
        producer_id, epoch, sequence = producer or (-1, -1, -1)
        batch = encode_batch(
            [(self._clock.wall_ms(), b"k", value, []) for value in values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        part = ProducePartition(0, memoryview(batch))
        request = ProduceRequest(None, -1, 30_000, [ProduceTopic(topic, None, [part])])
        response = await self.link.produce(9, request)
        assert response is not None
        return response.topics[0].partitions[0]

    async def fetch(
        self, topic: str, offset: int, *, wait_ms: int = 0, min_bytes: int = 1
    ) -> tuple[ErrorCode, list[bytes | None]]:
        part = FetchPartition(0, -1, offset, -1, -1, 1 << 20)
        request = FetchRequest(
            -1, -1, wait_ms, min_bytes, 1 << 20, 0, 0, -1, [FetchTopic(topic, None, [part])], []
        )
        response = await self.link.fetch(12, request)
        (result,) = response.topics[0].partitions
        records = memoryview(bytes(result.records or b""))
        return ErrorCode(result.error), [
            record.value
            for position, _ in walk(records)
            for record in decode_batch(records, position)
            if record.offset >= offset
        ]


def _seconds(count: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(seconds=count))


@dataclass
class Life:
    """A broker that runs."""

    broker: Broker
    client: Client
    loop: SimLoop
    clock: SimClock
    work: SimWork
    failures: list[str] = field(default_factory=list)

    async def another_client(self) -> Client:
        return Client(await connect(HOST, PORT), self.clock)


class Machine:
    """A disk and a metadata store that outlive the brokers run on them."""

    def __init__(self, directory: Path) -> None:
        self.files = SimFiles(11, chances=Chances(cold=0.3))
        self.store = str(directory / "metadata.sqlite")
        self.lives = 0

    def live(
        self,
        scene: Callable[[Life], Coroutine[Any, Any, None]],
        *,
        ending: str = "stop",
        **settings: str,
    ) -> Life:
        """Start a broker, play the scene, and end it: by a stop, a kill or power loss."""
        self.lives += 1
        return run(lambda loop: self._live(loop, scene, ending, settings), f"life {self.lives}")

    async def _live(
        self, loop: SimLoop, scene: Callable[[Life], Any], ending: str, settings: dict[str, str]
    ) -> Life:
        clock, work = SimClock(loop), SimWork(loop, self.lives)
        outside = Outside(
            clock=clock,
            entropy=SimEntropy(self.lives),
            files=self.files,
            work=work,
            open_coordination=lambda _: EmbeddedCoordination(self.store),
        )
        failures: list[str] = []
        named = {key.replace("_", "."): value for key, value in settings.items()}
        listeners = f"PLAINTEXT://{HOST}:{PORT}"
        config = BrokerConfig({"listeners": listeners, "log.dirs": "data", **named})
        broker = Broker(config, outside, failures.append)
        assert await broker.start() == (HOST, PORT)
        client = Client(await connect(HOST, PORT), clock)
        life = Life(broker, client, loop, clock, work, failures)
        await scene(life)
        await client.link.close()
        if ending == "stop":
            await broker.stop()
            return life
        work.kill()
        self.files = self.files.crash() if ending == "power" else self.files.kill()
        await broker.abandon()
        return life


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
