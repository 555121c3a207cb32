"""Topics of many partitions come and go bit by bit, and whatever happens meanwhile is right."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.replica.test_replicas import House, inside, send, topic

from barnabas.api.context import hosted_partition
from barnabas.config.topic_config import TopicConfig
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import TopicPartition
from barnabas.world.memory import MemoryFiles

MANY = 500


class WatchedFiles(MemoryFiles):
    """Tells of every folder that is made."""

    made: Callable[[str], None] = staticmethod(lambda _path: None)

    def make_dirs(self, path: str) -> None:
        self.made(path)
        super().make_dirs(path)


def folders(files: MemoryFiles, ending: str = "") -> list[str]:
    return [name for name in files.list("data") if name.startswith("events-") and ending in name]


async def some_open(house: House) -> int:
    """Wait until some partitions of the topic are served, and not all."""
    while not house.replicas.by_name["events"].partitions:
        await asyncio.sleep(0.001)
    return len(house.replicas.by_name["events"].partitions)


def refusal(house: House, index: int) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        hosted_partition(house.replicas.by_name.get("events"), index)
    return refused.value.code


def test_others_are_served_while_many_partitions_are_opened() -> None:
    async def scene(house: House) -> None:
        await house.replicas.create(topic("busy", 1, number=9))
        opening = house.replicas.create(topic(partitions=MANY))
        served = await some_open(house)
        assert 0 < served < MANY
        send(house.partition("busy", 0), b"meanwhile")
        send(house.partition("events", 0), b"already")
        assert refusal(house, MANY - 1) is ErrorCode.not_leader_or_follower
        assert refusal(house, MANY) is ErrorCode.unknown_topic_or_partition
        assert not opening.done()
        await opening
        assert len(house.replicas.by_name["events"].partitions) == MANY
        assert hosted_partition(house.replicas.by_name["events"], MANY - 1).high_watermark == 0

    inside(MemoryFiles(), scene)


def test_a_topic_that_is_deleted_while_it_is_opened_leaves_nothing() -> None:
    files = MemoryFiles()

    async def scene(house: House) -> None:
        opening = house.replicas.create(topic(partitions=MANY))
        await some_open(house)
        deleting = house.replicas.delete(topic(partitions=MANY))
        assert refusal(house, 0) is ErrorCode.unknown_topic_or_partition
        await opening
        assert 0 < len(folders(files)) < MANY, "the rest was not even made"
        await deleting
        assert folders(files) == folders(files, "-delete")
        assert list(house.replicas) == []
        assert house.store.logs == {}
        await asyncio.sleep(60)
        for remove in house.store.take_due_removals():
            remove()
        assert folders(files) == []

    inside(files, scene)


def test_a_topic_of_the_same_name_waits_for_the_old_folders_to_go() -> None:
    files = MemoryFiles()

    async def scene(house: House) -> None:
        await house.replicas.create(topic(partitions=MANY))
        send(house.partition("events", MANY - 1), b"old")
        house.replicas.delete(topic(partitions=MANY))
        await house.replicas.create(topic(partitions=MANY, number=2))
        assert len(folders(files, "-delete")) == MANY
        assert folders(files, "-stray") == []
        assert house.partition("events", MANY - 1).log.end_offset == 0
        assert len(list(house.replicas)) == MANY
        send(house.partition("events", MANY - 1), b"new")
        await house.replicas.settle()
        await house.replicas.close()

    async def after(house: House) -> None:
        assert house.store.clean
        await house.replicas.open_all([topic(partitions=MANY, number=2)])
        assert house.partition("events", MANY - 1).log.end_offset == 1
        for remove in house.store.take_due_removals():
            remove()
        assert len(folders(files)) == MANY

    inside(files, scene)
    inside(files, after)


def test_made_deleted_and_made_again_at_once() -> None:
    files = MemoryFiles()

    async def scene(house: House) -> None:
        house.replicas.create(topic(partitions=MANY))
        house.replicas.delete(topic(partitions=MANY))
        house.replicas.create(topic(partitions=3, number=2))
        house.replicas.delete(topic(partitions=3, number=2))
        await house.replicas.create(topic(partitions=2, number=3))
        assert sorted(set(folders(files)) - set(folders(files, "-delete"))) == [
            "events-0",
            "events-1",
        ]
        assert len(list(house.replicas)) == 2
        assert set(house.store.logs) == {TopicPartition("events", 0), TopicPartition("events", 1)}

    inside(files, scene)


def test_partitions_that_are_added_while_the_first_are_opened() -> None:
    async def scene(house: House) -> None:
        house.replicas.create(topic(partitions=MANY))
        await some_open(house)
        await house.replicas.grow(topic(partitions=MANY + 100), MANY)
        assert len(list(house.replicas)) == MANY + 100

    inside(MemoryFiles(), scene)


def test_settings_that_change_while_partitions_are_opened_reach_all_of_them() -> None:
    files = WatchedFiles()

    async def scene(house: House) -> None:
        changed = topic(partitions=MANY, max_message_bytes=10)
        files.made = lambda path: (
            house.replicas.configure(changed) if path.endswith("-100") else None
        )
        await house.replicas.create(topic(partitions=MANY))
        assert {each.log.config.max_message_bytes for each in house.replicas} == {10}

    inside(files, scene)


def test_a_disk_that_fails_while_partitions_are_opened_stops_all_of_them() -> None:
    async def scene(house: House) -> None:
        opening = house.replicas.create(topic(partitions=MANY))
        await some_open(house)
        house.replicas.fail_all("The disk is gone.")
        await opening
        assert len(list(house.replicas)) == MANY
        for partition in house.replicas:
            with pytest.raises(KafkaError) as refused:
                send(partition, b"x")
            assert refused.value.code is ErrorCode.kafka_storage_error

    inside(MemoryFiles(), scene)


def test_a_stop_does_not_wait_for_partitions_that_nobody_has_used() -> None:
    files = MemoryFiles()

    async def scene(house: House) -> None:
        house.replicas.create(topic(partitions=MANY))
        await some_open(house)
        send(house.partition("events", 0), b"kept")
        await house.replicas.settle()
        assert 0 < len(list(house.replicas)) < MANY
        await house.replicas.close()

    async def after(house: House) -> None:
        assert house.store.clean
        await house.replicas.open_all([topic(partitions=MANY)])
        assert len(list(house.replicas)) == MANY, "missing folders are made at start"
        assert house.partition("events", 0).log.end_offset == 1

    inside(files, scene)
    inside(files, after)


def test_a_kill_in_mid_opening_leaves_what_a_start_can_complete() -> None:
    files = MemoryFiles()

    async def scene(house: House) -> None:
        house.replicas.create(topic(partitions=MANY))
        await some_open(house)
        send(house.partition("events", 0), b"kept")
        house.store.abandon()
        house.replicas._stopping = True
        await house.replicas.settle()

    async def after(house: House) -> None:
        assert not house.store.clean
        await house.replicas.open_all([topic(partitions=MANY)])
        assert len(list(house.replicas)) == MANY
        assert house.partition("events", 0).log.end_offset == 1

    inside(files, scene)
    inside(files, after)


def test_a_checkpoint_that_can_not_be_written_keeps_new_partitions_offline() -> None:
    class Full(MemoryFiles):
        full = False

        def replace(self, path: str, data: bytes) -> None:
            if self.full:
                raise OSError(28, "No space left on device")
            super().replace(path, data)

    files = Full()

    async def scene(house: House) -> None:
        await house.replicas.create(topic(partitions=2))
        house.store.checkpoint_job()()
        await house.replicas.delete(topic(partitions=2))
        files.full = True
        await house.replicas.create(topic(partitions=2, number=2))
        hosted = house.replicas.by_name["events"]
        assert hosted.partitions == {}
        assert ["No space left" in why for why in hosted.damaged.values()] == [True, True]
        assert house.failures == []

    inside(files, scene)


def test_an_idle_partition_is_small() -> None:
    """A bound, not a measure: someone's forgotten buffer would break it."""
    import tracemalloc

    async def scene(house: House) -> None:
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            await house.replicas.create(topic(partitions=1_000))
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert grown / 1_000 < 10_000

    inside(MemoryFiles(), scene)


def test_the_same_config_object_is_kept_for_all() -> None:
    async def scene(house: House) -> None:
        made: Any = topic(partitions=10)
        await house.replicas.create(made)
        configs: set[int] = {id(each.log.config) for each in house.replicas}
        assert configs == {id(made.config)}
        assert isinstance(made.config, TopicConfig)

    inside(MemoryFiles(), scene)


def test_a_topic_that_is_deleted_at_the_start_does_not_keep_others_from_being_opened() -> None:
    async def scene(house: House) -> None:
        doomed, spared = topic(partitions=MANY), topic("spared", 1, number=9)
        opening = asyncio.create_task(house.replicas.open_all([doomed, spared]))
        while "events" not in house.replicas.by_name:
            await asyncio.sleep(0.001)
        await asyncio.gather(house.replicas.delete(doomed), opening)
        send(house.partition("spared", 0), b"here")

    inside(MemoryFiles(), scene)
