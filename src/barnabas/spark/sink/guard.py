"""Nobody else in the transaction: what a task asks before and after it writes to a partition, and
what the driver asks before it commits.

All tasks of a batch write as one producer, each with sequence numbers of its own from 0 on. Of two
that meet on a partition, a broker may take the second's first batch for a repeat of the first's,
and say that all is well. So every answer that may be about somebody else's batch is held against
the batch that is stored; and the driver commits only what the tasks that count have written, to the
last row.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from crc32c import crc32c

from barnabas.model.errors import DecodeError, ErrorCode, KafkaError
from barnabas.spark.cluster.cluster import Cluster
from barnabas.spark.cluster.retrying import check
from barnabas.spark.cluster.transactions import (
    ActiveProducer,
    Producer,
    active_producer,
    active_producers,
)
from barnabas.spark.errors import SharedPartitionError, SparkJobError, UnavailableError
from barnabas.spark.places import Place, listed
from barnabas.spark.sink.outcomes import Duplicate, OutOfOrderSequenceError
from barnabas.wire.apis import FETCH
from barnabas.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages import newest_type
from barnabas.wire.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    parse_header,
)

DESCRIBE_TRANSACTIONS: Final = 65
ABORTED: Final = frozenset({"PrepareAbort", "CompleteAbort"})

_OFFSETS_TOPIC: Final = "__consumer_offsets"
_FETCH_VERSION_MAX: Final = 10
"""As the source: from 11 on an answer that looks empty may mean that a follower is to be asked."""


class Numbers(NamedTuple):
    """What one task has written to one partition."""

    rows: int
    last_sequence: int


class Transaction(NamedTuple):
    """What the coordinator knows of a transactional id."""

    state: str
    producer: Producer
    places: frozenset[Place]
    """Partitions that were written to, without those that hold offsets."""


def describe_transaction(cluster: Cluster, transactional_id: str) -> Transaction:
    """How a transactional id stands just now."""
    asked = newest_type(DESCRIBE_TRANSACTIONS, "request")(transactional_ids=(transactional_id,))
    what = f"Asking how the transaction of {transactional_id} stands"

    def described() -> Transaction:
        broker = cluster.coordinator("transaction", transactional_id)
        (found,) = broker.ask(DESCRIBE_TRANSACTIONS, asked).transaction_states
        check(found.error_code)
        places = frozenset(
            Place(topic.topic, partition)
            for topic in found.topics
            for partition in topic.partitions
            if topic.topic != _OFFSETS_TOPIC
        )
        return Transaction(
            found.transaction_state, Producer(found.producer_id, found.producer_epoch), places
        )

    return cluster.retrying(what, described)


def shared(places: Collection[Place], why: str) -> SharedPartitionError:
    """The sentence for two tasks on one partition."""
    return SharedPartitionError(
        f"Two tasks of this exactly-once write meet on {listed(places)} ({why}), so nothing of the "
        "batch is committed: write barnabas.spark.to_topic(df, ...), which brings all rows of a "
        "partition into one task; if the rows came from it, Spark has run a task twice, so set "
        "spark.stage.maxConsecutiveAttempts=1 and start the query again."
    )


class PartitionGuard:
    """A task's watch over the partitions it writes to as `producer`."""

    def __init__(self, cluster: Cluster, producer: Producer, codec: int) -> None:
        """`codec` is the one that the task's batches are sent with."""
        self._cluster = cluster
        self._producer = producer
        self._codec = codec

    def before_first(self, places: Collection[Place]) -> None:
        """SharedPartitionError where the producer has written in this batch already."""
        known = active_producers(self._cluster, places, self._producer.id)
        taken = [place for place in places if self._has_written(known[place])]
        if taken:
            raise shared(taken, "rows of this batch are there already")

    def _has_written(self, known: ActiveProducer | None) -> bool:
        return (
            known is not None and known.epoch == self._producer.epoch and known.last_sequence >= 0
        )

    def check_repeats(self, repeats: Iterable[Duplicate]) -> None:
        """SharedPartitionError where what is stored is not what this task has sent."""
        for repeat in repeats:
            if repeat.base_offset < 0:
                if repeat.resent:
                    raise _unsure(repeat.place)
                raise shared([repeat.place], "a batch was taken for a repeat")
            stored = self._stored_batch(repeat.place, repeat.base_offset)
            header = parse_header(stored)
            if not self._is_sent(repeat, header, stored):
                raise shared([repeat.place], "the batch of another task stands in its place")

    def _is_sent(self, sent: Duplicate, stored: BatchHeader, data: memoryview) -> bool:
        same_place = (
            Producer(stored.producer_id, stored.producer_epoch) == self._producer
            and stored.base_offset == sent.base_offset
            and stored.base_sequence == sent.sequence
            and stored.count == sent.rows
        )
        if not same_place:
            return False
        if stored.crc == sent.crc:
            return True
        # The broker may have put its own time into the header, but never into the records.
        if crc32c(data[HEADER_BYTES : stored.size]) == sent.records_crc:
            return True
        if stored.attributes & CODEC_MASK == self._codec:
            return False
        # The broker has packed the records anew: nothing is left to compare.
        if sent.resent:
            raise _unsure(sent.place)
        # With the broker's time every batch is told as one that may be a repeat.
        return bool(stored.attributes & LOG_APPEND_TIME)

    def _stored_batch(self, place: Place, offset: int) -> memoryview:
        """The batch at an offset, committed or not."""
        partition = FetchPartition(place.partition, -1, offset, -1, -1, 1)
        request = FetchRequest(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(place.topic, None, [partition])],
            forgotten=[],
        )

        def attempt() -> memoryview:
            broker = self._cluster.broker(self._cluster.leaders([place])[place])
            version = broker.version(FETCH, at_most=_FETCH_VERSION_MAX)
            try:
                response = broker.link.fetch(version, request)
            except BaseException:
                broker.close()
                raise
            check(ErrorCode(response.error))
            if not response.topics or not response.topics[0].partitions:
                raise DecodeError(f"an answer without {place}, which was asked for")
            result = response.topics[0].partitions[0]
            check(ErrorCode(result.error))
            data = memoryview(result.records or b"")
            if len(data) < HEADER_BYTES or len(data) < parse_header(data).size:
                # Acknowledged, but a new leader does not show it yet.
                raise KafkaError(ErrorCode.offset_not_available, "the batch is not shown yet")
            return data

        return self._cluster.retrying(f"Reading the batch at {offset} of {place}", attempt)

    def out_of_order(self, problem: OutOfOrderSequenceError, acked: int) -> SparkJobError:
        """What a gap in the sequence means, when all up to `acked` was acknowledged (-1: none)."""
        known = active_producer(self._cluster, problem.place, self._producer.id)
        last = known.last_sequence if known is not None and self._has_written(known) else -1
        if last < acked:
            return UnavailableError(
                f"{problem.place} has lost rows that it had acknowledged in this batch, up to "
                f"sequence {acked}, as after an unclean election: nothing of the batch is "
                "committed, so start the query again to have it written once more."
            )
        return shared([problem.place], "sequence numbers do not follow each other")


