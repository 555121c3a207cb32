"""Whatever rows are: what is written is what is read."""

from itertools import groupby, pairwise

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.spark.sink.written import (
    HEADERS,
    headers_array,
    new_topic,
    options_of,
    read_all,
    write,
)

from barnabas.testing import Broker

Headers = list[tuple[str, bytes | None]] | None

some_bytes = st.none() | st.binary(max_size=300)
# librdkafka takes a zero for the end of a header's name.
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
headers = st.none() | st.lists(st.tuples(names, some_bytes), max_size=3)
row = st.tuples(some_bytes, some_bytes, headers, st.none() | st.integers(0, 2))


@given(
    rows=st.lists(row, min_size=1, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=4),
    codec=st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]),
    batch_size=st.sampled_from(["0", "200", "1000000"]),
    window_bytes=st.sampled_from([1, 500, 1 << 24]),
)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_is_written_is_what_is_read(
    shared_broker: Broker,
    rows: list[tuple[bytes | None, bytes | None, Headers, int | None]],
    cuts: list[int],
    codec: str,
    batch_size: str,
    window_bytes: int,
) -> None:
    keys, values, lists, partitions = zip(*rows, strict=True)
    whole = pa.record_batch(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": headers_array(list(lists)),
            "partition": pa.array(partitions, pa.int32()),
        }
    )
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    batches = [whole.slice(start, end - start) for start, end in pairwise(edges)]
    topic = new_topic(shared_broker, 3)
    options = options_of(
        shared_broker, topic=topic, kafka_compression_type=codec, kafka_batch_size=batch_size
    )
    columns = f"key binary, value binary, headers {HEADERS}, partition int"
    write(options, columns, batches, window_bytes=window_bytes)

    found = read_all(shared_broker, topic)
    # A consumer knows no difference between no headers and none.
    expected = [(key, value, each or None) for key, value, each, _ in rows]
    assert sorted(map(repr, expected)) == sorted(
        repr((read.key, read.value, read.headers)) for read in found
    )
    for partition, reads in groupby(found, key=lambda read: read.partition):
        positions = [expected.index((read.key, read.value, read.headers)) for read in reads]
        for position in positions:
            assert rows[position][3] in (None, partition) or expected.count(expected[position]) > 1
