"""What the stream reader answers to Spark's driver, over a real broker's topics."""

import pickle
import time
from collections import Counter
from typing import Any

import pytest
from tests.spark.source_driver.driver_world import World, all_of, latest, spans_of

from barnabas.spark.errors import DataLostError, SparkJobError, UnknownTopicError
from barnabas.spark.places import Place, Span
from barnabas.spark.source.stream import BarnabasStreamReader


def test_a_query_follows_its_topic(world: World) -> None:
    topic = world.topic(2)
    world.write(topic, 5)
    reader = world.stream(subscribe=topic, startingOffsets="earliest")
    start = reader.initialOffset()
    assert start == {topic: {"0": 0, "1": 0}}
    end = latest(reader, start)
    assert end == {topic: {"0": 5, "1": 0}}
    assert reader.reportLatestOffset() == end
    assert spans_of(reader.partitions(start, end)) == [Span(Place(topic, 0), 0, 5)]
    assert latest(reader, end) is end
    world.write(topic, 3, partition=1)
    assert latest(reader, end) == {topic: {"0": 5, "1": 3}}


def test_the_copy_for_tasks_is_the_options_alone(world: World) -> None:
    reader = world.stream(subscribe=world.topic())
    copy = pickle.loads(pickle.dumps(reader))
    assert isinstance(copy, BarnabasStreamReader)
    assert copy.initialOffset() == reader.initialOffset()


def test_an_idle_query_asks_the_cluster_now_and_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = world.stream(subscribe=world.topic(), startingOffsets="earliest")
    start = reader.initialOffset()
    asked: Counter[str] = Counter()
    ask = reader._heads._ask

    def count() -> dict[Place, int]:
        asked["times"] += 1
        return ask()

    monkeypatch.setattr(reader._heads, "_ask", count)
    monkeypatch.setattr("barnabas.spark.source.stream._TRUE_FOR_S", 3600.0)
    for _ in range(50):
        assert reader.latestOffset(start, reader.getDefaultReadLimit()) is start
    assert asked["times"] == 1


def test_keys_stay_in_the_checkpoints_order(world: World) -> None:
    topic = world.topic(11)
    reader = world.stream(subscribe=topic, startingOffsets="earliest")
    start = {topic: {str(number): 0 for number in reversed(range(11))}}
    assert latest(reader, start) is start


def test_latest_is_in_the_journal_before_anything_is_read(world: World) -> None:
    topic = world.topic()
    world.write(topic, 5)
    reader = world.stream(subscribe=topic)
    start = reader.initialOffset()
    assert start == {topic: {"0": 5}}
    world.write(topic, 2)
    assert reader.initialOffset() == start
    first = latest(reader, start)
    assert first == start
    assert latest(reader, first) == {topic: {"0": 7}}

    # The driver dies in that first batch. The next one finds where it ended, and goes on there.
    again = world.stream(subscribe=topic)
    assert again.initialOffset() == {topic: {"0": 7}}
    assert again.partitions(again.initialOffset(), first) == []
    assert latest(again, first) == {topic: {"0": 7}}


@pytest.mark.parametrize("trigger", [latest, all_of])
def test_limits(world: World, trigger: Any) -> None:
    topic = world.topic(2)
    world.write(topic, 30)
    world.write(topic, 10, partition=1)
    reader = world.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=8)
    limited = {topic: {"0": 6, "1": 2}}
    everything = {topic: {"0": 30, "1": 10}}
    end = trigger(reader, reader.initialOffset())
    assert end == (limited if trigger is latest else everything)
    assert reader.reportLatestOffset() == everything


def test_a_limit_in_bytes(world: World) -> None:
    topic = world.topic()
    for _ in range(20):
        world.write(topic, 1, size=10_000)
    reader = world.stream(subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="50k")
    end = latest(reader, reader.initialOffset())
    assert 4 <= end[topic]["0"] <= 6


def test_waiting_for_more(world: World) -> None:
    topic = world.topic()
    options = {"startingOffsets": "earliest", "minOffsetsPerTrigger": 10, "maxTriggerDelay": "1h"}
    reader = world.stream(subscribe=topic, **options)
    world.write(topic, 1)
    end = latest(reader, reader.initialOffset())
    assert end == {topic: {"0": 1}}
    world.write(topic, 9)
    assert latest(reader, end) is end
    world.write(topic, 1)
    assert latest(reader, end) == {topic: {"0": 11}}


