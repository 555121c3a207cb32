"""Which partition a row goes to: as Java's and librdkafka's producers would have it."""

from collections import Counter

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from tests.spark.sink.written import new_topic, options_of, read_all, write

from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place
from barnabas.spark.sink.partitioning import TopicRouter
from barnabas.spark.sink.rows import variable
from barnabas.testing import Broker

MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""What Java's client says these hash to."""


def chosen(router: TopicRouter, keys: list[bytes | None]) -> list[int]:
    """The partition of each row."""
    found = [-1] * len(keys)
    for place, order, first, count in router.groups(len(keys), variable(pa.array(keys)), None):
        for position in range(first, first + count):
            found[position if order is None else int(order[position])] = place.partition
    return found


@pytest.mark.parametrize("partitions", [2, 3, 7, 100, 70_000])
def test_murmur2_is_javas(partitions: int) -> None:
    router = TopicRouter("t", partitions, "murmur2")
    expected = [(hashed & 0x7FFFFFFF) % partitions for hashed in MURMUR2.values()]
    assert chosen(router, list(MURMUR2)) == expected


@pytest.mark.parametrize(
    ("ours", "theirs"), [("murmur2", "murmur2_random"), ("crc32", "consistent_random")]
)
def test_keys_go_where_librdkafka_sends_them(shared_broker: Broker, ours: str, theirs: str) -> None:
    keys = [bytes([i % 256]) * (1 + i % 37) + b"%d" % i for i in range(500)]
    by_us, by_them = new_topic(shared_broker, 7), new_topic(shared_broker, 7)
    options = options_of(shared_broker, topic=by_us, partitioner=ours)
    rows = pa.record_batch({"key": pa.array(keys), "value": pa.array(keys)})
    write(options, "key binary, value binary", [rows])
    producer = Producer(
        {"bootstrap.servers": shared_broker.bootstrap_servers, "partitioner": theirs}
    )
    for key in keys:
        producer.produce(by_them, key=key, value=key)
    assert producer.flush(30) == 0
    found = [
        sorted((read.key, read.partition) for read in read_all(shared_broker, topic))
        for topic in (by_us, by_them)
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 500


@pytest.mark.parametrize("calls", [[1] * 11, [10_000], [5, 0, 3, 1000, 2], [7, 7], [100]])
@pytest.mark.parametrize("keys", ["no column", "all null"])
def test_rows_without_a_key_are_spread_evenly_in_runs(calls: list[int], keys: str) -> None:
    router = TopicRouter("t", 7, "murmur2")
    totals: Counter[Place] = Counter()
    for rows in calls:
        column = None if keys == "no column" else variable(pa.array([None] * rows, pa.binary()))
        groups = list(router.groups(rows, column, None)) if rows else []
        assert sum(group.count for group in groups) == rows
        for place, order, first, count in groups:
            totals[place] += count
            taken = range(first, first + count) if order is None else order[first : first + count]
            assert list(taken) == list(range(int(taken[0]), int(taken[0]) + count))
    assert sum(totals.values()) == sum(calls)
    most, least = max(totals.values()), min(totals.values())
    assert most - least <= 1
    assert len(totals) == min(7, sum(calls))


def test_rows_keep_their_order_within_a_partition() -> None:
    keys: list[bytes | None] = [b"%d" % (i % 10) if i % 4 else None for i in range(1000)]
    for _, order, first, count in TopicRouter("t", 5, "crc32").groups(
        1000, variable(pa.array(keys)), None
    ):
        positions = order[first : first + count].tolist()
        assert positions == sorted(positions)


def test_a_slice_of_keys_is_hashed_from_its_start() -> None:
    keys = pa.array([b"x", b"y", None, b"foobar", b"21"])
    router = TopicRouter("t", 1000, "murmur2")
    whole = {group.place.partition for group in router.groups(2, variable(keys.slice(3)), None)}
    assert whole == {(MURMUR2[b"foobar"] & 0x7FFFFFFF) % 1000, (MURMUR2[b"21"] & 0x7FFFFFFF) % 1000}


def test_a_partition_column_decides_and_null_leaves_it_to_the_key() -> None:
    wanted = pa.array([3, None, 0, None], pa.int32())
    keys = variable(pa.array([b"21", b"21", b"foobar", None]))
    router = TopicRouter("t", 4, "murmur2")
    places: dict[int, int] = {}
    for place, order, first, count in router.groups(4, keys, wanted):
        places |= dict.fromkeys(order[first : first + count].tolist(), place.partition)
    assert (places[0], places[1], places[2]) == (3, (MURMUR2[b"21"] & 0x7FFFFFFF) % 4, 0)
    assert set(places) == {0, 1, 2, 3}


@pytest.mark.parametrize(("wanted", "named"), [([0, 4], 4), ([-1, 0], -1), ([None, 9], 9)])
@pytest.mark.parametrize("partitions", [1, 4])
def test_a_partition_that_is_not_there(
    wanted: list[int | None], named: int, partitions: int
) -> None:
    router = TopicRouter("t", partitions, "murmur2")
    with pytest.raises(SparkJobError) as error:
        list(router.groups(2, None, pa.array(wanted, pa.int32())))
    said = str(error.value)
    assert f"has {named}, but the topic t has the partitions 0 to {partitions - 1}" in said
    assert "drop it to have the key decide" in said
