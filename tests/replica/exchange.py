"""Replicas of one partition that ask and answer each other: all of Fetch, but no network."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tests.replica.conftest import NOW_MS, GatedWork

from barnabas.api import fetch
from barnabas.api.context import Services
from barnabas.api.fetch_sessions import FetchSessions
from barnabas.cluster.image import Image, PartitionState, Topic
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.topic_config import TopicConfig
from barnabas.log.recovery import LogPlace, load_log
from barnabas.model.stops import Stop
from barnabas.model.topics import TopicPartition
from barnabas.ports.exchange import Later, Peer
from barnabas.ports.files import Files
from barnabas.replica.copying import Copier, question
from barnabas.replica.partition import Partition
from barnabas.replica.service import HostedTopic
from barnabas.sim.clock import SimClock
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.loop import SimLoop
from barnabas.wire.fetch import FetchPartition, FetchPartitionResult, FetchRequest, FetchTopic
from barnabas.wire.fetch_client import encode_fetch_request, parse_fetch_response
from barnabas.wire.headers import parse_request_header, parse_response_header, request_header
from barnabas.wire.records.batch import walk
from barnabas.wire.records.record import decode_batch, encode_batch
from barnabas.world.memory import MemoryFiles

PLACE = TopicPartition("events", 0)
TOPIC_ID = uuid.UUID(int=7)
_FETCH, _VERSION = 1, 18
Stored = tuple[int, int, bytes | None]
"""Offset, leader epoch and value of a record."""


@dataclass
class Found:
    """What a Fetch looks for in `Replicas`."""

    by_id: dict[bytes, HostedTopic] = field(default_factory=dict)
    by_name: dict[str, HostedTopic] = field(default_factory=dict)
    generation: int = 0


@dataclass
class Desk:
    """What a Fetch needs of a broker."""

    image: Image
    replicas: Found
    sessions: FetchSessions
    clock: SimClock

    @property
    def cluster(self) -> "Desk":
        return self


class Replica:
    """One broker's copy of the partition."""

    def __init__(
        self, loop: SimLoop, me: int, state: PartitionState, config: TopicConfig | None = None
    ) -> None:
        self.me = me
        self.broker_epoch = 100 + me
        self.work = GatedWork()
        self.files: Files = MemoryFiles()
        self.files.make_dirs("data/events-0")
        self.failures: list[str] = []
        self.clock = SimClock(loop)
        self.copier = Copier(self.clock)
        self._loop = loop
        self._config = config or TopicConfig()
        self.open(state, 0)

    def open(self, state: PartitionState, known_committed: int, *, clean: bool = False) -> None:
        """Begin to serve what is on the disk."""
        stop = Stop.CLEAN if clean else Stop.LOSSY
        place = LogPlace(self.files, "data/events-0", PLACE, self._config, stop=stop)
        self.log = load_log(place, NOW_MS)
        self.partition = Partition(self.log, state.leader_epoch, self.work, self.failures.append)
        topic = Topic("events", TOPIC_ID, (state,), {}, self._config)
        hosted = HostedTopic(topic, self.me, {0: self.partition})
        config = BrokerConfig({"node.id": str(self.me)})
        self._desk = Desk(
            Image(cluster_id="c", controller_id=1, brokers={}, config=config).with_topics([topic]),
            Found({TOPIC_ID.bytes: hosted}, {"events": hosted}),
            FetchSessions(self.clock, SimEntropy(self.me)),
            self.clock,
        )
        self.partition.begin(self.me, state, known_committed, self._loop.time())

    def assume(self, state: PartitionState) -> None:
        self.partition.assume(self.me, state, self._loop.time())

    def append(self, *values: bytes, everywhere: bool = False) -> Any:
        data = memoryview(bytearray(encode_batch([(NOW_MS, b"k", each, []) for each in values])))
        header = self.log.check(data, NOW_MS)
        return self.partition.append(data, header, NOW_MS, everywhere=everywhere)[1]

    def question(self, max_bytes: int = 1 << 20) -> FetchPartition:
        return question(self.partition, self.partition.leader_epoch, max_bytes)

    async def answer(
        self, asker: "Replica", part: FetchPartition, wait_ms: int = 0, max_bytes: int = 1 << 20
    ) -> FetchPartitionResult:
        """This broker's answer to a Fetch, by way of the bytes of both."""
        request = FetchRequest(
            asker.me, asker.broker_epoch, wait_ms, 1, max_bytes, 0, 0, -1,
            [FetchTopic(None, TOPIC_ID.bytes, [part])], [],
        )  # fmt: skip
        frame = bytearray(request_header(_FETCH, _VERSION, 1, "follower"))
        frame += encode_fetch_request(_VERSION, request)
        view = memoryview(frame)
        header = parse_request_header(view)
        peer = Peer(1, ("a", 1), ("b", 2))
        reply = fetch.handle(cast(Services, self._desk), peer, header, view)
        frames = await reply.coroutine if isinstance(reply, Later) else reply
        assert frames is not None
        answer = b"".join(frames)
        _, body_at = parse_response_header(_FETCH, _VERSION, answer)
        response = parse_fetch_response(_VERSION, memoryview(answer), body_at)
        assert response.error == 0
        (topic,) = response.topics
        (result,) = topic.partitions
        return result

    async def copy_from(self, leader: "Replica", max_bytes: int = 1 << 20) -> bool:
        """One question and what comes of it; whether it went well."""
        epoch = self.partition.leader_epoch
        result = await leader.answer(self, self.question(max_bytes), max_bytes=max_bytes)
        return self.copier.take(self.partition, epoch, result)

    async def catch_up(self, leader: "Replica", rounds_max: int = 50) -> None:
        """Copy until there is no more, and both know what is committed."""
        for _ in range(rounds_max):
            before = self.log.end_offset, self.log.epochs.entries, self.partition.high_watermark
            assert await self.copy_from(leader), "the leader refuses"
            if before == (
                self.log.end_offset,
                self.log.epochs.entries,
                self.partition.high_watermark,
            ):
                return
        raise AssertionError("a follower does not come to an end")

    def records(self) -> list[Stored]:
        return list(records_in(self.bytes()))

    def bytes(self) -> bytes:
        """All segments, one after the other."""
        return log_bytes(self.log)


def log_bytes(log: Any) -> bytes:
    return b"".join(bytes(each.file.pread(each.size, 0)) for each in log.segments)


def records_in(data: bytes) -> Iterator[Stored]:
    for position, header in walk(data):
        for record in decode_batch(data, position):
            yield record.offset, header.leader_epoch, record.value


def state(
    leader: int, epoch: int, isr: Sequence[int], version: int = 0, replicas: Sequence[int] = (1, 2)
) -> PartitionState:
    return PartitionState(leader, epoch, tuple(replicas), tuple(isr), version)