def test_available_now_reads_up_to_the_ends_of_now(world: World) -> None:
    topic = world.topic(2)
    world.write(topic, 30)
    reader = world.stream(
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=20,
        minOffsetsPerTrigger=15,
        maxTriggerDelay="1h",
    )
    reader.prepareForTriggerAvailableNow()
    world.write(topic, 100)
    world.grow(topic, 3)
    start = reader.initialOffset()
    assert start == {topic: {"0": 0, "1": 0, "2": 0}}
    first = latest(reader, {topic: {"0": 0, "1": 0}})
    assert first == {topic: {"0": 20, "1": 0}}
    last = latest(reader, first)
    assert last == {topic: {"0": 30, "1": 0}}
    assert latest(reader, last) is last
    assert reader.reportLatestOffset() == last


def test_available_now_from_the_latest_has_nothing_to_read(world: World) -> None:
    topic = world.topic()
    world.write(topic, 5)
    reader = world.stream(subscribe=topic)
    reader.prepareForTriggerAvailableNow()
    world.write(topic, 5)
    start = reader.initialOffset()
    assert start == {topic: {"0": 5}}
    assert latest(reader, start) is start
    assert latest(reader, start) is start


def test_available_now_takes_up_a_checkpoint_with_fewer_partitions(world: World) -> None:
    topic = world.topic(2)
    world.write(topic, 4, partition=1)
    reader = world.stream(subscribe=topic)
    reader.prepareForTriggerAvailableNow()
    end = latest(reader, {topic: {"0": 0}})
    assert end == {topic: {"0": 0, "1": 4}}
    assert latest(reader, end) is end


def test_new_partitions_are_read_from_their_beginning(world: World) -> None:
    topic = world.topic()
    world.write(topic, 2)
    reader = world.stream(subscribe=topic)
    start = latest(reader, reader.initialOffset())
    world.grow(topic, 2)
    world.write(topic, 3, partition=1)
    end = latest(reader, start)
    assert end == {topic: {"0": 2, "1": 3}}
    assert spans_of(reader.partitions(start, end)) == [Span(Place(topic, 1), 0, 3)]


def test_a_new_partition_that_has_lost_its_beginning_already(world: World) -> None:
    topic = world.topic(2)
    world.write(topic, 9, partition=1)
    world.forget(Place(topic, 1), 4)
    start, end = {topic: {"0": 0}}, {topic: {"0": 0, "1": 9}}
    with pytest.raises(DataLostError, match="Offsets 0 to 3"):
        world.stream(subscribe=topic).partitions(start, end)
    patient = world.stream(subscribe=topic, failOnDataLoss="false")
    assert spans_of(patient.partitions(start, end)) == [Span(Place(topic, 1), 4, 9)]


def test_partitions_go_by_the_journal_alone(world: World) -> None:
    topic = world.topic(2)
    world.write(topic, 50)
    world.write(topic, 50, partition=1)
    start, end = {topic: {"0": 3, "1": 7}}, {topic: {"0": 20, "1": 7}}
    wanted = [Span(Place(topic, 0), 3, 20)]
    reader = world.stream(subscribe=topic)
    assert spans_of(reader.partitions(start, end)) == wanted
    world.write(topic, 5)
    world.grow(topic, 3)
    assert spans_of(world.stream(subscribe=topic).partitions(start, end)) == wanted
    many = world.stream(subscribe=topic, minPartitions=5).partitions(start, end)
    assert len(many) == 5
    assert spans_of(many) == wanted


def test_records_lost_to_retention(world: World, caplog: pytest.LogCaptureFixture) -> None:
    topic = world.topic()
    world.write(topic, 20)
    world.forget(Place(topic, 0), 12)
    start, end = {topic: {"0": 5}}, {topic: {"0": 15}}
    with pytest.raises(DataLostError, match=r"Offsets 5 to 11.*failOnDataLoss=false"):
        world.stream(subscribe=topic).partitions(start, end)
    patient = world.stream(subscribe=topic, failOnDataLoss="false")
    assert spans_of(patient.partitions(start, end)) == [Span(Place(topic, 0), 12, 15)]
    assert "Offsets 5 to 11" in caplog.text


