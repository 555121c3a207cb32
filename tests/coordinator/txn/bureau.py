"""A transaction coordinator in virtual time: its log, partitions that take markers, topics."""

import asyncio
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from tests.coordinator.runtime.loose_log import LooseLog

from barnabas.cluster.image import BrokerNode, Image, PartitionState, Topic
from barnabas.cluster.topics import NewTopic, TopicResult
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.topic_config import TopicConfig
from barnabas.coordinator.txn.asks import (
    AddPartitions,
    DescribedTransaction,
    EndTransaction,
    InitProducer,
    TransactionState,
)
from barnabas.coordinator.txn.codec import TransactionCodec
from barnabas.coordinator.txn.service import TransactionCoordinator
from barnabas.coordinator.txn.transaction import Record
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import TRANSACTION_STATE, TopicPartition
from barnabas.model.transactions import (
    BUMPED_TRANSACTIONS,
    NOBODY,
    Marker,
    ProducerIdentity,
)
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.loop import SimLoop
from barnabas.wire.records.batch import walk
from barnabas.wire.records.record import decode_batch, encode_batch

T = TypeVar("T")

WALL_MS = 1_700_000_000_000
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class LoopClock:
    """Whatever the loop says."""

    def wall_ms(self) -> int:
        return WALL_MS + int(asyncio.get_running_loop().time() * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class Kept(NamedTuple):
    """What a partition remembers of a producer."""

    epoch: int
    coordinator_epoch: int
    open_epoch: int | None
    """Of the batches of its open transaction."""


class Partitions:
    """Every partition there is, with Kafka's rules for markers; it fails as it is told to."""

    def __init__(self) -> None:
        self.kept: dict[tuple[TopicPartition, int], Kept] = {}
        self.written: list[tuple[Marker, TopicPartition]] = []
        self.trouble: Callable[[TopicPartition], ErrorCode] = lambda _: ErrorCode.none
        self.lost_answers: Callable[[TopicPartition], bool] = lambda _: False
        self.slowness_s: Callable[[], float] = lambda: 0.0
        self.defects = 0
        self.watch: Callable[[Marker, TopicPartition, Kept | None], None] = lambda *_: None

    async def write(
        self, marker: Marker, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        if self.defects:
            self.defects -= 1
            raise RuntimeError("a defect")
        await asyncio.sleep(self.slowness_s())
        return {each: self._write(marker, each) for each in partitions}

    def _write(self, marker: Marker, partition: TopicPartition) -> ErrorCode:
        trouble = self.trouble(partition)
        if trouble is not ErrorCode.none:
            return trouble
        kept = self.kept.get((partition, marker.producer_id))
        if kept is not None:
            late = marker.epoch < kept.epoch or (
                marker.transaction_version >= BUMPED_TRANSACTIONS
                and marker.epoch == kept.epoch
                and kept.open_epoch is not None
            )
            if late:
                return ErrorCode.invalid_producer_epoch
            if marker.coordinator_epoch < kept.coordinator_epoch:
                return ErrorCode.transaction_coordinator_fenced
        self.watch(marker, partition, kept)
        self.written.append((marker, partition))
        self.kept[partition, marker.producer_id] = Kept(
            marker.epoch, marker.coordinator_epoch, None
        )
        if self.lost_answers(partition):
            return ErrorCode.request_timed_out
        return ErrorCode.none

    def append(self, partition: TopicPartition, producer: ProducerIdentity) -> bool:
        """Whether a transactional batch is taken."""
        key = partition, producer.producer_id
        kept = self.kept.get(key, Kept(-1, -1, None))
        if producer.epoch < kept.epoch:
            return False
        self.kept[key] = Kept(producer.epoch, kept.coordinator_epoch, producer.epoch)
        return True

    def is_open(self, partition: TopicPartition, producer_id: int) -> bool:
        kept = self.kept.get((partition, producer_id))
        return kept is not None and kept.open_epoch is not None


class FewTopics:
    """As much of a cluster as a coordinator looks at."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        config = BrokerConfig({"node.id": "1", **settings})
        brokers = {1: BrokerNode(1, "127.0.0.1", 9092)}
        self.image = Image(cluster_id="c", controller_id=1, brokers=brokers, config=config)
        self.asked: list[NewTopic] = []
        self.refusal = ErrorCode.none
        for name in (TRANSACTION_STATE, "a", "b"):
            self.create(name)

    async def create_topics(self, topics: Sequence[NewTopic]) -> list[TopicResult]:
        self.asked += topics
        await asyncio.sleep(0)
        if self.refusal is ErrorCode.none:
            for topic in topics:
                self.create(topic.name)
        return [TopicResult(topic.name, self.refusal) for topic in topics]

    def create(self, name: str) -> None:
        partitions = (PartitionState(1, 0, (1,), (1,)),)
        self.image = self.image.with_topics(
            [Topic(name, uuid.uuid5(uuid.NAMESPACE_DNS, name), partitions, {}, _CONFIG)]
        )

    def delete(self, name: str) -> Topic:
        topic = self.image.topics[name]
        self.image = self.image.without_topics([topic])
        return topic


_CONFIG = TopicConfig.from_maps({}, {})


class Bureau:
    """A coordinator with one shard, and everything that it deals with."""

    def __init__(self, settings: Mapping[str, str], seed: int = 1) -> None:
        self.log = LooseLog()
        self.partitions = Partitions()
        self.cluster = FewTopics(settings)
        self.producer_ids = iter(range(1000, 100_000))
        self.id_trouble: Exception | None = None
        cluster: Any = self.cluster
        self.coordinator = TransactionCoordinator(
            cluster, LoopClock(), SimEntropy(seed), self.partitions, self._new_producer_id
        )

    async def _new_producer_id(self) -> int:
        await asyncio.sleep(0)
        if self.id_trouble is not None:
            raise self.id_trouble
        return next(self.producer_ids)

    def store(self, record: Record) -> None:
        """As if an earlier coordinator had written it."""
        key, value = TransactionCodec().encode(record)
        self.log.append(encode_batch([(WALL_MS, key, value, [])]), WALL_MS)

    async def elect(self) -> None:
        """Load the log anew, as the next leader does."""
        self.log.leader_epoch += 1
        self.coordinator.elect(0, self.log)
        await self.in_office()

    async def in_office(self) -> None:
        for _ in range(1000):
            try:
                await settled(self.coordinator.list())
            except KafkaError as error:
                if error.code is not ErrorCode.coordinator_load_in_progress:
                    raise
                await asyncio.sleep(0.1)
            else:
                return
        raise AssertionError("it is never loaded")

    def delete_topic(self, name: str) -> None:
        topic = self.cluster.delete(name)
        self.coordinator.topics_deleted([topic])

    # --- requests ------------------------------------------------------------------------------

    async def init(
        self, name: str = "x", claimed: ProducerIdentity = NOBODY, timeout_ms: int = 60_000
    ) -> ProducerIdentity:
        return await self.coordinator.init(
            InitProducer(
                transactional_id=name,
                timeout_ms=timeout_ms,
                claimed=claimed,
            )
        )

    async def add(
        self,
        producer: ProducerIdentity,
        *partitions: TopicPartition,
        name: str = "x",
        version: int = BUMPED_TRANSACTIONS,
    ) -> None:
        await settled(self.coordinator.add_partitions(_adding(name, producer, partitions, version)))

    async def verify(
        self, producer: ProducerIdentity, *partitions: TopicPartition, name: str = "x"
    ) -> Mapping[TopicPartition, ErrorCode]:
        return await settled(
            self.coordinator.verify_partitions(_adding(name, producer, partitions, 0))
        )

    async def end(
        self,
        producer: ProducerIdentity,
        *,
        committed: bool = True,
        name: str = "x",
        version: int = BUMPED_TRANSACTIONS,
    ) -> ProducerIdentity:
        return await settled(
            self.coordinator.end(
                EndTransaction(
                    transactional_id=name,
                    producer=producer,
                    committed=committed,
                    transaction_version=version,
                )
            )
        )

    async def describe(self, name: str = "x") -> DescribedTransaction:
        return await settled(self.coordinator.describe(name))

    async def state(self, name: str = "x") -> TransactionState:
        return (await self.describe(name)).state

    # --- the log -------------------------------------------------------------------------------

    def stored(self, *, committed: bool = True) -> Iterator[Record]:
        """Every record in the log, or every one that is committed."""
        codec = TransactionCodec()
        for last, batch in self.log.batches:
            if committed and last >= self.log.committed:
                return
            for position, _ in walk(batch):
                for record in decode_batch(memoryview(batch), position):
                    assert record.key is not None
                    decoded = codec.decode(record.key, record.value)
                    assert decoded is not None
                    yield decoded


def _adding(
    name: str, producer: ProducerIdentity, partitions: tuple[TopicPartition, ...], version: int
) -> AddPartitions:
    return AddPartitions(
        transactional_id=name,
        producer=producer,
        partitions=partitions,
        transaction_version=version,
    )


async def settled(answer: "T | asyncio.Future[T]") -> T:
    """The answer, when it comes."""
    return await answer if isinstance(answer, asyncio.Future) else answer


def run(
    story: Callable[[Bureau], Coroutine[Any, Any, None]], settings: Mapping[str, str] | None = None
) -> None:
    """The story, in virtual time, by a coordinator in office."""

    async def whole() -> None:
        bureau = Bureau(settings or {})
        await bureau.elect()
        await story(bureau)
        bureau.coordinator.close()

    with asyncio.Runner(loop_factory=lambda: SimLoop(seed=1)) as runner:
        runner.run(whole())
        loop = runner.get_loop()
        assert isinstance(loop, SimLoop)
        assert not loop.unhandled, loop.unhandled
