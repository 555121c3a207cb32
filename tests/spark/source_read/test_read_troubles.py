"""Lost connections, moving leaders, damaged and missing answers: each row once, or a sentence."""

import itertools
import logging
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.spark.source_read.meddler import Meddler, meddled_broker
from tests.spark.source_read.reading_world import (
    consumed,
    new_topic,
    options_for,
    produce,
    quiet,
    read,
)

from barnabas.link.exchange import Answer
from barnabas.link.sync import Link
from barnabas.model.errors import ErrorCode
from barnabas.spark.cluster.cluster import Cluster
from barnabas.spark.errors import DataLostError, NotAnsweredError, SparkJobError, UnavailableError
from barnabas.wire.apis import FETCH
from barnabas.wire.fetch import FetchPartitionResult
from barnabas.wire.records.batch import assemble, parse_header, walk

BATCHES = 40
PER_BATCH = 5
ROWS = BATCHES * PER_BATCH


@pytest.fixture(scope="module")
def hop() -> Iterator[tuple[str, Meddler]]:
    with meddled_broker() as found:
        yield found


@pytest.fixture
def meddler(hop: tuple[str, Meddler]) -> Iterator[Meddler]:
    from tests.spark.source_read.meddler import honest

    yield hop[1]
    hop[1].meddle = honest


@pytest.fixture(scope="module")
def servers(hop: tuple[str, Meddler]) -> str:
    return hop[0]


@pytest.fixture(scope="module")
def topic(servers: str) -> str:
    name = new_topic(servers)
    for batch in range(BATCHES):
        values = [b"%d" % (batch * PER_BATCH + n) for n in range(PER_BATCH)]
        produce(servers, name, values, linger_ms=100)
    return name


def values_of(servers: str, topic: str, **more: object) -> list[int]:
    rows = read(options_for(servers, topic, **more), (topic, 0, 0, ROWS))
    return [int(row.value or b"") for row in rows]


def test_the_topic_has_the_batches_that_are_meant(servers: str, topic: str) -> None:
    assert [int(row.value or b"") for row in consumed(servers, topic)] == list(range(ROWS))
    assert values_of(servers, topic) == list(range(ROWS))


@pytest.mark.parametrize("seed", range(3))
def test_connections_that_break_in_mid_answer(
    servers: str, topic: str, meddler: Meddler, seed: int
) -> None:
    chance = random.Random(seed)
    meddler.meddle = lambda _, result: None if chance.random() < 0.4 else result
    assert values_of(servers, topic, fetch_bytes=700) == list(range(ROWS))


class Interrupted(BaseException):
    """What nobody who reads is prepared for."""


def test_an_interrupted_answer_is_not_taken_for_the_next_readers(
    servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = Link.receive_frame
    turns = itertools.count()

    def interrupted(link: Link) -> Answer:
        if link._exchange._open[0].api_key == FETCH and next(turns) == 3:
            raise Interrupted
        return receive(link)

    monkeypatch.setattr(Link, "receive_frame", interrupted)
    with pytest.raises(Interrupted):
        values_of(servers, topic, fetch_bytes=700)
    monkeypatch.undo()
    assert values_of(servers, topic, fetch_bytes=700) == list(range(ROWS))


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.kafka_storage_error,
        ErrorCode.offset_out_of_range,
    ],
)
def test_errors_that_pass_are_asked_again(
    servers: str, topic: str, meddler: Meddler, code: ErrorCode
) -> None:
    turns = itertools.count()

    def sometimes(_: str, result: FetchPartitionResult) -> FetchPartitionResult:
        if next(turns) % 3:
            return result
        return FetchPartitionResult(result.index, code.value, -1, records=b"")

    meddler.meddle = sometimes
    assert values_of(servers, topic, fetch_bytes=3000) == list(range(ROWS))


def test_errors_that_do_not_pass_are_one_sentence(
    servers: str, topic: str, meddler: Meddler
) -> None:
    refused = ErrorCode.topic_authorization_failed.value
    meddler.meddle = lambda _, result: FetchPartitionResult(result.index, refused, -1, records=b"")
    with pytest.raises(SparkJobError, match="TOPIC_AUTHORIZATION_FAILED"):
        values_of(servers, topic)