def test_a_topic_made_anew_is_noticed_before_it_is_journaled(world: World) -> None:
    topic = world.topic()
    world.write(topic, 20)
    world.delete(topic)
    world.topic(name=topic)
    world.write(topic, 3)
    start = {topic: {"0": 20}}
    with pytest.raises(DataLostError, match="ends at offset 3, but the query is at 20"):
        latest(world.stream(subscribe=topic), start)
    patient = world.stream(subscribe=topic, failOnDataLoss="false")
    end = latest(patient, start)
    assert end == {topic: {"0": 3}}
    assert patient.partitions(start, end) == []
    with pytest.raises(DataLostError, match="ends at offset 3"):
        world.stream(subscribe=topic).partitions({topic: {"0": 0}}, start)
    assert spans_of(patient.partitions({topic: {"0": 0}}, start)) == [Span(Place(topic, 0), 0, 3)]


def test_a_deleted_topic(world: World) -> None:
    kept, gone = world.topic(), world.topic()
    world.write(kept, 4)
    world.write(gone, 4)
    both = f"{kept},{gone}"
    start = {kept: {"0": 0}, gone: {"0": 1}}
    end = {kept: {"0": 4}, gone: {"0": 4}}
    world.delete(gone)
    with pytest.raises(DataLostError, match=f"{gone}-0 does not exist any more"):
        latest(world.stream(subscribe=both), start)
    with pytest.raises(DataLostError, match=f"{gone}-0 does not exist any more"):
        world.stream(subscribe=both).partitions(start, end)
    patient = world.stream(subscribe=both, failOnDataLoss="false")
    assert latest(patient, start) == {kept: {"0": 4}}
    assert spans_of(patient.partitions(start, end)) == [Span(Place(kept, 0), 0, 4)]
    with pytest.raises(UnknownTopicError, match=gone):
        world.stream(subscribe=both, failOnDataLoss="false").initialOffset()
    world.topic(name=gone)
    world.write(gone, 2)
    assert latest(patient, {kept: {"0": 4}}) == {kept: {"0": 4}, gone: {"0": 2}}


def test_a_checkpoint_of_another_query(world: World) -> None:
    mine, other = world.topic(), world.topic()
    start = {mine: {"0": 0}, other: {"0": 0}}
    with pytest.raises(SparkJobError, match=f"{other}-0.*another query"):
        latest(world.stream(subscribe=mine), start)
    with pytest.raises(SparkJobError, match=f"{other}-0.*another query"):
        world.stream(subscribePattern=f"^{mine}$").partitions(start, start)
    patient = world.stream(subscribe=mine, failOnDataLoss="false")
    assert latest(patient, start) == {mine: {"0": 0}}
    for nonsense in (5, {"offset": 3}, {mine: {"0": "x"}}, {mine: {"zero": 1}}, {mine: {"0": -5}}):
        with pytest.raises(SparkJobError, match="another query"):
            latest(world.stream(subscribe=mine), nonsense)  # type: ignore[arg-type]


def test_committed_records_only(world: World) -> None:
    topic = world.topic()
    world.write(topic, 3)
    producer = world.open_transaction(topic, 5)
    try:
        reader = world.stream(subscribe=topic, startingOffsets="earliest")
        end = latest(reader, reader.initialOffset())
        assert end == {topic: {"0": 3}}
        hasty = world.stream(subscribe=topic, kafka_isolation_level="read_uncommitted")
        read = latest(hasty, {topic: {"0": 0}})
        assert read == {topic: {"0": 8}}
        # Taken up by a query that is not as hasty: nothing is lost, there is nothing more yet.
        assert latest(world.stream(subscribe=topic), read) is read
    finally:
        producer.commit_transaction(60.0)
    while (now := latest(reader, end)) == end:
        time.sleep(0.05)  # The end is decided when the client is told; its marker comes after that.
    assert now == {topic: {"0": 9}}


