"""Transactional batches: none is appended unless the coordinator knows of its partition.

A producer's first batch in a partition waits until the transaction coordinator has been asked;
what the same producer sends there meanwhile queues behind it, and nobody else does. From then on
the partition itself knows that a transaction is open, and nothing is asked any more. Clients of
Produce v12 and newer have the partition added to the transaction by that question (KIP-890),
older ones must have added it before. One request asks one question, for all of its partitions.

A marker that is written while a batch waits ends what was asked about: the guard that the
partition gave out before the question is worth nothing then, and the batch is refused.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from barnabas.api.context import Services
from barnabas.api.produce_append import (
    Appended,
    append_checked,
    append_now,
    defer,
    refused,
)
from barnabas.coordinator.txn.asks import AddPartitions
from barnabas.log.validation import needs_records
from barnabas.log.verification import VERIFICATION_OFF, VerificationGuard
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import TopicPartition
from barnabas.model.transactions import (
    BUMPED_TRANSACTIONS,
    CLASSIC_TRANSACTIONS,
    NO_PRODUCER_ID,
    ProducerIdentity,
)
from barnabas.replica.partition import Partition
from barnabas.wire.produce import ProduceRequest
from barnabas.wire.records.batch import (
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    parse_header,
)

_ABORTABLE_FROM: Final = 11
_ADDS_FROM: Final = 12
_ATTRIBUTES_AT: Final = 22
"""The lower byte of them."""

_UNREACHABLE: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
"""Errors of a coordinator that a producer does not expect as the answer to its records."""


def refusal_of_all(request: ProduceRequest) -> KafkaError | None:
    """Why nothing of a request is taken, if its transactional batches do not belong together."""
    producers = {
        _producer_of(records)
        for _, _, partitions in request.topics
        for _, records in partitions
        if records is not None
        and len(records) >= HEADER_BYTES
        and records[_ATTRIBUTES_AT] & TRANSACTIONAL
    }
    producers.discard(None)
    if not producers:
        return None
    if request.transactional_id is None:
        return KafkaError(ErrorCode.transactional_id_authorization_failed)
    if len({each for each in producers if each is not None and each.producer_id >= 0}) > 1:
        return KafkaError(
            ErrorCode.invalid_producer_id_mapping, "The records are of more than one producer."
        )
    return None


def _producer_of(records: memoryview) -> ProducerIdentity | None:
    """Whose transactional batch it is; None if it is of an old format, or no batch."""
    header = parse_header(records)
    if header.magic != MAGIC:
        return None
    return ProducerIdentity(header.producer_id, header.producer_epoch)


class _Waiting(NamedTuple):
    """A batch that waits for the coordinator's word."""

    partition: Partition
    index: int  # type: ignore[assignment]  # a tuple's method of that name is not missed
    records: bytes
    batch: BatchHeader
    leader_epoch: int
    earlier: "asyncio.Task[Appended] | None"
    """The batch of the same producer that was sent to the same partition before."""
    everywhere: bool


_Verdict = VerificationGuard | KafkaError | None
"""A partition is written to with a guard, or without one as its transaction is open by now."""


