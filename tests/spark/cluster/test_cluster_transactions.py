"""Transactions in both protocols, with answers that are lost on the way."""

import pytest
from tests.compat.batches import Rec
from tests.spark.cluster.stage import Stage, make_topic, write

from barnabas.spark.cluster import transactions
from barnabas.spark.cluster.cluster import Cluster
from barnabas.spark.cluster.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_PRODUCERS,
    END_TXN,
    INIT_PRODUCER_ID,
    TXN_OFFSET_COMMIT,
    ActiveProducer,
    Producer,
)
from barnabas.spark.errors import FencedError, SparkJobError
from barnabas.spark.places import Place

BOTH = pytest.mark.parametrize("newest", [True, False], ids=["newest", "old"])


def put(
    cluster: Cluster,
    place: Place,
    tid: str,
    producer: Producer,
    *,
    newest: bool,
    records: int = 2,
    sequence: int = 0,
) -> None:
    """Some records in the transaction."""
    if not newest:
        transactions.add_partitions(cluster, tid, producer, [place])
    write(
        cluster,
        place,
        [Rec()] * records,
        transactional_id=tid,
        producer=producer,
        sequence=sequence,
        version=12 if newest else 11,
    )


def committed_end(cluster: Cluster, place: Place) -> int:
    return cluster.latest([place], committed=True)[place]


def test_what_the_cluster_speaks(cluster: Cluster) -> None:
    assert transactions.uses_newest_protocol(cluster)


@BOTH
def test_commit_and_abort(cluster: Cluster, newest: bool) -> None:
    tid = f"both-{newest}"
    (place,) = make_topic(cluster, tid)
    first = transactions.init_producer_id(cluster, tid, 30_000)
    put(cluster, place, tid, first, newest=newest)
    marker = {place: (0, "batch 0")}
    transactions.commit_offsets_in(cluster, tid, first, tid, marker, newest=newest)
    second = transactions.end(cluster, tid, first, commit=True, newest=newest)
    assert second == (first.id, first.epoch + 1 if newest else first.epoch)
    assert cluster.committed_offsets(tid, [place], stable=True) == marker

    # The old protocol counts on: its epoch is the same, so its sequence numbers go on.
    put(cluster, place, tid, second, newest=newest, sequence=0 if newest else 2)
    late = {place: (1, "batch 1")}
    transactions.commit_offsets_in(cluster, tid, second, tid, late, newest=newest)
    third = transactions.end(cluster, tid, second, commit=False, newest=newest)
    assert third == (first.id, second.epoch + 1 if newest else second.epoch)
    assert cluster.committed_offsets(tid, [place], stable=True) == marker

    last = transactions.init_producer_id(cluster, tid)
    assert last.epoch > third.epoch
    assert committed_end(cluster, place) == 6, "two batches of two, and a marker after each"


@BOTH
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_an_end_whose_answer_is_lost(stage: Stage, newest: bool, commit: bool) -> None:
    cluster = stage.cluster
    tid = f"lost-{newest}-{commit}"
    (place,) = make_topic(cluster, tid)
    producer = transactions.init_producer_id(cluster, tid)
    put(cluster, place, tid, producer, newest=newest)
    stage.road.to_lose[END_TXN] = 2
    after = transactions.end(cluster, tid, producer, commit=commit, newest=newest)
    assert stage.road.to_lose[END_TXN] == 0
    assert after == (producer.id, producer.epoch + 1 if newest else producer.epoch)
    put(cluster, place, tid, after, newest=newest, sequence=0 if newest else 2)
    transactions.end(cluster, tid, after, commit=True, newest=newest)


@BOTH
def test_every_other_answer_is_lost(stage: Stage, newest: bool) -> None:
    cluster = stage.cluster
    tid = f"lossy-{newest}"
    (place,) = make_topic(cluster, tid)
    asked = [INIT_PRODUCER_ID, TXN_OFFSET_COMMIT, END_TXN, DESCRIBE_PRODUCERS]
    asked += [] if newest else [ADD_OFFSETS_TO_TXN, ADD_PARTITIONS_TO_TXN]
    for api_key in asked:
        stage.road.to_lose[api_key] = 1
    producer = transactions.init_producer_id(cluster, tid)
    put(cluster, place, tid, producer, newest=newest)
    marker = {place: (4, "")}
    transactions.commit_offsets_in(cluster, tid, producer, tid, marker, newest=newest)
    assert transactions.active_producer(cluster, place, producer.id) == (producer.epoch, 1)
    transactions.end(cluster, tid, producer, commit=True, newest=newest)
    assert cluster.committed_offsets(tid, [place], stable=True) == marker
    assert stage.road.to_lose.total() == 0