def test_answers_cut_short_as_kafka_cuts_them(servers: str, topic: str, meddler: Meddler) -> None:
    """Kafka ends an answer where the bytes asked for end, in the midst of a batch."""
    turns = itertools.count()

    def cut(_: str, result: FetchPartitionResult) -> FetchPartitionResult:
        records = memoryview(result.records or b"")
        if next(turns) % 2 or len(records) < 100:
            return result
        return result._replace(records=bytes(records[: len(records) * 2 // 3]))

    meddler.meddle = cut
    assert values_of(servers, topic, fetch_bytes=2000) == list(range(ROWS))


def test_a_broker_that_only_sends_what_was_read_is_not_asked_for_ever(
    servers: str, topic: str, meddler: Meddler
) -> None:
    first: list[bytes] = []

    def stuck(_: str, result: FetchPartitionResult) -> FetchPartitionResult:
        first.append(bytes(result.records or b""))
        return result._replace(records=first[0])

    meddler.meddle = stuck
    options = options_for(servers, topic, fetch_bytes=700)
    impatient = replace(options, connection=replace(options.connection, patience_s=1.0))
    with pytest.raises(NotAnsweredError, match="before offset"):
        read(impatient, (topic, 0, 0, ROWS))


@pytest.mark.parametrize("size", [1, 60, 61])
def test_answers_cut_in_the_first_header(
    servers: str, topic: str, meddler: Meddler, size: int
) -> None:
    turns = itertools.count()
    meddler.meddle = lambda _, result: (
        result
        if next(turns)
        else result._replace(records=bytes(memoryview(result.records or b"")[:size]))
    )
    assert values_of(servers, topic, fetch_bytes=60) == list(range(ROWS))


def flip(result: FetchPartitionResult, offset: int, at: int) -> FetchPartitionResult:
    """One bit of the batch that holds `offset` is another one, wherever it is served."""
    records = bytearray(result.records or b"")
    for position, header in walk(bytes(records)):
        if header.base_offset <= offset <= header.last_offset:
            records[position + at] ^= 0x40
    return result._replace(records=bytes(records))


@pytest.mark.parametrize("at", [62, 24, 9, 16, 18, 58])
def test_a_damaged_batch_is_named(servers: str, topic: str, meddler: Meddler, at: int) -> None:
    meddler.meddle = lambda _, result: flip(result, 57, at)
    with pytest.raises(DataLostError) as caught:
        values_of(servers, topic)
    assert f"offset 55 of {topic}-0" in str(caught.value)
    assert "barnabas log verify" in str(caught.value)
    assert "failOnDataLoss=false" in str(caught.value)


@pytest.mark.parametrize("at", [62, 24, 9, 16, 18, 58])
def test_a_damaged_batch_is_stepped_over(
    servers: str, topic: str, meddler: Meddler, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever is damaged of it: records, last offset, length, magic, checksum, count."""
    meddler.meddle = lambda _, result: flip(result, 57, at)
    caplog.set_level(logging.WARNING, "barnabas.spark")
    rows = values_of(servers, topic, fail_on_data_loss=False)
    assert rows == [n for n in range(ROWS) if not 55 <= n < 60]
    assert f"offset 55 to 59 of {topic}-0" in caplog.text


def test_a_broker_that_says_no_more_than_corrupt(
    servers: str, topic: str, meddler: Meddler
) -> None:
    corrupt = ErrorCode.corrupt_message.value

    def tell(_: str, result: FetchPartitionResult) -> FetchPartitionResult:
        records = bytes(result.records or b"")
        sound = 0
        for position, header in walk(records):
            if header.base_offset <= 101 <= header.last_offset:
                break
            sound = position + header.size
        if records and not sound and parse_header(records).last_offset >= 101:
            return FetchPartitionResult(result.index, corrupt, -1, records=b"")
        return result._replace(records=records[:sound])

    meddler.meddle = tell
    with pytest.raises(DataLostError, match=f"offset 100 of {topic}-0"):
        values_of(servers, topic)
    rows = values_of(servers, topic, fail_on_data_loss=False)
    assert rows == [n for n in range(ROWS) if not 100 <= n < 105]


def test_records_under_a_right_checksum_that_make_no_sense(servers: str) -> None:
    """Brokers take what a producer made; a reader notices."""
    from barnabas.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
    from barnabas.wire.records.record import encode_batch

    name = new_topic(servers)
    good = encode_batch([(5, b"k", b"good", [])])
    bad = bytearray(encode_batch([(5, b"k", b"bad", []), (5, b"k", b"bad", [])]))
    header = parse_header(bad)
    bad_records = bytes([len(bad)]) + bytes(bad[62:])
    no_gzip = header._replace(attributes=header.attributes | 1)
    bomb = header._replace(attributes=header.attributes | 4)
    host, _, port = servers.rpartition(":")
    sent = [
        good,
        assemble(header, bad_records),
        assemble(no_gzip, bytes(bad[61:])),
        assemble(bomb, _zstd_bomb()),
        good,
    ]
    with Link(host, int(port)) as link:
        for batch in sent:
            partitions = [ProducePartition(0, memoryview(batch))]
            request = ProduceRequest(None, -1, 30_000, [ProduceTopic(name, None, partitions)])
            answer = link.produce(9, request)
            assert answer is not None
            assert answer.topics[0].partitions[0].error == 0
    for start, problem in ((1, "record"), (3, "gzip"), (5, "expands")):
        with pytest.raises(DataLostError, match=problem) as caught:
            read(options_for(servers, name), (name, 0, start, 8))
        assert f"offset {start} to {start + 1} of {name}-0" in str(caught.value)
    rows = read(options_for(servers, name, fail_on_data_loss=False), (name, 0, 0, 8))
    assert [(row.offset, row.value) for row in rows] == [(0, b"good"), (7, b"good")]


def test_a_codec_that_nobody_knows(servers: str, topic: str, meddler: Meddler) -> None:
    def recoded(_: str, result: FetchPartitionResult) -> FetchPartitionResult:
        records = bytes(result.records or b"")
        pieces = []
        for position, header in walk(records):
            batch = records[position : position + header.size]
            if header.base_offset == 55:
                batch = assemble(header._replace(attributes=header.attributes | 7), batch[61:])
            pieces.append(batch)
        return result._replace(records=b"".join(pieces))

    meddler.meddle = recoded
    with pytest.raises(DataLostError, match="codec 7"):
        values_of(servers, topic)
    rows = values_of(servers, topic, fail_on_data_loss=False)
    assert rows == [n for n in range(ROWS) if not 55 <= n < 60]


def _zstd_bomb() -> bytes:
    import cramjam

    return bytes(cramjam.zstd.compress(bytes(80 * 1024 * 1024)))


def test_a_span_of_which_compaction_left_nothing_ends(
    servers: str, topic: str, meddler: Meddler
) -> None:
    """The last batches before the last stable offset can be gone: nothing comes, ever."""

    def gone(_: str, result: FetchPartitionResult) -> FetchPartitionResult:
        records = bytes(result.records or b"")
        size = 0
        for position, header in walk(records):
            if header.base_offset >= 150:
                break
            size = position + header.size
        return result._replace(records=records[:size])

    meddler.meddle = gone
    assert values_of(servers, topic) == list(range(150))


def test_a_leader_that_would_send_readers_to_a_follower(
    servers: str, topic: str, meddler: Meddler
) -> None:
    """It does so without a record and without an error (KIP-392), to whoever can be told so."""

    def sent_away(_: str, result: FetchPartitionResult) -> FetchPartitionResult:
        if meddler.fetch_version < 11:
            return result
        return result._replace(records=b"", preferred_read_replica=7)

    meddler.meddle = sent_away
    assert values_of(servers, topic) == list(range(ROWS))


def test_batches_that_compaction_has_emptied_but_for_their_codec(
    servers: str, topic: str, meddler: Meddler
) -> None:
    def emptied(_: str, result: FetchPartitionResult) -> FetchPartitionResult:
        records = bytes(result.records or b"")
        pieces = []
        for position, header in walk(records):
            batch = records[position : position + header.size]
            if header.base_offset in (55, 65):
                gzip = header._replace(attributes=header.attributes | 1, count=0)
                batch = assemble(gzip, b"")
            pieces.append(batch)
        return result._replace(records=b"".join(pieces))

    meddler.meddle = emptied
    left = [n for n in range(ROWS) if not (55 <= n < 60 or 65 <= n < 70)]
    assert values_of(servers, topic) == left


def test_records_that_a_broker_has_to_get_from_far_away_are_waited_for(
    servers: str, topic: str, meddler: Meddler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiered storage (KIP-405): what does not come in time is an empty answer, without an error."""
    turns = itertools.count()
    meddler.meddle = lambda _, result: result if next(turns) >= 5 else result._replace(records=b"")
    monkeypatch.setattr(Cluster, "earliest_local", lambda _, places: dict.fromkeys(places, 100))
    assert values_of(servers, topic) == list(range(ROWS))

    meddler.meddle = lambda _, result: result._replace(records=b"")
    with pytest.raises(UnavailableError, match="remote storage"):
        values_of(servers, topic, poll_timeout_s=0.5)


def test_an_empty_answer_now_and_then_is_not_the_end(
    servers: str, topic: str, meddler: Meddler
) -> None:
    turns = itertools.count()
    meddler.meddle = lambda _, result: (
        result if next(turns) % 3 == 2 else result._replace(records=b"")
    )
    assert values_of(servers, topic, fetch_bytes=2000) == list(range(ROWS))


def test_a_log_that_ends_too_early_is_not_waited_for_for_ever(
    servers: str, topic: str, meddler: Meddler
) -> None:
    options = options_for(servers, topic, poll_timeout_s=0.5)
    with pytest.raises(DataLostError, match="ends at offset 200, but offsets 200 to 249"):
        read(options, (topic, 0, 150, 250))
    with pytest.raises(DataLostError, match="ends at offset 200, but offsets 300 to 309"):
        read(options, (topic, 0, 300, 310))
    lenient = options_for(servers, topic, poll_timeout_s=0.5, fail_on_data_loss=False)
    assert len(read(lenient, (topic, 0, 150, 250))) == 50
    assert read(lenient, (topic, 0, 300, 310)) == []


def test_an_open_transaction_is_not_waited_for_for_ever(servers: str) -> None:
    from confluent_kafka import Producer

    name = new_topic(servers)
    writer = Producer(quiet(servers, transactional_id=name))
    writer.init_transactions()
    writer.begin_transaction()
    writer.produce(name, b"open", partition=0)
    writer.flush()
    with pytest.raises(UnavailableError, match="a transaction has been open"):
        read(options_for(servers, name, poll_timeout_s=0.5), (name, 0, 0, 1))
    writer.commit_transaction()
    assert len(read(options_for(servers, name), (name, 0, 0, 2))) == 1
