"""A driver that dies in the first batch: what the next one makes of its journal."""

from tests.spark.source_driver.driver_world import World, latest, spans_of

from barnabas.spark.places import Place, Span


def test_partitions_that_have_come_since_are_read_from_the_next_batch_on(world: World) -> None:
    topic = world.topic(1)
    world.write(topic, 5)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    reader = world.stream(**options)
    end = latest(reader, reader.initialOffset())
    world.grow(topic, 2)
    world.write(topic, 3, partition=1)

    again = world.stream(**options)
    start = again.initialOffset()
    assert start == {topic: {"0": 0, "1": 0}}
    assert spans_of(again.partitions(start, end)) == [Span(Place(topic, 0), 0, 5)]
    following = latest(again, end)
    assert spans_of(again.partitions(end, following)) == [Span(Place(topic, 1), 0, 3)]


def test_topics_of_a_pattern_that_have_come_since(world: World) -> None:
    one = world.topic(name="born-early")
    world.write(one, 5)
    reader = world.stream(subscribePattern="^born-")
    end = latest(reader, reader.initialOffset())
    assert end == {one: {"0": 5}}
    other = world.topic(name="born-late")
    world.write(other, 2)

    again = world.stream(subscribePattern="^born-")
    assert again.partitions(again.initialOffset(), end) == []
    following = latest(again, end)
    assert spans_of(again.partitions(end, following)) == [Span(Place(other, 0), 0, 2)]


def test_the_time_to_start_at_has_come_since(world: World) -> None:
    topic = world.topic()
    world.write(topic, 10, time_ms=1_000_000)
    options = {
        "subscribe": topic,
        "startingTimestamp": 2_000_000,
        "startingOffsetsByTimestampStrategy": "latest",
    }
    reader = world.stream(**options)
    end = latest(reader, reader.initialOffset())
    assert end == {topic: {"0": 10}}
    world.write(topic, 3, time_ms=1_500_000)
    world.write(topic, 2, time_ms=2_000_000)

    again = world.stream(**options)
    assert again.partitions(again.initialOffset(), end) == []
    following = latest(again, end)
    assert spans_of(again.partitions(end, following)) == [Span(Place(topic, 0), 10, 15)]