@BOTH
def test_a_newer_run_fences_the_older(cluster: Cluster, newest: bool) -> None:
    tid = f"fenced-{newest}"
    (place,) = make_topic(cluster, tid)
    old = transactions.init_producer_id(cluster, tid)
    put(cluster, place, tid, old, newest=newest)
    new = transactions.init_producer_id(cluster, tid)
    assert new.epoch > old.epoch
    assert committed_end(cluster, place) == 3, "what the older one had open is aborted"
    marker = {place: (1, "")}
    with pytest.raises(FencedError, match="a newer run of the same query"):
        transactions.commit_offsets_in(cluster, tid, old, tid, marker, newest=newest)
    with pytest.raises(FencedError, match="a newer run of the same query"):
        transactions.end(cluster, tid, old, commit=True, newest=newest)
    put(cluster, place, tid, new, newest=newest)
    transactions.end(cluster, tid, new, commit=True, newest=newest)


def test_an_older_run_can_not_add_partitions(cluster: Cluster) -> None:
    (place,) = make_topic(cluster, "late")
    old = transactions.init_producer_id(cluster, "late")
    transactions.init_producer_id(cluster, "late")
    with pytest.raises(FencedError):
        transactions.add_partitions(cluster, "late", old, [place])
    transactions.add_partitions(cluster, "late", old, [])


def test_several_processes_share_a_producer(stage: Stage) -> None:
    first, second = make_topic(stage.cluster, "crowd", 2)
    producer = transactions.init_producer_id(stage.cluster, "crowd")
    other = Cluster(stage.cluster.connection)
    put(stage.cluster, first, "crowd", producer, newest=True)
    put(other, second, "crowd", producer, newest=True, records=3)
    found = transactions.active_producers(other, [first, second], producer.id)
    assert found == {first: (producer.epoch, 1), second: (producer.epoch, 2)}
    after = transactions.end(other, "crowd", producer, commit=True)
    transactions.init_producer_id(stage.cluster, "crowd")
    assert [committed_end(stage.cluster, place) for place in (first, second)] == [3, 4]
    assert after.epoch == producer.epoch + 1
    other.close()


def test_what_a_partition_remembers(cluster: Cluster) -> None:
    written, untouched = make_topic(cluster, "memory", 2)
    producer = transactions.init_producer_id(cluster, "memory")
    put(cluster, written, "memory", producer, newest=True)
    found = transactions.active_producer(cluster, written, producer.id)
    assert found == ActiveProducer(epoch=producer.epoch, last_sequence=1)
    assert transactions.active_producer(cluster, untouched, producer.id) is None
    assert transactions.active_producer(cluster, written, producer.id + 1000) is None
    after = transactions.end(cluster, "memory", producer, commit=False)
    transactions.init_producer_id(cluster, "memory")
    ended = transactions.active_producer(cluster, written, producer.id)
    assert ended is not None
    assert ended.epoch >= after.epoch
    assert ended.last_sequence == -1


def test_producers_without_a_transactional_id(cluster: Cluster) -> None:
    one, other = (transactions.init_producer_id(cluster, None) for _ in range(2))
    assert one.id != other.id
    assert one.epoch == other.epoch == 0


def test_an_id_the_coordinator_does_not_know(cluster: Cluster) -> None:
    with pytest.raises(FencedError, match=r"INVALID_PRODUCER_ID_MAPPING.*expiration\.ms"):
        transactions.end(cluster, "nobody", Producer(77, 0), commit=True)


def test_nothing_to_commit(cluster: Cluster) -> None:
    producer = transactions.init_producer_id(cluster, "idle")
    with pytest.raises(SparkJobError, match=r"INVALID_TXN_STATE.*nothing is in it"):
        transactions.end(cluster, "idle", producer, commit=True)


def test_a_timeout_the_broker_does_not_allow(cluster: Cluster) -> None:
    with pytest.raises(SparkJobError, match=r"transaction\.max\.timeout\.ms"):
        transactions.init_producer_id(cluster, "slow", 2_000_000_000)
