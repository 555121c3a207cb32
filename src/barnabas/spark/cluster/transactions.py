"""Transactions that several processes share, in both of Kafka's protocols.

With transaction.version 2 (KIP-890) partitions and groups join a transaction by being written to,
and every end gives the producer a new epoch. Before it, each is added by a request of its own, and
the epoch stays. Every request here may be repeated: also an end whose answer was lost.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.link.broker import Broker
from barnabas.model.errors import ErrorCode
from barnabas.spark.cluster.grouping import by_topic
from barnabas.spark.cluster.groups import check_committed
from barnabas.spark.cluster.retrying import check
from barnabas.spark.places import Place, listed
from barnabas.wire.messages import newest_type
from barnabas.wire.reshape import element_type

if TYPE_CHECKING:
    from barnabas.spark.cluster.cluster import Cluster

INIT_PRODUCER_ID: Final = 22
ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
TXN_OFFSET_COMMIT: Final = 28
DESCRIBE_PRODUCERS: Final = 61

_TRANSACTION_VERSION: Final = "transaction.version"
_NEWEST: Final = 2
_CLIENTS_ADD_UP_TO: Final = 3
"""AddPartitionsToTxn's later versions are for brokers among themselves."""

_OLD_COMMIT: Final = 4
_OLD_END: Final = 4
"""The last versions of TxnOffsetCommit and EndTxn with the old protocol's meaning."""


class Producer(NamedTuple):
    """Who writes: every process that knows both numbers is the same producer."""

    id: int
    epoch: int


class ActiveProducer(NamedTuple):
    """What a partition remembers of a producer."""

    epoch: int
    last_sequence: int
    """-1 after the end of a transaction, before anything is written in the next."""


def uses_newest_protocol(cluster: "Cluster") -> bool:
    """Whether the cluster has agreed on transaction.version 2: Produce 12, EndTxn 5 and so on."""
    return cluster.retrying(
        "Asking for the cluster's features", lambda: _is_newest(cluster.any_broker())
    )


def _is_newest(broker: Broker) -> bool:
    level = broker.features.get(_TRANSACTION_VERSION, 0)
    return level >= _NEWEST and broker.version(END_TXN) > _OLD_END


def init_producer_id(
    cluster: "Cluster", transactional_id: str | None, timeout_ms: int = 60_000
) -> Producer:
    """A producer of one's own. With a transactional id: whoever had it is fenced, and its open
    transaction aborted, before this returns.
    """
    asked = newest_type(INIT_PRODUCER_ID, "request")(
        transactional_id=transactional_id, transaction_timeout=timedelta(milliseconds=timeout_ms)
    )

    def attempt(broker: Broker) -> Producer:
        answer = broker.ask(INIT_PRODUCER_ID, asked)
        check(answer.error_code)
        return Producer(answer.producer_id, answer.producer_epoch)

    if transactional_id is None:
        return cluster.retrying("Asking for a producer id", lambda: attempt(cluster.any_broker()))
    what = f"Taking over the transactional id {transactional_id}"
    return cluster.ask_coordinator(what, "transaction", transactional_id, attempt)


def add_partitions(
    cluster: "Cluster", transactional_id: str, producer: Producer, places: Collection[Place]
) -> None:
    """Before the first write to each, in the old protocol; the newest needs no such thing."""
    if not places:
        return
    request = newest_type(ADD_PARTITIONS_TO_TXN, "request")
    transaction_type = element_type(request, "transactions")
    topic_type = element_type(transaction_type, "topics")
    transaction = transaction_type(
        transactional_id=transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        topics=tuple(
            topic_type(name=topic, partitions=tuple(numbers))
            for topic, numbers in by_topic(places).items()
        ),
    )

    def attempt(broker: Broker) -> None:
        answer = broker.ask(
            ADD_PARTITIONS_TO_TXN,
            request(transactions=(transaction,)),
            at_most=_CLIENTS_ADD_UP_TO,
        )
        (result,) = answer.results_by_transaction
        codes = [
            each.partition_error_code
            for topic in result.topic_results
            for each in topic.results_by_partition
        ]
        # One that is refused keeps the others out: they say no more than that.
        codes.sort(key=lambda code: code is ErrorCode.operation_not_attempted)
        for code in codes:
            check(code)

    what = f"Adding {listed(places)} to the transaction of {transactional_id}"
    cluster.ask_coordinator(what, "transaction", transactional_id, attempt)


