"""Spans read from a broker are what a stranger's consumer sees, whatever wrote them."""

import subprocess
import sys
from collections.abc import Callable, Generator

import pytest
from confluent_kafka import Producer
from tests.spark.source_read.reading_world import (
    consumed,
    end_of,
    new_topic,
    options_for,
    produce,
    quiet,
    read,
    rows_of,
)

from barnabas.spark.places import Place, Span
from barnabas.spark.source import reading
from barnabas.spark.source.options import COLUMNS
from barnabas.spark.source.reading import read_spans
from barnabas.testing import Broker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def servers(shared_broker: Broker) -> str:
    return shared_broker.bootstrap_servers


def send_all_sorts(servers: str, topic: str, codec: str = "none", count: int = 500) -> None:
    """Null and empty keys and values, headers that repeat and that are null, many batches."""
    producer = Producer(quiet(servers, compression_type=codec, linger_ms=50, batch_num_messages=70))
    headers: list[Callable[[int], list[tuple[str, str | bytes | None]]]] = [
        lambda _: [],
        lambda _: [("a", b"1"), ("a", None), ("ü", b"")],
        lambda n: [("only", b"x" * n)],
    ]
    for n in range(count):
        producer.produce(
            topic,
            key=[None, b"", b"k%d" % n][n % 3],
            value=[b"value %d" % n * (n % 7), None, b""][n % 5 % 3],
            partition=0,
            timestamp=1_700_000_000_000 + n * 37,
            headers=headers[n % 3](n),
        )
    assert producer.flush(30) == 0


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_and_every_kind_of_field(servers: str, codec: str) -> None:
    topic = new_topic(servers)
    send_all_sorts(servers, topic, codec)
    expected = consumed(servers, topic)
    assert len(expected) == 500
    assert read(options_for(servers, topic), (topic, 0, 0, 500)) == expected


def test_any_part_of_a_partition(servers: str) -> None:
    topic = new_topic(servers)
    send_all_sorts(servers, topic, "lz4")
    expected = consumed(servers, topic)
    options = options_for(servers, topic)
    for start, end in [(0, 1), (499, 500), (69, 71), (1, 499), (250, 250), (123, 345)]:
        assert read(options, (topic, 0, start, end)) == expected[start:end]


