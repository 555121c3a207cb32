"""Where partitions begin and end, and what they hold."""

from datetime import timedelta

from tests.compat.batches import Rec
from tests.spark.cluster.stage import make_topic, write

from barnabas.model.errors import ErrorCode
from barnabas.spark.cluster import transactions
from barnabas.spark.cluster.cluster import Cluster
from barnabas.spark.places import Place
from barnabas.wire.messages import newest_type
from barnabas.wire.reshape import element_type

DELETE_RECORDS = 21


def test_beginnings_and_ends(cluster: Cluster) -> None:
    full, empty = make_topic(cluster, "ends", 2)
    write(cluster, full, [Rec()] * 5)
    delete_before(cluster, full, 2)
    assert cluster.earliest([full, empty]) == {full: 2, empty: 0}
    assert cluster.earliest_local([full, empty]) == {full: 2, empty: 0}
    for committed in (True, False):
        assert cluster.latest([full, empty], committed=committed) == {full: 5, empty: 0}
    assert cluster.earliest([]) == cluster.latest([], committed=True) == cluster.at_time({}) == {}


def delete_before(cluster: Cluster, place: Place, offset: int) -> None:
    request = newest_type(DELETE_RECORDS, "request")
    topic = element_type(request, "topics")
    part = element_type(topic, "partitions")(partition_index=place.partition, offset=offset)
    answer = cluster.any_broker().ask(
        DELETE_RECORDS,
        request(topics=(topic(name=place.topic, partitions=(part,)),), timeout=timedelta(0)),
    )
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


def test_moments(cluster: Cluster) -> None:
    first, second, empty = make_topic(cluster, "moments", 3)
    write(cluster, first, [Rec(timestamp=1000 + n) for n in range(4)])
    write(cluster, second, [Rec(timestamp=5000)])
    assert cluster.at_time({first: 1002, second: 1002, empty: 1002}) == {
        first: 2,
        second: 0,
        empty: None,
    }
    assert cluster.at_time({first: 1004, second: -7}) == {first: None, second: 0}


def test_an_open_transaction_holds_the_committed_end_back(cluster: Cluster) -> None:
    (place,) = make_topic(cluster, "held")
    write(cluster, place, [Rec()] * 2)
    producer = transactions.init_producer_id(cluster, "holder")
    write(cluster, place, [Rec()] * 3, transactional_id="holder", producer=producer, sequence=0)
    assert cluster.latest([place], committed=True) == {place: 2}
    assert cluster.latest([place], committed=False) == {place: 5}
    transactions.end(cluster, "holder", producer, commit=True)
    transactions.init_producer_id(cluster, "holder")  # returns once the markers are written
    assert cluster.latest([place], committed=True) == {place: 6}


def test_sizes(cluster: Cluster) -> None:
    full, empty = make_topic(cluster, "sizes", 2)
    write(cluster, full, [Rec(value=b"x" * 1000)] * 10)
    found = cluster.stored_bytes([full, empty])
    assert found[empty] == 0
    assert 10_000 < found[full] < 20_000
    assert cluster.stored_bytes([]) == {}


def test_whose_clock(cluster: Cluster) -> None:
    make_topic(cluster, "theirs")
    make_topic(cluster, "ours", message_timestamp_type="LogAppendTime")
    assert cluster.timestamp_types(["theirs", "ours"]) == {
        "theirs": "CreateTime",
        "ours": "LogAppendTime",
    }
    assert cluster.timestamp_types([]) == {}