def _unsure(place: Place) -> UnavailableError:
    return UnavailableError(
        f"A batch for {place} was sent twice after a lost answer, and what is stored can not be "
        "compared with it (the topic has a compression.type of its own): nothing of the batch is "
        "committed, so start the query again to have it written once more."
    )


def gather(written: Iterable[Mapping[Place, Numbers]]) -> dict[Place, Numbers]:
    """What all tasks together have written; SharedPartitionError where two name one partition."""
    gathered: dict[Place, Numbers] = {}
    twice: set[Place] = set()
    for by_place in written:
        twice |= gathered.keys() & by_place.keys()
        gathered.update(by_place)
    if twice:
        raise shared(sorted(twice), "both say that they have written to it")
    return gathered


def check_transaction(
    cluster: Cluster, transactional_id: str, producer: Producer, written: Mapping[Place, Numbers]
) -> None:
    """SparkJobError unless what is about to be committed is what the tasks have reported.

    A task that Spark has given up on may have written where its successor did not, and a broker
    may have lost what it had acknowledged.
    """
    described = describe_transaction(cluster, transactional_id)
    if described.producer != producer:
        raise KafkaError(ErrorCode.producer_fenced, transactional_id)
    strange = described.places ^ written.keys()
    if strange:
        raise UnavailableError(
            f"The transaction of this batch is about other partitions ({listed(sorted(strange))}) "
            "than its tasks have reported, as after a task that Spark ran twice: nothing of it is "
            "committed, so start the query again to have it written once more."
        )
    if not written:
        return
    known = active_producers(cluster, written.keys(), producer.id)
    for place, numbers in written.items():
        state = known[place]
        expected = ActiveProducer(producer.epoch, numbers.last_sequence)
        if state != expected:
            found = "nothing" if state is None else f"epoch {state.epoch} at {state.last_sequence}"
            raise UnavailableError(
                f"{place} should end at sequence {numbers.last_sequence} of this batch, but holds "
                f"{found}: rows were lost, or written by a task that Spark ran twice. Nothing is "
                "committed, so start the query again to have the batch written once more."
            )


def was_aborted(described: Transaction, producer: Producer) -> bool:
    """Whether the transaction was aborted with nobody having taken over since."""
    return described.state in ABORTED and described.producer in (
        producer,
        Producer(producer.id, producer.epoch + 1),
    )