def test_starting_offsets_by_partition(world: World) -> None:
    topic = world.topic(3)
    for partition in range(3):
        world.write(topic, 9, partition=partition)
    world.forget(Place(topic, 2), 2)
    offsets = f'{{"{topic}": {{"0": 4, "1": -1, "2": -2}}}}'
    reader = world.stream(subscribe=topic, startingOffsets=offsets)
    start = reader.initialOffset()
    assert start == {topic: {"0": 4, "1": 9, "2": 2}}
    world.write(topic, 1, partition=1)
    # What begins at the end of its log waits for the second batch; the others do not.
    end = latest(reader, start)
    assert end == {topic: {"0": 9, "1": 9, "2": 9}}
    assert latest(reader, end) == {topic: {"0": 9, "1": 10, "2": 9}}
    fewer = f'{{"{topic}": {{"0": 4, "1": -1}}}}'
    with pytest.raises(SparkJobError, match=f"does not name {topic}-2: use -1"):
        world.stream(subscribe=topic, startingOffsets=fewer).initialOffset()
    more = offsets[:-1] + ', "x": {"0": 1}}'
    with pytest.raises(SparkJobError, match="x-0, which this query does not read"):
        world.stream(subscribe=topic, startingOffsets=more).initialOffset()


def test_starting_by_time(world: World) -> None:
    topic = world.topic(2)
    world.write(topic, 10, time_ms=1_000_000)
    world.write(topic, 10, partition=1, time_ms=1_000_100)
    reader = world.stream(subscribe=topic, startingTimestamp=1_000_005)
    assert reader.initialOffset() == {topic: {"0": 5, "1": 0}}
    by_place = f'{{"{topic}": {{"0": 1000002, "1": 1000103}}}}'
    reader = world.stream(subscribe=topic, startingOffsetsByTimestamp=by_place)
    assert reader.initialOffset() == {topic: {"0": 2, "1": 3}}
    late = {"subscribe": topic, "startingTimestamp": 1_000_050}
    with pytest.raises(SparkJobError, match=f"No record of {topic}-0 .*Strategy to latest"):
        world.stream(**late).initialOffset()
    reader = world.stream(**late, startingOffsetsByTimestampStrategy="latest")
    assert reader.initialOffset() == {topic: {"0": 10, "1": 0}}


def test_a_pattern_is_found_anywhere_in_a_name_and_new_topics_are_taken_up(world: World) -> None:
    one = world.topic(name="weather-north-1")
    world.topic(name="climate-1")
    reader = world.stream(subscribePattern="ther-.*", startingOffsets="earliest")
    start = reader.initialOffset()
    assert start == {one: {"0": 0}}
    two = world.topic(name="weather-south-1")
    world.write(two, 2)
    assert latest(reader, start) == {one: {"0": 0}, two: {"0": 2}}
    nothing = world.stream(
        subscribePattern="^consumer_offsets|__consumer.*", startingOffsets="earliest"
    )
    assert nothing.initialOffset() == {}


def test_single_partitions(world: World) -> None:
    topic = world.topic(3)
    world.write(topic, 2, partition=1)
    reader = world.stream(assign=f'{{"{topic}": [1]}}', startingOffsets="earliest")
    start = reader.initialOffset()
    assert start == {topic: {"1": 0}}
    assert latest(reader, start) == {topic: {"1": 2}}
    with pytest.raises(UnknownTopicError, match="has 3 partition"):
        world.stream(assign=f'{{"{topic}": [1, 3]}}').initialOffset()


def test_a_topic_that_does_not_exist(world: World) -> None:
    with pytest.raises(UnknownTopicError, match="no-such-topic"):
        world.stream(subscribe="no-such-topic").initialOffset()


def test_what_the_list_of_partitions_is_taken_for_while_it_is_kept(world: World) -> None:
    topic = world.topic()
    options = {"startingOffsets": "earliest", "partition.metadata.cache.ttl.ms": 3_600_000}
    reader = world.stream(subscribe=topic, **options)
    start = reader.initialOffset()
    assert latest(reader, start) is start
    world.grow(topic, 2)
    assert latest(reader, start) is start
    reader._heads._places_at = float("-inf")
    assert latest(reader, start) == {topic: {"0": 0, "1": 0}}
