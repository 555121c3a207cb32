"""Rows of every kind, written without Spark and read back by librdkafka."""

import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from tests.spark.sink.written import (
    HEADERS,
    headers_array,
    new_topic,
    options_of,
    read_all,
    write,
)

from barnabas.spark.errors import SparkJobError, UnknownTopicError
from barnabas.spark.places import Place
from barnabas.testing import Broker

KINDS = [
    pa.string(),
    pa.binary(),
    pa.large_string(),
    pa.large_binary(),
    pa.string_view(),
    pa.binary_view(),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_arrow_layout_of_text_and_bytes(shared_broker: Broker, kind: pa.DataType) -> None:
    topic = new_topic(shared_broker)
    keys = pa.array(["x", "k", None, "", "a key of more than twelve bytes"], kind)
    values = pa.array(["x", None, "v", "", "ünï©ode, and more than twelve bytes"], kind)
    rows = pa.record_batch({"key": keys, "value": values}).slice(1)
    write(options_of(shared_broker, topic=topic), "key string, value string", [rows])
    assert [(read.key, read.value) for read in read_all(shared_broker, topic)] == [
        (b"k", None),
        (None, b"v"),
        (b"", b""),
        (b"a key of more than twelve bytes", "ünï©ode, and more than twelve bytes".encode()),
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(shared_broker: Broker, codec: str) -> None:
    topic = new_topic(shared_broker)
    values = [b"value %d" % i * 20 for i in range(2000)]
    options = options_of(shared_broker, topic=topic, kafka_compression_type=codec)
    written = write(options, "value binary", [pa.record_batch({"value": pa.array(values)})])
    assert [read.value for read in read_all(shared_broker, topic)] == values
    plain = sum(map(len, values))
    total = written[Place(topic, 0)]
    assert (total.rows, total.first_offset, total.last_offset) == (2000, 0, 1999)
    assert (total.bytes > plain) if codec == "none" else (total.bytes < plain / 4)


def test_headers(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker)
    given: list[list[tuple[str, bytes | None]] | None] = [
        [("outside", b"the slice")],
        None,
        [],
        [("a", b"1"), ("a", None), ("ü", b"")],
        [("b", b"2")],
    ]
    rows = pa.record_batch(
        {"headers": headers_array(given), "value": pa.array([b"%d" % i for i in range(5)])}
    )
    columns = f"headers {HEADERS}, value binary"
    options = options_of(shared_broker, topic=topic)
    write(options, columns, [rows.slice(1, 2), rows.slice(3), rows.slice(1, 1)])
    assert [(read.value, read.headers) for read in read_all(shared_broker, topic)] == [
        (b"1", None),
        (b"2", None),
        (b"3", [("a", b"1"), ("a", None), ("ü", b"")]),
        (b"4", [("b", b"2")]),
        (b"1", None),
    ]


def test_headers_that_are_null_in_places_where_they_can_not_be(shared_broker: Broker) -> None:
    options = options_of(shared_broker, topic=new_topic(shared_broker))
    kind = headers_array([]).type
    values = pa.array([b"v"])
    nameless = pa.record_batch(
        {"headers": pa.array([[{"key": None, "value": b"x"}]], kind), "value": values}
    )
    with pytest.raises(SparkJobError, match="a header whose key is null"):
        write(options, f"headers {HEADERS}, value binary", [nameless])
    missing = pa.record_batch({"headers": pa.array([[None]], kind), "value": values})
    with pytest.raises(SparkJobError, match="a header that is null"):
        write(options, f"headers {HEADERS}, value binary", [missing])


def test_rows_carry_the_present_time_or_their_own(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker)
    before = int(time.time() * 1000)
    moment = datetime.now(UTC).replace(microsecond=123_999) - timedelta(hours=1)
    rows = pa.record_batch(
        {
            "timestamp": pa.array(
                [moment, None, moment - timedelta(days=1)], pa.timestamp("us", "UTC")
            ),
            "value": pa.array(["a", "b", "c"]),
        }
    )
    columns = "timestamp timestamp, value string"
    write(options_of(shared_broker, topic=topic, includeTimestamp="true"), columns, [rows])
    write(options_of(shared_broker, topic=topic), columns, [rows.slice(0, 1)])
    after = int(time.time() * 1000)
    times = [read.timestamp for read in read_all(shared_broker, topic)]
    moment_ms = int(moment.timestamp()) * 1000 + 123
    assert (times[0], times[2]) == (moment_ms, moment_ms - 86_400_000)
    assert before <= times[1] <= after
    assert before <= times[3] <= after


def test_no_record_is_older_than_1970(shared_broker: Broker) -> None:
    options = options_of(shared_broker, topic=new_topic(shared_broker), includeTimestamp="true")
    rows = pa.record_batch(
        {
            "timestamp": pa.array([datetime(1969, 12, 31, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "value": pa.array(["a"]),
        }
    )
    with pytest.raises(SparkJobError, match="a time before 1970"):
        write(options, "timestamp timestamp, value string", [rows])


def test_a_topic_in_each_row(shared_broker: Broker) -> None:
    topics = [new_topic(shared_broker, partitions) for partitions in (1, 3, 2)]
    names = [topics[i * i % 3] for i in range(900)] + [topics[2]]
    rows = pa.record_batch(
        {
            "topic": pa.array(names),
            "value": pa.array([b"%d" % i for i in range(901)]),
            "key": pa.array([b"%d" % (i % 5) for i in range(901)]),
        }
    )
    batches = [rows.slice(0, 1), rows.slice(1, 99), rows.slice(100)]
    options = options_of(shared_broker)
    columns = "topic string, value binary, key binary"
    written = write(options, columns, batches, window_bytes=1000)
    assert sum(each.rows for each in written.values()) == 901
    for topic in topics:
        expected = [b"%d" % i for i, name in enumerate(names) if name == topic]
        found = read_all(shared_broker, topic)
        assert sorted(read.value or b"" for read in found) == sorted(expected)
        for key in {read.key for read in found}:
            numbers = [int(read.value or b"") for read in found if read.key == key]
            assert numbers == sorted(numbers)


def test_a_row_without_a_topic(shared_broker: Broker) -> None:
    rows = pa.record_batch({"topic": pa.array(["x", None]), "value": pa.array(["a", "b"])})
    with pytest.raises(SparkJobError, match="The column topic is null in a row"):
        write(options_of(shared_broker), "topic string, value string", [rows])
    topic = new_topic(shared_broker)
    write(options_of(shared_broker, topic=topic), "topic string, value string", [rows])
    assert [read.value for read in read_all(shared_broker, topic)] == [b"a", b"b"]


def test_a_topic_that_does_not_exist(shared_broker: Broker) -> None:
    rows = pa.record_batch({"value": pa.array(["a"])})
    with pytest.raises(UnknownTopicError, match="There is no topic nowhere"):
        write(options_of(shared_broker, topic="nowhere"), "value string", [rows])


def test_a_partition_column(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker, 3)
    rows = pa.record_batch(
        {"partition": pa.array([2, 0, 2, 1], pa.int32()), "value": pa.array(["a", "b", "c", "d"])}
    )
    write(options_of(shared_broker, topic=topic), "partition int, value string", [rows])
    assert [(read.partition, read.value) for read in read_all(shared_broker, topic)] == [
        (0, b"b"),
        (1, b"d"),
        (2, b"a"),
        (2, b"c"),
    ]


def test_many_partitions_and_no_key(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker, 40)
    rows = pa.record_batch({"value": pa.array([b"%d" % i for i in range(1000)])})
    write(options_of(shared_broker, topic=topic), "value binary", [rows, rows.slice(0, 39)])
    counts = Counter(read.partition for read in read_all(shared_broker, topic))
    assert len(counts) == 40
    assert set(counts.values()) == {25, 26}


def test_nothing_to_write(shared_broker: Broker) -> None:
    options = options_of(shared_broker, topic=new_topic(shared_broker))
    empty = pa.record_batch({"value": pa.array([], pa.binary())})
    assert write(options, "value binary", []) == write(options, "value binary", [empty]) == {}


def test_small_batches_are_gathered_and_large_ones_cut(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker, 2)
    rows = pa.record_batch({"value": pa.array([b"v" * 100] * 50)})
    options = options_of(shared_broker, topic=topic)
    written = write(options, "value binary", [rows] * 100)
    assert [each.batches for each in written.values()] == [1, 1]
    options = options_of(shared_broker, topic=topic, kafka_batch_size="2000")
    written = write(options, "value binary", [rows] * 100)
    for each in written.values():
        assert each.rows == 2500
        assert each.bytes / each.batches <= 2000
        assert each.batches == -(-2500 // 17)
    options = options_of(shared_broker, topic=topic, kafka_batch_size="0")
    written = write(options, "value binary", [rows])
    assert [each.batches for each in written.values()] == [25, 25]


def test_a_record_of_the_largest_size_and_one_byte_more(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker)
    limit = 100_000
    options = options_of(shared_broker, topic=topic, kafka_max_request_size=str(limit))
    # 61 bytes of header, and around the value: the lengths of the record (3) and of itself (3),
    # attributes, two deltas, a null key and no headers.
    fits = limit - 61 - 11
    small = b"small"

    def one(size: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": pa.array([small, b"x" * size, small])})

    written = write(options, "value binary", one(fits))
    assert written[Place(topic, 0)].batches == 3
    sizes = [len(read.value or b"") for read in read_all(shared_broker, topic)]
    assert sizes == [5, fits, 5]
    with pytest.raises(SparkJobError) as error:
        write(options, "value binary", one(fits + 1))
    assert (
        f"A record for {topic}-0 takes {limit + 1} bytes, more than the option "
        f"kafka.max.request.size={limit} allows"
    ) in str(error.value)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(shared_broker: Broker, acks: str) -> None:
    topic = new_topic(shared_broker, 2)
    options = options_of(shared_broker, topic=topic, kafka_acks=acks)
    rows = pa.record_batch({"value": pa.array([b"%d" % i for i in range(1000)])})
    written = write(options, "value binary", [rows] * 3)
    assert sum(each.rows for each in written.values()) == 3000
    deadline = time.monotonic() + 60
    # Only with acks=0 can there be records that are still on their way.
    while len(found := read_all(shared_broker, topic)) < 3000:
        assert acks == "0"
        assert time.monotonic() < deadline
    assert Counter(read.value for read in found) == {b"%d" % i: 3 for i in range(1000)}
