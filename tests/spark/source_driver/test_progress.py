"""Progress becomes a group's offsets; what goes wrong with that never stops a query."""

import pytest
from confluent_kafka import Consumer
from tests.spark.source_driver.driver_world import World, latest

from barnabas.spark.places import Place
from barnabas.spark.source import progress as progress_module
from barnabas.spark.source.progress import Progress


def committed(world: World, group: str) -> dict[Place, int]:
    found = world.cluster.committed_offsets(group, None, stable=True)
    return {place: offset for place, (offset, _) in found.items()}


def test_where_the_last_batch_ended_is_committed_when_spark_asks_for_more(world: World) -> None:
    topic = world.topic(2)
    world.write(topic, 4)
    reader = world.stream(
        subscribe=topic,
        startingOffsets="earliest",
        kafka_group_id="watched",
        maxOffsetsPerTrigger=2,
    )
    zero, one = Place(topic, 0), Place(topic, 1)
    start = reader.initialOffset()
    first = latest(reader, start)
    assert committed(world, "watched") == {zero: 0, one: 0}
    second = latest(reader, first)
    assert committed(world, "watched") == {zero: 2, one: 0}
    reader.commit(first)
    assert latest(reader, second) is second
    assert committed(world, "watched") == {zero: 4, one: 0}


def test_a_batch_that_is_replayed_is_committed_after_it(world: World) -> None:
    topic = world.topic()
    world.write(topic, 4)
    start, end = {topic: {"0": 1}}, {topic: {"0": 4}}
    reader = world.stream(subscribe=topic, kafka_group_id="replaying")
    reader.partitions(start, end)
    assert committed(world, "replaying") == {}
    assert latest(reader, end) is end
    assert committed(world, "replaying") == {Place(topic, 0): 4}


def test_no_group_no_commit(world: World) -> None:
    topic = world.topic()
    Progress(world.cluster.connection, None).reach({Place(topic, 0): 1})


def test_offsets_are_committed_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = world.topic()
    progress = Progress(world.cluster.connection, "once")
    progress.reach({Place(topic, 0): 1})

    def never(_: object) -> None:
        raise AssertionError("the same offsets again")

    monkeypatch.setattr(progress_module, "cluster_of", never)
    progress.reach({Place(topic, 0): 1})


def test_a_group_with_running_members(world: World, caplog: pytest.LogCaptureFixture) -> None:
    topic = world.topic()
    place = Place(topic, 0)
    consumer = Consumer({"bootstrap.servers": world.servers, "group.id": "taken"})
    try:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        reader = world.stream(subscribe=topic, startingOffsets="earliest", kafka_group_id="taken")
        start = reader.initialOffset()
        world.write(topic, 1)
        end = latest(reader, start)
        assert end == {topic: {"0": 1}}
        assert latest(reader, end) is end
        assert caplog.text.count("running consumers are members of the group") == 1
        assert "kafka.group.id of its own" in caplog.text
    finally:
        consumer.close()
    # Refused offsets are sent again after a while; once the members have gone they are taken.
    reader._progress._refused_at = float("-inf")
    assert latest(reader, end) is end
    assert committed(world, "taken") == {place: 1}


def test_nobody_answers(world: World, caplog: pytest.LogCaptureFixture) -> None:
    from dataclasses import replace

    from barnabas.spark.cluster.connection import Server

    nowhere = replace(world.cluster.connection, servers=(Server("127.0.0.1", 1),), patience_s=0.01)
    Progress(nowhere, "group").reach({Place("t", 0): 1})
    assert "The query goes on" in caplog.text
