"""What a batch reader plans, over a real broker's topics."""

import pickle
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, LessThan
from tests.spark.source_driver.driver_world import World, spans_of

from barnabas.spark.errors import DataLostError, SparkJobError, UnknownTopicError
from barnabas.spark.places import Place, Span


def test_everything_there_is_when_it_is_planned(world: World) -> None:
    topic = world.topic(2)
    world.write(topic, 5)
    world.write(topic, 3, partition=1)
    world.forget(Place(topic, 1), 1)
    planned = world.batch(subscribe=topic).partitions()
    world.write(topic, 5)
    assert spans_of(planned) == [Span(Place(topic, 0), 0, 5), Span(Place(topic, 1), 1, 3)]
    assert len(planned) == 1
    assert pickle.loads(pickle.dumps(planned)) == planned


def test_a_range_of_offsets(world: World) -> None:
    topic = world.topic(2)
    world.write(topic, 20)
    world.write(topic, 20, partition=1)
    reader = world.batch(
        subscribe=topic,
        startingOffsets=f'{{"{topic}": {{"0": 4, "1": -2}}}}',
        endingOffsets=f'{{"{topic}": {{"0": 9, "1": -1}}}}',
    )
    zero, one = Place(topic, 0), Place(topic, 1)
    assert spans_of(reader.partitions()) == [Span(zero, 4, 9), Span(one, 0, 20)]


def test_a_range_of_times(world: World) -> None:
    topic = world.topic(2)
    world.write(topic, 10, time_ms=1_000_000)
    world.write(topic, 10, partition=1, time_ms=1_000_003)
    reader = world.batch(subscribe=topic, startingTimestamp=1_000_005, endingTimestamp=1_000_011)
    zero, one = Place(topic, 0), Place(topic, 1)
    assert spans_of(reader.partitions()) == [Span(zero, 5, 10), Span(one, 2, 8)]


def test_the_number_of_tasks(world: World) -> None:
    topic = world.topic()
    world.write(topic, 100)
    place = Place(topic, 0)
    parts = world.batch(subscribe=topic, minPartitions=4).partitions()
    assert [task.spans for task in parts] == [  # type: ignore[attr-defined]
        (Span(place, start, start + 25),) for start in (0, 25, 50, 75)
    ]
    assert len(world.batch(subscribe=topic, maxRecordsPerPartition=30).partitions()) == 4


def test_what_can_not_be(world: World) -> None:
    topic = world.topic()
    world.write(topic, 10)
    with pytest.raises(UnknownTopicError, match="no-such-topic"):
        world.batch(subscribe="no-such-topic").partitions()
    beyond = f'{{"{topic}": {{"0": 11}}}}'
    with pytest.raises(SparkJobError, match="from offset 11 to 10"):
        world.batch(subscribe=topic, startingOffsets=beyond).partitions()
    with pytest.raises(
        DataLostError, match=r"ends at offset 10.* If endingOffsets says so, lower it"
    ):
        world.batch(subscribe=topic, endingOffsets=beyond).partitions()
    patient = world.batch(subscribe=topic, endingOffsets=beyond, failOnDataLoss="false")
    assert spans_of(patient.partitions()) == [Span(Place(topic, 0), 0, 10)]
    world.forget(Place(topic, 0), 3)
    early = f'{{"{topic}": {{"0": 2}}}}'
    with pytest.raises(DataLostError, match="Offsets 2 to 2"):
        world.batch(subscribe=topic, startingOffsets=early).partitions()


def test_nothing_to_read(world: World) -> None:
    reader = world.batch(subscribePattern="^nothing-is-called-this$")
    assert reader.partitions() == []
    assert world.batch(subscribe=world.topic()).partitions() == []


def test_beginning_in_an_open_transaction(world: World) -> None:
    topic = world.topic()
    world.write(topic, 2, time_ms=1_000)
    producer = world.open_transaction(topic, 3)
    try:
        inside = world.batch(subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 4}}}}')
        assert inside.partitions() == []
        later = world.batch(subscribe=topic, endingTimestamp=1_000_000)
        assert spans_of(later.partitions()) == [Span(Place(topic, 0), 0, 2)]
    finally:
        producer.abort_transaction(60.0)


def test_filters_narrow_what_is_planned(world: World) -> None:
    topic, other = world.topic(2), world.topic()
    time = datetime(2024, 1, 1, tzinfo=UTC)
    time_ms = int(time.timestamp() * 1000)
    world.write(topic, 100, time_ms=time_ms)
    world.write(topic, 100, partition=1, time_ms=time_ms)
    world.write(other, 100)
    reader = world.pushdown(subscribe=f"{topic},{other}")
    filters: list[Filter] = [
        EqualTo(("topic",), topic),
        EqualTo(("partition",), 1),
        GreaterThanOrEqual(("timestamp",), time + timedelta(milliseconds=40)),
        LessThan(("timestamp",), time + timedelta(milliseconds=50)),
        LessThan(("offset",), 90),
    ]
    assert reader.pushFilters(filters) == filters
    assert spans_of(reader.partitions()) == [Span(Place(topic, 1), 39, 90)]


def test_a_late_bound_on_time_ends_nothing_where_the_broker_sets_it(world: World) -> None:
    """The topic may have records of a time when producers did, and one's clock was ahead."""
    topic = world.topic(message_timestamp_type="LogAppendTime")
    world.write(topic, 10)
    reader = world.pushdown(subscribe=topic)
    reader.pushFilters([LessThan(("timestamp",), datetime.now(UTC) - timedelta(hours=1))])
    assert spans_of(reader.partitions()) == [Span(Place(topic, 0), 0, 10)]


def test_bytes_make_tasks(world: World) -> None:
    topic = world.topic(2)
    for _ in range(10):
        world.write(topic, 1, size=400_000)
    world.write(topic, 10, partition=1, size=10)
    planned = world.batch(subscribe=topic, bytesPerTask="1m").partitions()
    assert len(planned) == 4
    assert [len(task.spans) for task in planned] == [1, 1, 1, 2]  # type: ignore[attr-defined]