def commit_offsets_in(
    cluster: "Cluster",
    transactional_id: str,
    producer: Producer,
    group: str,
    offsets: Mapping[Place, tuple[int, str]],
    *,
    newest: bool | None = None,
) -> None:
    """Offsets and their metadata, which become the group's when the transaction commits.

    `newest` is the protocol in which the transaction was begun; the cluster's, if not told.
    """
    newest = uses_newest_protocol(cluster) if newest is None else newest
    if not newest:
        _add_offsets(cluster, transactional_id, producer, group)
    request = newest_type(TXN_OFFSET_COMMIT, "request")
    topic_type = element_type(request, "topics")
    partition_type = element_type(topic_type, "partitions")

    def partition(place: Place) -> object:
        offset, metadata = offsets[place]
        return partition_type(
            partition_index=place.partition,
            committed_offset=offset,
            committed_metadata=metadata,
        )

    asked = request(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        topics=tuple(
            topic_type(
                name=topic, partitions=tuple(partition(Place(topic, number)) for number in numbers)
            )
            for topic, numbers in by_topic(offsets).items()
        ),
    )

    def attempt(broker: Broker) -> None:
        answer = broker.ask(TXN_OFFSET_COMMIT, asked, at_most=None if newest else _OLD_COMMIT)
        check_committed(cluster, answer)

    what = f"Committing offsets of the group {group} in the transaction of {transactional_id}"
    cluster.ask_coordinator(what, "group", group, attempt)


def _add_offsets(cluster: "Cluster", transactional_id: str, producer: Producer, group: str) -> None:
    asked = newest_type(ADD_OFFSETS_TO_TXN, "request")(
        transactional_id=transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        group_id=group,
    )
    what = f"Adding the group {group} to the transaction of {transactional_id}"
    cluster.ask_coordinator(
        what,
        "transaction",
        transactional_id,
        lambda broker: check(broker.ask(ADD_OFFSETS_TO_TXN, asked).error_code),
    )


def end(
    cluster: "Cluster",
    transactional_id: str,
    producer: Producer,
    *,
    commit: bool,
    newest: bool | None = None,
) -> Producer:
    """Commit or abort; the producer as it may go on writing. `newest` as above.

    FencedError, or a SparkJobError after patience_s, leaves open whether it was done: the
    offsets committed in it tell.
    """
    newest = uses_newest_protocol(cluster) if newest is None else newest
    asked = newest_type(END_TXN, "request")(
        transactional_id=transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        committed=commit,
    )

    def attempt(broker: Broker) -> Producer:
        answer = broker.ask(END_TXN, asked, at_most=None if newest else _OLD_END)
        check(answer.error_code)
        if answer.producer_id < 0:
            return producer
        return Producer(answer.producer_id, answer.producer_epoch)

    what = f"{'Committing' if commit else 'Aborting'} the transaction of {transactional_id}"
    return cluster.ask_coordinator(what, "transaction", transactional_id, attempt)


def active_producer(cluster: "Cluster", place: Place, producer_id: int) -> ActiveProducer | None:
    """What the leader of a partition remembers of a producer; None if it never wrote there."""
    return active_producers(cluster, [place], producer_id)[place]


def active_producers(
    cluster: "Cluster", places: Collection[Place], producer_id: int
) -> dict[Place, ActiveProducer | None]:
    """The same of many partitions."""
    request = newest_type(DESCRIBE_PRODUCERS, "request")
    topic_type = element_type(request, "topics")

    def ask(
        broker: Broker, theirs: list[Place]
    ) -> Iterator[tuple[Place, ErrorCode, ActiveProducer | None]]:
        topics = tuple(
            topic_type(name=topic, partition_indexes=tuple(numbers))
            for topic, numbers in by_topic(theirs).items()
        )
        for topic in broker.ask(DESCRIBE_PRODUCERS, request(topics=topics)).topics:
            for each in topic.partitions:
                states = {
                    known.producer_id: ActiveProducer(known.producer_epoch, known.last_sequence)
                    for known in each.active_producers
                }
                place = Place(topic.name, each.partition_index)
                yield place, each.error_code, states.get(producer_id)

    return cluster.ask_leaders(f"Asking who writes to {listed(places)}", places, ask)
