"""A session with a broker that goes away, refuses, forgets or has seen it all before."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.sink.cutting import CuttingProxy
from tests.spark.sink.written import (
    delete_topic,
    new_topic,
    options_of,
    read_all,
    session_of,
    write,
)

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.spark.cluster.cluster import Cluster, cluster_of
from barnabas.spark.cluster.retrying import Patience
from barnabas.spark.cluster.transactions import DESCRIBE_PRODUCERS, end, init_producer_id
from barnabas.spark.errors import FencedError, NotAnsweredError, SparkJobError, UnknownTopicError
from barnabas.spark.places import Place
from barnabas.spark.sink.at_least_once import AtLeastOnceWriter
from barnabas.spark.sink.outcomes import OutOfOrderSequenceError, advice_on
from barnabas.spark.sink.producing import ProducerSession
from barnabas.spark.sink.rows import RowShape
from barnabas.testing import Broker
from barnabas.wire.messages import newest_type
from barnabas.wire.records.batch import HEADER_BYTES
from barnabas.wire.reshape import element_type

VALUE = RowShape(value=0)


def numbered(first: int, end: int, size: int = 0) -> pa.RecordBatch:
    values = [b"%d" % number + b" " * size for number in range(first, end)]
    return pa.record_batch({"value": pa.array(values)})


def numbers(broker: Broker, topic: str) -> list[list[int]]:
    """By partition, in the order of offsets."""
    found: dict[int, list[int]] = {}
    for read in read_all(broker, topic):
        found.setdefault(read.partition, []).append(int(read.value or b""))
    return list(found.values())


def assert_each_once(broker: Broker, topic: str, count: int) -> None:
    found = numbers(broker, topic)
    assert sorted(number for partition in found for number in partition) == list(range(count))
    for partition in found:
        assert partition == sorted(partition)


def test_a_broker_that_is_restarted_in_mid_write_has_every_row_once(tmp_path: Path) -> None:
    with Broker(memory=False, data=tmp_path) as first:
        port = first.port
        topic = new_topic(first, 3)
    going, enough = threading.Event(), 60

    with Broker(memory=False, data=tmp_path, port=port) as broker:

        def restart() -> None:
            for _ in range(3):
                going.wait(60)
                going.clear()
                broker.stop()
                broker.start()

        helper = threading.Thread(target=restart)
        helper.start()

        def rows() -> Iterator[pa.RecordBatch]:
            batch = 0
            while batch < enough or helper.is_alive():
                if batch % 10 == 5:
                    going.set()
                yield numbered(batch * 100, batch * 100 + 100, size=500)
                batch += 1
            rows_written.append(batch * 100)

        rows_written: list[int] = []
        options = options_of(broker, topic=topic, kafka_max_request_size="5000")
        write(options, "value binary", rows(), window_bytes=20_000)
        helper.join()
        assert_each_once(broker, topic, rows_written[0])


def test_answers_that_are_lost_make_repeats_that_are_known_as_such() -> None:
    with (
        CuttingProxy() as proxy,
        Broker(config={"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}) as broker,
    ):
        proxy.serve(broker.port)
        topic = new_topic(broker, 2)
        options = options_of(broker, topic=topic, kafka_max_request_size="5000")
        session = session_of(options)

        def rows() -> Iterator[pa.RecordBatch]:
            for batch in range(40):
                if batch in (10, 20, 30):
                    proxy.lose_answers()
                yield numbered(batch * 100, batch * 100 + 100, size=200)

        written = write(options, "value binary", rows(), window_bytes=30_000, session=session)
        assert proxy.cuts == 3
        assert_each_once(broker, topic, 4000)
        assert sum(each.rows for each in written.values()) == 4000
        assert session.duplicates
        for duplicate in session.duplicates:
            assert duplicate.resent
            # Of one producer and no other, so that sequences and offsets go together.
            assert duplicate.sequence == duplicate.base_offset


def test_a_repeat_of_somebody_elses_batch_is_told(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker)
    options = options_of(shared_broker, topic=topic)
    cluster = cluster_of(options.connection)
    producer = init_producer_id(cluster, None, 0)
    told = []
    for first in (0, 100):
        session = ProducerSession(cluster, options, producer)
        write(options, "value binary", [numbered(first, first + 10)], session=session)
        told.append(session.duplicates)
    assert told[0] == []
    (duplicate,) = told[1]
    assert duplicate[:4] == (Place(topic, 0), 0, 0, 10)
    assert not duplicate.resent
    assert numbers(shared_broker, topic) == [list(range(10))]


def test_with_log_append_time_every_batch_may_be_a_repeat(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker, message_timestamp_type="LogAppendTime")
    options = options_of(shared_broker, topic=topic)
    session = session_of(options)
    write(options, "value binary", [numbered(0, 10)], session=session)
    (duplicate,) = session.duplicates
    assert (duplicate.base_offset, duplicate.rows, duplicate.resent) == (0, 10, False)


def test_a_gap_in_the_sequence_is_an_error_of_its_own(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker)
    place = Place(topic, 0)
    options = options_of(shared_broker, topic=topic)
    cluster = cluster_of(options.connection)
    producer = init_producer_id(cluster, None, 0)
    session = ProducerSession(cluster, options, producer)
    write(options, "value binary", [numbered(0, 10)], session=session)
    assert session.sequences == {place: 10}
    late = ProducerSession(cluster, options, producer, first_sequences={place: 12})
    with pytest.raises(OutOfOrderSequenceError) as error:
        write(options, "value binary", [numbered(10, 20)], session=late)
    assert (error.value.place, error.value.sequence) == (place, 12)
    on_time = ProducerSession(cluster, options, producer, first_sequences={place: 10})
    write(options, "value binary", [numbered(10, 20)], session=on_time)
    assert_each_once(shared_broker, topic, 20)


def test_sequences_begin_again_after_the_last(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker)
    place = Place(topic, 0)
    options = options_of(shared_broker, topic=topic, kafka_batch_size="100")
    cluster = cluster_of(options.connection)
    producer = init_producer_id(cluster, None, 0)
    session = ProducerSession(cluster, options, producer, first_sequences={place: 2**31 - 3})
    write(options, "value binary", [numbered(0, 50)], session=session)
    assert session.sequences == {place: 47}
    assert_each_once(shared_broker, topic, 50)


def test_a_transaction_is_seen_when_it_is_committed(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker, 2)
    options = options_of(shared_broker, topic=topic, kafka_batch_size="2000")
    cluster = cluster_of(options.connection)
    announced: list[Place] = []
    producer = init_producer_id(cluster, "sink-tid", 60_000)
    session = ProducerSession(
        cluster,
        options,
        producer,
        transactional_id="sink-tid",
        before_first=announced.extend,
    )
    batches = [numbered(start, start + 100) for start in range(0, 1000, 100)]
    write(options, "value binary", batches, window_bytes=2000, session=session)
    assert sorted(announced) == [Place(topic, 0), Place(topic, 1)]
    assert numbers(shared_broker, topic) == []
    end(cluster, "sink-tid", producer, commit=True)
    assert_each_once(shared_broker, topic, 1000)


def test_whoever_was_overtaken_is_fenced(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker)
    options = options_of(shared_broker, topic=topic)
    cluster = cluster_of(options.connection)
    old = init_producer_id(cluster, "overtaken", 60_000)
    init_producer_id(cluster, "overtaken", 60_000)
    session = ProducerSession(cluster, options, old, transactional_id="overtaken")
    with pytest.raises(FencedError, match=f"Writing to {topic}-0"):
        write(options, "value binary", [numbered(0, 10)], session=session)


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("idempotence", ["true", "false"])
def test_batches_that_a_topic_finds_too_large_are_made_smaller(
    shared_broker: Broker, codec: str, idempotence: str
) -> None:
    topic = new_topic(shared_broker, max_message_bytes=1500)
    options = options_of(
        shared_broker,
        topic=topic,
        kafka_compression_type=codec,
        kafka_enable_idempotence=idempotence,
        kafka_batch_size="60000",
        kafka_max_in_flight_requests_per_connection="5" if idempotence == "true" else "1",
    )
    batches = [numbered(start, start + 500) for start in range(0, 3000, 500)]
    written = write(options, "value binary", batches, window_bytes=30_000)
    assert_each_once(shared_broker, topic, 3000)
    total = written[Place(topic, 0)]
    assert total.rows == 3000
    assert total.bytes / total.batches <= 1500 + HEADER_BYTES


def test_nothing_overtakes_the_first_batch_of_a_producer(shared_broker: Broker) -> None:
    # The first is refused and cut in two; were the second on its way by then, the broker would
    # take it for the first of a producer that it does not know.
    topic = new_topic(shared_broker, max_message_bytes=1500)
    options = options_of(shared_broker, topic=topic, kafka_max_request_size="3000")
    batches = [numbered(0, 20, size=100), *(numbered(at, at + 5) for at in range(20, 400, 5))]
    write(options, "value binary", batches, window_bytes=1)
    assert_each_once(shared_broker, topic, 400)


def test_a_record_that_a_topic_finds_too_large(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker, max_message_bytes=1000)
    rows = [numbered(0, 10), numbered(10, 11, size=2000)]
    with pytest.raises(SparkJobError) as error:
        write(options_of(shared_broker, topic=topic), "value binary", rows)
    assert f"A record for {topic}-0" in str(error.value)
    assert "is larger than max.message.bytes of the topic" in str(error.value)


def test_a_compacted_topic_wants_keys(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker, cleanup_policy="compact")
    with pytest.raises(SparkJobError, match="a compacted topic wants a key in every row"):
        write(options_of(shared_broker, topic=topic), "value binary", [numbered(0, 1)])


def test_a_time_that_the_topic_does_not_want(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker, message_timestamp_before_max_ms=1000)
    options = options_of(shared_broker, topic=topic, includeTimestamp="true")
    rows = pa.record_batch(
        {"value": pa.array(["v"]), "timestamp": pa.array([0], pa.timestamp("us", "UTC"))}
    )
    with pytest.raises(SparkJobError, match=r"message\.timestamp\.before\.max\.ms"):
        write(options, "value string, timestamp timestamp", [rows])


def test_topics_of_the_brokers_own(shared_broker: Broker) -> None:
    options = options_of(shared_broker, topic="__consumer_offsets")
    init_producer_id(cluster_of(options.connection), "makes-internal-topics", 60_000)
    cluster = cluster_of(options.connection)
    cluster.commit_offsets("a-group", {Place(new_topic(shared_broker), 0): 0})
    with pytest.raises(SparkJobError, match="nobody writes to that topic but the brokers"):
        write(options, "value binary", [numbered(0, 1)])


def test_a_topic_that_is_deleted_in_mid_write(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker)

    def rows() -> Iterator[pa.RecordBatch]:
        yield numbered(0, 10)
        yield numbered(10, 20)
        delete_topic(shared_broker, topic)
        yield numbered(20, 30)

    with pytest.raises(UnknownTopicError, match=f"There is no topic {topic}"):
        write(
            options_of(shared_broker, topic=topic, kafka_max_request_size="200"),
            "value binary",
            rows(),
            window_bytes=1,
        )


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (ErrorCode.not_enough_replicas, "fewer replicas are in sync than min.insync.replicas"),
        (ErrorCode.kafka_storage_error, "free space if it is full"),
        (ErrorCode.unknown_topic_or_partition, "was the topic deleted?"),
    ],
)
def test_an_error_that_does_not_pass_says_what_to_do(code: ErrorCode, advice: str) -> None:
    with pytest.raises(NotAnsweredError) as error:
        Patience("Writing", 0).wait_after(advice_on(code, "whatever the broker says"))
    assert f"{code.name.upper()}, " in str(error.value)
    assert advice in str(error.value)


def test_patience_has_an_end() -> None:
    with Broker() as broker:
        topic = new_topic(broker)
        options = options_of(broker, topic=topic, kafka_delivery_timeout_ms="300")
        cluster = Cluster(options.connection)
        session = session_of(options, cluster)
        write(options, "value binary", [numbered(0, 10)], session=session)
        broker.stop()
        with pytest.raises(NotAnsweredError, match=r"was tried for \d+ s"):
            write(options, "value binary", [numbered(10, 20)], session=session)
        broker.start()


def test_only_time_in_trouble_counts_as_patience(
    shared_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(shared_broker)
    options = options_of(shared_broker, topic=topic)
    session = session_of(options, Cluster(options.connection))

    def rows() -> Iterator[pa.RecordBatch]:
        yield numbered(0, 10)
        yield numbered(10, 20)
        session.flush()
        # Whoever makes the rows takes longer than the brokers may, who hang up meanwhile.
        now = time.monotonic
        passed_s = options.connection.patience_s + 1
        monkeypatch.setattr(time, "monotonic", lambda: now() + passed_s)
        session.cluster.any_broker().link.close()
        yield numbered(20, 30)

    write(options, "value binary", rows(), window_bytes=1, session=session)
    session.cluster.close()
    assert_each_once(shared_broker, topic, 30)


class StuckSession(ProducerSession):
    """The broker takes what is for one of the topics, and says that it could not."""

    stuck = ""

    def _judge(self, batch: Any, result: Any) -> Exception | None:
        if batch.place.topic == self.stuck:
            return KafkaError(ErrorCode.not_enough_replicas, "says the broker")
        return super()._judge(batch, result)


def test_a_partition_that_is_stuck_is_given_up_though_others_get_on(shared_broker: Broker) -> None:
    """Its rows would be gathered in memory until the last one has come."""
    well, stuck = new_topic(shared_broker), new_topic(shared_broker)
    options = options_of(
        shared_broker, kafka_delivery_timeout_ms="300", kafka_max_request_size="1000"
    )
    session = StuckSession(cluster_of(options.connection), options, None)
    session.stuck = stuck
    taken = []

    def rows() -> Iterator[pa.RecordBatch]:
        for number in range(200):
            taken.append(number)
            values = [b"%d" % number + b" " * 900] * 2
            yield pa.record_batch({"value": pa.array(values), "topic": pa.array([well, stuck])})

    with pytest.raises(NotAnsweredError, match="NOT_ENOUGH_REPLICAS"):
        write(options, "value binary, topic string", rows(), window_bytes=1, session=session)
    assert len(taken) < 200


def test_a_producer_is_kept_for_the_next_task_unless_one_fails(shared_broker: Broker) -> None:
    topic = new_topic(shared_broker)
    options = options_of(shared_broker, topic=topic, kafka_max_request_size="5000")
    writer = AtLeastOnceWriter(options, VALUE)
    assert writer.write(iter([numbered(0, 10)])).rows == 10
    # Another batch of foreachBatch: other options, the same producer.
    other = AtLeastOnceWriter(replace(options, batch_id=7), VALUE)
    assert other.write(iter([numbered(10, 20)])).rows == 10
    assert len(_producers(shared_broker, topic)) == 1
    with pytest.raises(SparkJobError, match="takes 7"):
        writer.write(iter([numbered(20, 200), numbered(200, 201, size=7000)]))
    # The links are shared: answers to what the failed task had in flight are for nobody.
    assert writer.write(iter([numbered(300, 310)])).rows == 10
    assert len(_producers(shared_broker, topic)) == 2
    found = numbers(shared_broker, topic)[0]
    assert found[:20] == list(range(20))
    assert found[-10:] == list(range(300, 310))
    writer.commit([None])
    writer.abort([None])


def _producers(broker: Broker, topic: str) -> set[int]:
    """Who has written to the topic, as its leader remembers."""
    request = newest_type(DESCRIBE_PRODUCERS, "request")
    topics = (element_type(request, "topics")(name=topic, partition_indexes=(0,)),)
    leader = cluster_of(options_of(broker).connection).any_broker()
    answer = leader.ask(DESCRIBE_PRODUCERS, request(topics=topics))
    return {each.producer_id for each in answer.topics[0].partitions[0].active_producers}