class Transaction:
    """The part of a transaction that one Produce request brings."""

    __slots__ = ("_adds", "_asked", "_id", "_services", "_settings", "_version", "_waiting")

    def __init__(self, services: Services, version: int, transactional_id: str) -> None:
        self._services = services
        self._settings = services.cluster.image.config.transactions
        self._version = version
        self._adds = version >= _ADDS_FROM
        self._id = transactional_id
        self._waiting: list[_Waiting] = []
        self._asked: asyncio.Task[dict[Partition, _Verdict]] | None = None

    @property
    def guard(self) -> VerificationGuard | None:
        """For batches that need not wait for the coordinator's word."""
        return None if self._adds or self._settings.verification else VERIFICATION_OFF

    def must_wait(self, partition: Partition, batch: BatchHeader) -> bool:
        """Whether the coordinator has to be asked before the batch is appended."""
        producer_id = batch.producer_id
        if producer_id == NO_PRODUCER_ID:
            return False
        if (partition, producer_id) in self._services.verifying:
            return True
        if partition.has_open_transaction(producer_id, batch.producer_epoch):
            return False
        return self._adds or self._settings.verification

    def append(
        self,
        partition: Partition,
        index: int,
        records: memoryview,
        batch: BatchHeader,
        *,
        everywhere: bool,
    ) -> "asyncio.Task[Appended]":
        """Append once the coordinator agrees, in the order of such calls."""
        loop = asyncio.get_running_loop()
        verifying = self._services.verifying
        key = partition, batch.producer_id
        copy = bytes(records[: batch.size])
        epoch = partition.leader_epoch
        earlier = verifying.get(key)
        waiting = _Waiting(partition, index, copy, batch, epoch, earlier, everywhere)
        self._waiting.append(waiting)
        if self._asked is None:
            # It begins when the whole request has been looked at, so it asks for all of it.
            self._asked = loop.create_task(self._ask())
        task = verifying[key] = loop.create_task(self._append(self._asked, waiting))
        task.add_done_callback(partial(_forget, verifying, key))
        return task

    async def _append(
        self, asked: "asyncio.Task[dict[Partition, _Verdict]]", waiting: _Waiting
    ) -> Appended:
        partition, index, records, batch, epoch, _, everywhere = waiting
        verdict = (await asked)[partition]
        if isinstance(verdict, KafkaError):
            return refused(index, verdict)
        try:
            self._require_leader(partition, epoch)
            log = partition.log
            if partition.deferred or needs_records(batch, log.config):
                checked = append_checked(
                    self._services, partition, index, records, batch, verdict, everywhere=everywhere
                )
                return await defer(partition, checked)
            now_ms = self._services.clock.wall_ms()
            view = memoryview(bytearray(records))
            return append_now(partition, index, view, batch, now_ms, verdict, everywhere=everywhere)
        except KafkaError as error:
            return refused(index, error, partition, records)

    def _require_leader(self, partition: Partition, epoch: int) -> None:
        """While the batch waited, its topic may have been deleted, or made anew."""
        if self._services.replicas.find(*partition.log.partition) is not partition:
            raise KafkaError(ErrorCode.unknown_topic_or_partition)
        if partition.leader_epoch != epoch:
            raise KafkaError(ErrorCode.not_leader_or_follower)

    # --- asking --------------------------------------------------------------------------------

    async def _ask(self) -> dict[Partition, _Verdict]:
        """What shall become of the batches that wait, once those before them are through."""
        earlier = [each.earlier for each in self._waiting if each.earlier is not None]
        if earlier:
            await asyncio.wait(earlier)
        settings = self._settings
        loop = asyncio.get_running_loop()
        until = loop.time() + settings.add_retry_backoff_max_ms / 1000
        while True:
            verdicts = await self._verdicts()
            if not self._is_too_early(verdicts) or loop.time() >= until:
                return verdicts
            # The end of the producer's last transaction is still being written, which takes a
            # moment only; sending the records once more would take longer.
            await asyncio.sleep(settings.add_retry_backoff_ms / 1000)

    def _is_too_early(self, verdicts: Mapping[Partition, _Verdict]) -> bool:
        return self._adds and any(
            isinstance(each, KafkaError) and each.code is ErrorCode.concurrent_transactions
            for each in verdicts.values()
        )

    async def _verdicts(self) -> dict[Partition, _Verdict]:
        verdicts: dict[Partition, _Verdict] = {}
        unknown: dict[TopicPartition, Partition] = {}
        for partition, _, _, batch, _, _, _ in self._waiting:
            try:
                verdicts[partition] = self._guard(partition, batch)
                if verdicts[partition] is not None:
                    unknown[partition.log.partition] = partition
            except KafkaError as error:
                verdicts[partition] = KafkaError(error.code)  # A zombie is told no more.
        if unknown:
            for name, code in (await self._coordinators_word(tuple(unknown))).items():
                if code is not ErrorCode.none:
                    verdicts[unknown[name]] = _told(code, self._version)
        return verdicts

    def _guard(self, partition: Partition, batch: BatchHeader) -> VerificationGuard | None:
        """Taken before the coordinator is asked, so that it notices what happens meanwhile."""
        if partition.has_open_transaction(batch.producer_id, batch.producer_epoch):
            return None
        now_ms = self._services.clock.wall_ms()
        return partition.begin_verification(batch, now_ms, bumps_epochs=self._adds)

    async def _coordinators_word(
        self, partitions: tuple[TopicPartition, ...]
    ) -> Mapping[TopicPartition, ErrorCode]:
        batch = self._waiting[0].batch
        ask = AddPartitions(
            transactional_id=self._id,
            producer=ProducerIdentity(batch.producer_id, batch.producer_epoch),
            partitions=partitions,
            transaction_version=BUMPED_TRANSACTIONS if self._adds else CLASSIC_TRANSACTIONS,
        )
        coordinator = self._services.enrolment
        try:
            if not self._adds:
                verified = coordinator.verify_partitions(ask)
                return await verified if isinstance(verified, asyncio.Future) else verified
            added = coordinator.add_partitions(ask)
            if isinstance(added, asyncio.Future):
                await added
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        return {}


def _forget(
    verifying: "dict[tuple[Partition, int], asyncio.Task[Appended]]",
    key: tuple[Partition, int],
    task: "asyncio.Task[Appended]",
) -> None:
    if verifying.get(key) is task:
        del verifying[key]


def _told(code: ErrorCode, version: int) -> KafkaError:
    """A coordinator's error in the words that a producer understands at this place."""
    if code is ErrorCode.producer_fenced:
        return KafkaError(ErrorCode.invalid_producer_epoch)
    if code is ErrorCode.transaction_abortable and version < _ABORTABLE_FROM:
        code = ErrorCode.invalid_txn_state
    if code is ErrorCode.invalid_txn_state:
        return KafkaError(code, "The partition was not added to the transaction.")
    too_early = code is ErrorCode.concurrent_transactions and version < _ADDS_FROM
    if too_early or code in _UNREACHABLE:
        # One that is tried again, at once and without asking where the partition lives.
        return KafkaError(
            ErrorCode.not_enough_replicas,
            "It could not be verified that the partition was added to the transaction: "
            f"{code.name.upper()}.",
        )
    return KafkaError(code)