def test_many_spans_of_one_task_share_requests_and_record_batches(servers: str) -> None:
    topics = [new_topic(servers, 40), new_topic(servers, 40)]
    producer = Producer(quiet(servers))
    for n in range(800):
        producer.produce(topics[n % 2], b"%d" % n, partition=n // 2 % 40)
    assert producer.flush(30) == 0
    spans = [Span(Place(topic, part), 0, 10) for topic in topics for part in range(40)]
    batches = list(read_spans(options_for(servers, topics[0]), spans))
    assert len(batches) == 1
    rows = rows_of(batches)
    assert {(row.topic, row.partition, row.offset) for row in rows} == {
        (topic, part, offset) for topic in topics for part in range(40) for offset in range(10)
    }
    assert sorted(int(row.value or b"") for row in rows) == list(range(800))


def test_two_spans_of_one_partition_in_one_task(servers: str) -> None:
    topic = new_topic(servers)
    send_all_sorts(servers, topic)
    expected = consumed(servers, topic)
    rows = read(options_for(servers, topic), (topic, 0, 300, 400), (topic, 0, 10, 200))
    assert sorted(rows, key=lambda row: row.offset) == expected[10:200] + expected[300:400]


def test_record_batches_end_with_enough_rows_or_bytes(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(servers)
    send_all_sorts(servers, topic, "zstd")
    expected = consumed(servers, topic)
    options = options_for(servers, topic)
    for name, limit in (("ROWS_MAX", 100), ("BYTES_MAX", 5_000)):
        with monkeypatch.context() as patched:
            patched.setattr(reading, name, limit)
            batches = list(read_spans(options, [Span(Place(topic, 0), 0, 500)]))
        assert len(batches) > 2
        assert rows_of(batches) == expected


def test_a_batch_larger_than_what_is_asked_for_comes_whole(servers: str) -> None:
    topic = new_topic(servers, max_message_bytes="5000000")
    values = [b"small", b"x" * 3_000_000, b"small again"]
    produce(servers, topic, values, message_max_bytes=5_000_000)
    rows = read(options_for(servers, topic, fetch_bytes=1000), (topic, 0, 0, 3))
    assert [row.value for row in rows] == values


def test_log_append_time(servers: str) -> None:
    topic = new_topic(servers, message_timestamp_type="LogAppendTime")
    send_all_sorts(servers, topic, "gzip", 100)
    rows = read(options_for(servers, topic), (topic, 0, 0, 100))
    assert rows == consumed(servers, topic)
    assert {row.timestamp_type for row in rows} == {1}


@pytest.mark.parametrize("columns", [("value",), ("offset",), ("topic", "key"), ("headers",)])
def test_only_the_columns_that_were_asked_for(servers: str, columns: tuple[str, ...]) -> None:
    topic = new_topic(servers)
    send_all_sorts(servers, topic, count=50)
    whole = list(read_spans(options_for(servers, topic), [Span(Place(topic, 0), 0, 50)]))
    options = options_for(servers, topic, columns=columns)
    part = list(read_spans(options, [Span(Place(topic, 0), 0, 50)]))
    assert [batch.schema.names for batch in part] == [list(columns)]
    assert part[0] == whole[0].select(list(columns))


def test_the_arrow_schema_is_sparks_own(servers: str) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    from barnabas.spark.source.options import schema_of

    topic = new_topic(servers)
    send_all_sorts(servers, topic, count=5)
    options = options_for(servers, topic, columns=COLUMNS)
    (batch,) = read_spans(options, [Span(Place(topic, 0), 0, 5)])
    assert batch.schema.equals(to_arrow_schema(schema_of(options), timezone="UTC"))


def transactions(servers: str, topic: str) -> Producer:
    """Committed and aborted ones, interleaved with plain records; one that stays open."""
    plain = Producer(quiet(servers))
    writers = [Producer(quiet(servers, transactional_id=f"{topic}-{n}")) for n in range(3)]
    for writer in writers:
        writer.init_transactions()
    for turn in range(8):
        for writer in writers:
            writer.begin_transaction()
        for n in range(12):
            writer = writers[n % 3]
            writer.produce(topic, b"turn %d record %d" % (turn, n), partition=0)
            writer.flush()
            if n % 5 == 0:
                plain.produce(topic, b"plain %d %d" % (turn, n), partition=0)
                plain.flush()
        for number, writer in enumerate(writers):
            (writer.abort_transaction if (turn + number) % 3 else writer.commit_transaction)()
    writers[0].begin_transaction()
    writers[0].produce(topic, b"open", partition=0)
    writers[0].flush()
    plain.produce(topic, b"behind the open one", partition=0)
    plain.flush()
    return writers[0]


def test_committed_records_only(servers: str) -> None:
    topic = new_topic(servers)
    still_open = transactions(servers, topic)
    expected = consumed(servers, topic)
    everything = consumed(servers, topic, committed=False)
    assert 0 < len(expected) < len(everything)
    stable = everything[-2].offset
    options = options_for(servers, topic)
    assert read(options, (topic, 0, 0, stable)) == expected
    for start, end in [(5, 90), (17, 18), (60, stable), (stable - 1, stable)]:
        part = [row for row in expected if start <= row.offset < end]
        assert read(options, (topic, 0, start, end)) == part
    assert read(options_for(servers, topic, fetch_bytes=1), (topic, 0, 0, stable)) == expected
    uncommitted = options_for(servers, topic, committed=False)
    assert read(uncommitted, (topic, 0, 0, stable + 2)) == everything
    still_open.abort_transaction()


def test_a_span_may_end_at_a_marker_or_within_an_aborted_transaction(servers: str) -> None:
    topic = new_topic(servers)
    writer = Producer(quiet(servers, transactional_id=topic))
    writer.init_transactions()
    writer.begin_transaction()
    for n in range(10):
        writer.produce(topic, b"%d" % n, partition=0)
    writer.flush()
    writer.abort_transaction()
    produce(servers, topic, [b"after"])
    options = options_for(servers, topic)
    assert end_of(servers, topic) == 12
    assert read(options, (topic, 0, 0, 11)) == []
    assert read(options, (topic, 0, 3, 7)) == []
    assert read(options, (topic, 0, 10, 11)) == []
    assert [row.value for row in read(options, (topic, 0, 0, 12))] == [b"after"]


def test_reading_may_be_left_and_begun_again(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A LIMIT leaves it with an answer on its way, which the next reader must not get."""
    monkeypatch.setattr(reading, "ROWS_MAX", 100)
    topic = new_topic(servers)
    produce(servers, topic, [b"%d" % n * 100 for n in range(5000)], batch_num_messages=50)
    expected = consumed(servers, topic)
    options = options_for(servers, topic, fetch_bytes=50_000)
    span = Span(Place(topic, 0), 0, 5000)
    left, beside = read_spans(options, [span]), read_spans(options, [span])
    next(left)
    next(beside)
    assert read(options, (topic, 0, 0, 5000)) == expected
    assert isinstance(left, Generator)
    left.close()
    assert read(options, (topic, 0, 0, 5000)) == expected
    next(beside)
    assert isinstance(beside, Generator)
    beside.close()
    assert read(options, (topic, 0, 0, 5000)) == expected


def test_pandas_is_not_loaded_by_reading(servers: str) -> None:
    """It takes half a second, which every new Python process of Spark would pay."""
    topic = new_topic(servers)
    produce(servers, topic, [b"x"])
    script = (
        "import sys\n"
        "from barnabas.spark.source.options import parse\n"
        "from barnabas.spark.source.reading import read_spans\n"
        "from barnabas.spark.places import Place, Span\n"
        f"options = parse({{'kafka.bootstrap.servers': {servers!r}, 'subscribe': {topic!r}}},"
        " streaming=False)\n"
        f"assert sum(b.num_rows for b in read_spans(options, [Span(Place({topic!r}, 0), 0, 1)]))\n"
        "print('pandas' in sys.modules)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert out.stdout.strip() == "False"
