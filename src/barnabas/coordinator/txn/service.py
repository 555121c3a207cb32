"""The transaction coordinator, as the APIs ask it: finds the shard, has it decide, and runs its
errands: markers to write, producer ids to take.

Every method answers at once, or with a future when the answer has to wait; either raises
KafkaError. PRODUCER_FENCED is what a request of the newest version is told.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from barnabas.cluster.image import Topic
from barnabas.cluster.service import Cluster
from barnabas.cluster.topics import NewTopic
from barnabas.config.transaction_settings import TransactionSettings
from barnabas.coordinator.java_hash import partition_of
from barnabas.coordinator.runtime.log import ShardLog
from barnabas.coordinator.runtime.runtime import Runtime
from barnabas.coordinator.runtime.topic import InternalTopic, replicas_to_ask_for
from barnabas.coordinator.runtime.turn import PARKED, Answer, Parked, Waiter
from barnabas.coordinator.txn.asks import (
    AddPartitions,
    DescribedTransaction,
    EndTransaction,
    InitProducer,
    TransactionListing,
)
from barnabas.coordinator.txn.codec import TransactionCodec
from barnabas.coordinator.txn.markers import Markers
from barnabas.coordinator.txn.transaction import NeedsProducerId, Record, Transaction
from barnabas.model.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model.topics import TRANSACTION_STATE, TopicPartition
from barnabas.model.transactions import NO_PRODUCER_ID, ProducerIdentity
from barnabas.ports.clock import Clock
from barnabas.ports.coordination import CoordinationError, CoordinationLostError
from barnabas.ports.entropy import Entropy

if TYPE_CHECKING:
    from barnabas.coordinator.txn.shard import Errand, TransactionShard, TransactionTurn

logger = logging.getLogger(__name__)

T = TypeVar("T")

_ErrandKey = tuple[int, str]
"""Partition and transactional id."""

_AGAIN_MS: Final = 20
_AGAIN_MS_MAX: Final = 2_000

_SETTLED: Final = frozenset(
    {
        ErrorCode.none,
        # No transaction could ever be written there.
        ErrorCode.unsupported_for_message_format,
        ErrorCode.unsupported_version,
        # A later transaction of the producer has been there: this one is over for the partition.
        ErrorCode.invalid_producer_epoch,
    }
)
"""Results after which a partition needs no marker any more. With any other it is tried again, as
long as the partition exists and this coordinator is in office."""


class TransactionCoordinator:
    """Every transactional id whose shard is in office at this broker."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        entropy: Entropy,
        markers: Markers,
        new_producer_id: Callable[[], Awaitable[int]],
    ) -> None:
        self._cluster = cluster
        self._entropy = entropy
        self._markers = markers
        self._new_producer_id = new_producer_id
        self._topic = InternalTopic(cluster, TRANSACTION_STATE, self._new_topic)
        self._errands: dict[_ErrandKey, asyncio.Task[None]] = {}
        self._patience_ms: dict[int, int] = {}
        """Of partitions into which the end of a transaction could not be written."""
        self._runtime: Runtime[Record, TransactionShard] = Runtime(
            TRANSACTION_STATE,
            self._new_shard,
            TransactionCodec(),
            clock,
            lambda: cluster.image,
        )

    def _settings(self) -> TransactionSettings:
        return self._cluster.image.config.transactions

    def _new_shard(self) -> "TransactionShard":
        # Imported when there are transactions to load: a broker without any starts quicker.
        from barnabas.coordinator.txn.shard import TransactionShard

        outbox = Waiter()
        outbox.answer = self._run
        return TransactionShard(self._settings, outbox)

    # --- office --------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Make sure there is a topic to keep transactions in."""
        await self._topic.ready()

    def _new_topic(self) -> NewTopic:
        settings = self._settings()
        replicas = replicas_to_ask_for(self._cluster.image, settings.replication_factor)
        return NewTopic(
            TRANSACTION_STATE,
            settings.partitions,
            replicas,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(min(settings.min_insync_replicas, replicas)),
                "segment.bytes": str(settings.segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )

    def elect(self, partition: int, log: ShardLog) -> None:
        """This broker leads a partition of `__transaction_state`."""
        self._stop_errands(partition)
        self._runtime.elect(partition, log)

    def resign(self, partition: int) -> None:
        """It does so no more."""
        self._stop_errands(partition)
        self._runtime.resign(partition)

    def topics_deleted(self, topics: Collection[Topic]) -> None:
        """Topics are gone."""
        self._runtime.topics_deleted(topics)

    def close(self) -> None:
        """Nobody is coordinated here any more: those who wait are told."""
        for partition in self._runtime.partitions():
            self._stop_errands(partition)
        self._runtime.close()

    def partition_of(self, transactional_id: str) -> int:
        """Where the id is kept. NOT_COORDINATOR while there is no topic."""
        topic = self._cluster.image.topics.get(TRANSACTION_STATE)
        if topic is None:
            raise KafkaError(ErrorCode.not_coordinator)
        return partition_of(transactional_id, len(topic.partitions))

    def _ask(
        self,
        transactional_id: str,
        decide: "Callable[[TransactionShard, TransactionTurn, Waiter], T | Parked]",
    ) -> Answer[T]:
        """A refusal, too, waits until what it tells of is committed: whoever is told that it was
        fenced gives up for good."""

        def decided(
            shard: "TransactionShard", turn: "TransactionTurn", waiter: Waiter
        ) -> T | Parked:
            try:
                return decide(shard, turn, waiter)
            except KafkaError as error:
                if turn.records:
                    raise  # Half done: a defect, which the runtime deals with.
                turn.refuse(waiter, error)
                return PARKED

        if not transactional_id:
            raise KafkaError(ErrorCode.invalid_request, "The transactional id is empty.")
        return self._runtime.ask(self.partition_of(transactional_id), decided)

    # --- producers and their transactions ------------------------------------------------------

    async def init(self, ask: InitProducer) -> ProducerIdentity:
        """InitProducerId with a transactional id."""
        from barnabas.coordinator.txn.init import check_init

        if ask.transactional_id:
            check_init(ask, self._settings())
        return await self._with_producer_id(lambda new_id: self._init(ask, new_id))

    def _init(
        self, ask: InitProducer, new_producer_id: int
    ) -> Answer[ProducerIdentity | NeedsProducerId]:
        return self._ask(
            ask.transactional_id,
            lambda shard, turn, waiter: shard.init(turn, waiter, ask, new_producer_id),
        )

    def add_partitions(self, ask: AddPartitions) -> Answer[None]:
        """AddPartitionsToTxn, and what other requests add by themselves."""
        return self._ask(
            ask.transactional_id, lambda shard, turn, _: shard.add_partitions(turn, ask)
        )

    def verify_partitions(self, ask: AddPartitions) -> Answer[Mapping[TopicPartition, ErrorCode]]:
        """Whether the partitions are in the transaction: TRANSACTION_ABORTABLE for those that are
        not; an error that concerns all of them is raised."""
        return self._ask(ask.transactional_id, lambda shard, *_: shard.verify_partitions(ask))

    def end(self, ask: EndTransaction) -> Answer[ProducerIdentity]:
        """EndTxn: who the producer is in its next transaction; NOBODY for the classic generation,
        where that does not change."""
        answer = self._end(ask, NO_PRODUCER_ID)
        if isinstance(answer, ProducerIdentity):
            return answer
        return asyncio.ensure_future(
            self._with_producer_id(lambda new_id: self._end(ask, new_id), answer)
        )

    def _end(
        self, ask: EndTransaction, new_producer_id: int
    ) -> Answer[ProducerIdentity | NeedsProducerId]:
        return self._ask(
            ask.transactional_id, lambda shard, turn, _: shard.end(turn, ask, new_producer_id)
        )

    async def _with_producer_id(
        self,
        ask: Callable[[int], Answer[ProducerIdentity | NeedsProducerId]],
        first: Answer[ProducerIdentity | NeedsProducerId] | None = None,
    ) -> ProducerIdentity:
        """Producer ids are not for nothing: one is taken when a shard can not do without."""
        answer = await _settled(ask(NO_PRODUCER_ID) if first is None else first)
        while not isinstance(answer, ProducerIdentity):
            answer = await _settled(ask(await self._take_producer_id()))
        return answer

    async def _take_producer_id(self) -> int:
        try:
            return await self._new_producer_id()
        except (BarnabasError, CoordinationError, CoordinationLostError) as error:
            raise KafkaError(ErrorCode.coordinator_load_in_progress, str(error)) from error

    # --- looking -------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Answer[DescribedTransaction]:
        """DescribeTransactions."""
        return self._ask(transactional_id, lambda shard, *_: shard.describe(transactional_id))

    def list(self) -> Answer[Sequence[TransactionListing]]:
        """ListTransactions: every id of every shard in office."""
        listings = [
            self._runtime.ask(partition, lambda shard, *_: shard.listing())
            for partition in self._runtime.partitions()
        ]
        if any(isinstance(each, asyncio.Future) for each in listings):
            return asyncio.ensure_future(_joined(listings))
        return [row for each in listings if not isinstance(each, asyncio.Future) for row in each]

    # --- errands -------------------------------------------------------------------------------

    def _run(self, errand: "Errand") -> None:
        """What a shard has left to be done. Only the last errand for an id counts: whatever was
        still being done for it is of an earlier shard, or of a state that has passed."""
        from barnabas.coordinator.txn.shard import Prepared

        transactional_id = errand.transaction.transactional_id
        try:
            key = self.partition_of(transactional_id), transactional_id
        except KafkaError:
            return  # The topic is gone, and every transaction with it.
        if isinstance(errand, Prepared):
            self._start(key, self._finish(key, errand.transaction, errand.coordinator_epoch))
        elif key not in self._errands:
            self._start(key, self._abort_timed_out(errand.transaction))

    def _start(self, key: _ErrandKey, work: Coroutine[Any, Any, None]) -> None:
        earlier = self._errands.pop(key, None)
        if earlier is not None:
            earlier.cancel()
        task = asyncio.get_running_loop().create_task(work)
        self._errands[key] = task

        def done(task: "asyncio.Task[None]") -> None:
            if self._errands.get(key) is task:
                del self._errands[key]

        task.add_done_callback(done)

    def _stop_errands(self, partition: int) -> None:
        for key in [key for key in self._errands if key[0] == partition]:
            self._errands.pop(key).cancel()
        self._patience_ms.pop(partition, None)

    async def _finish(self, key: _ErrandKey, prepared: Transaction, coordinator_epoch: int) -> None:
        """Have the markers written, and then that they are. Where that fails, the shard is loaded
        anew and says once more what was prepared: not at once again, as markers take room too."""
        partition, transactional_id = key
        waited_ms = self._patience_ms.get(partition, 0)
        await asyncio.sleep(waited_ms / 1000)
        if not await self._write_markers(prepared, coordinator_epoch):
            return
        try:
            await _settled(
                self._ask(transactional_id, lambda shard, turn, _: shard.complete(turn, prepared))
            )
        except KafkaError as error:
            logger.warning("the end of %s is still to be written: %s", transactional_id, error)
            self._patience_ms[partition] = min(max(waited_ms * 2, _AGAIN_MS), _AGAIN_MS_MAX)
        else:
            self._patience_ms.pop(partition, None)

    async def _write_markers(self, prepared: Transaction, coordinator_epoch: int) -> bool:
        """As often as it takes. Whoever is not in office any more leaves it to whoever is."""
        marker = prepared.marker(coordinator_epoch)
        remaining = self._existing(prepared.partitions)
        again_ms = _AGAIN_MS
        while remaining:
            if not self._at_shard(prepared, lambda shard, _: shard.awaits_markers(prepared)):
                return False
            try:
                results = await self._markers.write(marker, remaining)
            except Exception:
                logger.exception("a defect where markers are written: it is tried again")
                results = {}
            remaining = _unsettled(prepared, remaining, results)
            if remaining:
                await asyncio.sleep((again_ms + self._entropy.below(again_ms)) / 1000)
                again_ms = min(again_ms * 2, _AGAIN_MS_MAX)
                remaining = self._existing(remaining)
        return True

    def _existing(self, partitions: Iterable[TopicPartition]) -> Sequence[TopicPartition]:
        """Without those that were deleted meanwhile: nobody will ever read their markers."""
        topics = self._cluster.image.topics
        return [
            each
            for each in sorted(partitions)
            if each.topic in topics and each.partition < len(topics[each.topic].partitions)
        ]

    async def _abort_timed_out(self, transaction: Transaction) -> None:
        try:
            new_producer_id = await self._take_producer_id()
        except KafkaError as error:
            name = transaction.transactional_id
            logger.warning("%s has timed out and has to wait for a producer id: %s", name, error)
            return
        self._at_shard(
            transaction,
            lambda shard, turn: shard.abort_timed_out(turn, transaction, new_producer_id),
        )

    def _at_shard(
        self, transaction: Transaction, do: "Callable[[TransactionShard, TransactionTurn], T]"
    ) -> T | None:
        """What the shard says to it at once, committed or not; None if it is not in office."""
        said: list[T] = []
        try:
            self._runtime.ask(
                self.partition_of(transaction.transactional_id),
                lambda shard, turn, _: said.append(do(shard, turn)),
            )
        except KafkaError as error:
            logger.info("%s is left to its coordinator: %s", transaction.transactional_id, error)
        return said[0] if said else None


def _unsettled(
    prepared: Transaction,
    partitions: Collection[TopicPartition],
    results: Mapping[TopicPartition, ErrorCode],
) -> Sequence[TopicPartition]:
    """Those that still have no marker."""
    unsettled = []
    for partition in partitions:
        code = results.get(partition, ErrorCode.unknown_server_error)
        if code not in _SETTLED:
            unsettled.append(partition)
        if code is not ErrorCode.none:
            name = prepared.transactional_id
            logger.info("the end of %s in %s: %s", name, partition.directory, code.name)
    return unsettled


async def _settled(answer: Answer[T]) -> T:
    return await answer if isinstance(answer, asyncio.Future) else answer


async def _joined(
    listings: Iterable[Answer[list[TransactionListing]]],
) -> Sequence[TransactionListing]:
    return [row for each in listings for row in await _settled(each)]
