"""All partitions of a broker: opened, made, grown, configured and deleted as topics are."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from tests.replica.conftest import NOW_MS

from barnabas.cluster.image import PartitionState, Topic
from barnabas.config.topic_config import TopicConfig
from barnabas.log.store import LogStore
from barnabas.log.verification import VERIFICATION_OFF
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import Marker
from barnabas.replica.parked import ParkedFetch
from barnabas.replica.partition import Partition
from barnabas.replica.service import Replicas
from barnabas.sim.clock import SimClock
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.loop import SimLoop, run
from barnabas.sim.work import SimWork
from barnabas.wire.records.record import encode_batch
from barnabas.world.memory import MemoryFiles

LOG = "data/events-0/00000000000000000000.log"


def topic(
    name: str = "events", partitions: int = 2, *, epoch: int = 0, number: int = 1, **settings: Any
) -> Topic:
    states = tuple(PartitionState(1, epoch, (1,), (1,)) for _ in range(partitions))
    return Topic(name, uuid.UUID(int=number), states, {}, TopicConfig(**settings))


class House:
    """A store and its replicas on a simulated loop."""

    def __init__(self, loop: SimLoop, files: MemoryFiles) -> None:
        self.failures: list[str] = []
        self.store = LogStore(files, "data", SimClock(loop), SimEntropy(1))
        self.replicas = Replicas(self.store, SimWork(loop, 1), self.failures.append)

    def partition(self, name: str, index: int) -> Partition:
        found = self.replicas.find(name, index)
        assert found is not None
        return found


def inside(files: MemoryFiles, scene: Callable[[House], Any]) -> None:
    async def main(loop: SimLoop) -> None:
        house = House(loop, files)
        result = scene(house)
        if result is not None:
            await result

    run(main, 0)


def send(partition: Partition, value: bytes) -> "asyncio.Future[None] | None":
    view = memoryview(bytearray(encode_batch([(NOW_MS, b"k", value, [])])))
    return partition.append(view, partition.log.check(view, NOW_MS), NOW_MS)[1]


def test_a_new_topics_partitions_are_found_by_name_and_id() -> None:
    async def scene(house: House) -> None:
        made = topic(partitions=3)
        await house.replicas.create(made)
        assert len(list(house.replicas)) == 3
        assert house.replicas.by_id[made.id_bytes].topic is made
        assert house.replicas.find("events", 3) is None
        assert house.replicas.find("other", 0) is None

    inside(MemoryFiles(), scene)


def test_everything_is_there_again_after_a_restart() -> None:
    files = MemoryFiles()

    async def before(house: House) -> None:
        await house.replicas.create(topic())
        send(house.partition("events", 1), b"kept")
        house.store.close()

    async def after(house: House) -> None:
        await house.replicas.open_all([topic(epoch=4)])
        partition = house.partition("events", 1)
        assert (partition.high_watermark, partition.leader_epoch) == (1, 4)
        assert house.partition("events", 0).high_watermark == 0

    inside(files, before)
    inside(files, after)


def test_folders_of_unknown_topics_are_set_aside_at_start() -> None:
    files = MemoryFiles()

    async def before(house: House) -> None:
        await house.replicas.create(topic())
        house.store.close()

    async def after(house: House) -> None:
        await house.replicas.open_all([])
        assert not files.exists("data/events-0")
        assert len([name for name in files.list("data") if name.endswith("-stray")]) == 2

    inside(files, before)
    inside(files, after)


def test_an_unclean_start_writes_down_what_recovery_found() -> None:
    files = MemoryFiles()

    async def before(house: House) -> None:
        await house.replicas.create(topic(partitions=1))
        send(house.partition("events", 0), b"0")
        house.store.close()
        files.replace("data/recovery-point-offset-checkpoint", b"0\n1\nevents 0 99\n")
        files.remove("data/.kafka_cleanshutdown")

    async def after(house: House) -> None:
        await house.replicas.open_all([topic(partitions=1)])
        assert files.read("data/recovery-point-offset-checkpoint") == b"0\n1\nevents 0 0\n"

    inside(files, before)
    inside(files, after)


def test_a_damaged_partition_stays_offline_and_the_others_are_served() -> None:
    files = MemoryFiles()

    async def before(house: House) -> None:
        await house.replicas.create(topic())
        send(house.partition("events", 0), b"0")
        send(house.partition("events", 1), b"1")
        house.store.close()
        files.remove("data/.kafka_cleanshutdown")
        files.open(LOG).truncate(50)

    async def after(house: House) -> None:
        await house.replicas.open_all([topic()])
        hosted = house.replicas.by_name["events"]
        assert list(hosted.partitions) == [1]
        assert "had been synced" in hosted.damaged[0]
        assert house.replicas.find("events", 0) is None
        assert files.size_of(LOG) == 50
        house.store.close()

    inside(files, before)
    inside(files, after)
    inside(files, after)


def test_a_topic_with_a_damaged_partition_can_be_deleted() -> None:
    files = MemoryFiles()

    async def before(house: House) -> None:
        await house.replicas.create(topic())
        send(house.partition("events", 0), b"0")
        house.store.close()
        files.remove("data/.kafka_cleanshutdown")
        files.open(LOG).truncate(50)

    async def after(house: House) -> None:
        await house.replicas.open_all([topic()])
        await house.replicas.delete(topic())
        assert not house.replicas.by_name
        assert not house.replicas.by_id
        house.store.abandon()
        for remove in House(SimLoop(1), files).store.take_due_removals():
            remove()
        assert [name for name in files.list("data") if "events" in name] == []

    inside(files, before)
    inside(files, after)


def test_growing_keeps_the_partitions_that_are_there() -> None:
    async def scene(house: House) -> None:
        await house.replicas.create(topic(partitions=1))
        first = house.partition("events", 0)
        await house.replicas.grow(topic(partitions=3), 1)
        assert house.partition("events", 0) is first
        assert len(list(house.replicas)) == 3

    inside(MemoryFiles(), scene)


def test_changed_settings_reach_every_log() -> None:
    async def scene(house: House) -> None:
        await house.replicas.create(topic())
        house.replicas.configure(topic(max_message_bytes=10))
        for partition in house.replicas:
            with pytest.raises(KafkaError) as refused:
                send(partition, b"x")
            assert refused.value.code is ErrorCode.message_too_large

    inside(MemoryFiles(), scene)


def test_deleting_a_topic_tells_producers_and_consumers_that_wait() -> None:
    async def scene(house: House) -> None:
        await house.replicas.create(topic(flush_messages=1))
        partition = house.partition("events", 0)
        acknowledged = send(partition, b"x")
        fetch = ParkedFetch(1, 60.0)
        partition.park_fetch(fetch)
        await house.replicas.delete(topic())
        await fetch.done
        assert acknowledged is not None
        with pytest.raises(KafkaError) as refused:
            await acknowledged
        assert refused.value.code is ErrorCode.unknown_topic_or_partition
        await asyncio.sleep(10)
        assert house.failures == []

    inside(MemoryFiles(), scene)


def test_a_failed_disk_stops_every_partition() -> None:
    async def scene(house: House) -> None:
        await house.replicas.create(topic())
        house.replicas.fail_all("The disk is gone.")
        for partition in house.replicas:
            with pytest.raises(KafkaError) as refused:
                send(partition, b"x")
            assert refused.value.code is ErrorCode.kafka_storage_error

    inside(MemoryFiles(), scene)


def led(name: str = "events", *, leader: int = 1, epoch: int = 0, replicas: Any = (1, 2)) -> Topic:
    states = (PartitionState(leader, epoch, replicas, replicas, epoch),)
    return Topic(name, uuid.UUID(int=1), states, {}, TopicConfig())


def in_cluster(scene: Callable[[House], Any]) -> None:
    async def main(loop: SimLoop) -> None:
        house = House(loop, MemoryFiles())
        house.replicas = Replicas(house.store, SimWork(loop, 1), house.failures.append, 1)
        await scene(house)

    run(main, 0)


def test_a_partition_that_changes_while_it_is_opened_is_opened_once() -> None:
    """Two logs on the same files would write over each other."""

    async def scene(house: House) -> None:
        served: list[Partition] = []
        house.replicas.on_served(lambda _hosted, _index, partition: served.append(partition))
        created = house.replicas.create(led())
        assert house.replicas.change(led(leader=2, epoch=1), [0]) is None
        await created
        (partition,) = served
        assert house.partition("events", 0) is partition
        assert (partition.leads, partition.leader_epoch) == (False, 1)

    in_cluster(scene)


def test_a_partition_that_comes_to_this_broker_is_opened() -> None:
    async def scene(house: House) -> None:
        await house.replicas.create(led(leader=2, replicas=(2, 3)))
        assert house.replicas.find("events", 0) is None
        come = house.replicas.change(led(leader=2, epoch=1, replicas=(2, 3, 1)), [0])
        assert come is not None
        again = house.replicas.change(led(leader=1, epoch=2, replicas=(2, 3, 1)), [0])
        assert again is None
        await come
        assert house.partition("events", 0).leads
        assert house.partition("events", 0).leader_epoch == 2

    in_cluster(scene)


def test_roles_change_at_once_and_whoever_remembers_a_partition_notices() -> None:
    async def scene(house: House) -> None:
        await house.replicas.create(led())
        partition, generation = house.partition("events", 0), house.replicas.generation
        assert house.replicas.change(led(leader=2, epoch=1), [0]) is None
        assert not partition.leads
        assert house.replicas.generation > generation
        generation = house.replicas.generation
        assert house.replicas.change(led(leader=2, epoch=1), [0]) is None
        assert house.replicas.generation == generation

    in_cluster(scene)


def test_the_high_watermark_outlives_a_restart() -> None:
    files = MemoryFiles()

    async def main(loop: SimLoop, expected: int) -> None:
        house = House(loop, files)
        replicas = house.replicas = Replicas(house.store, SimWork(loop, 1), pytest.fail, 1)
        await replicas.open_all([led()])
        partition = house.partition("events", 0)
        assert partition.high_watermark == expected
        send(partition, b"a")
        send(partition, b"b")
        partition.record_fetch(2, 7, partition.high_watermark + 1, 0.0)
        await replicas.settle()
        await replicas.close()

    # Of two records each time, one is known to be everywhere.
    run(lambda loop: main(loop, 0), 0)
    run(lambda loop: main(loop, 1), 0)
    run(lambda loop: main(loop, 2), 0)


def begin_transaction(partition: Partition, producer_id: int) -> None:
    batch = encode_batch(
        [(NOW_MS, b"k", b"v", [])],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    view = memoryview(bytearray(batch))
    partition.append(view, partition.log.check(view, NOW_MS), NOW_MS, VERIFICATION_OFF)


def test_an_end_that_is_not_known_to_be_committed_is_none_after_a_restart_either() -> None:
    """The marker may be lost with the leader that has it: what readers were shown would go back.
    Seed 194 of the simulated clusters has found that."""
    files = MemoryFiles()

    async def main(loop: SimLoop, scene: Callable[[Partition], None]) -> None:
        house = House(loop, files)
        replicas = house.replicas = Replicas(house.store, SimWork(loop, 1), pytest.fail, 1)
        await replicas.open_all([led()])
        scene(house.partition("events", 0))
        await replicas.settle()
        await replicas.close()

    def before(partition: Partition) -> None:
        send(partition, b"a")
        begin_transaction(partition, 7)
        send(partition, b"b")
        begin_transaction(partition, 8)
        for producer_id in (8, 7):
            marker = Marker(
                producer_id=producer_id, epoch=0, coordinator_epoch=0, committed=True
            )  # fmt: skip
            partition.append_marker(marker, NOW_MS)
        partition.record_fetch(2, 7, 3, 0.0)
        assert (partition.last_stable_offset, partition.high_watermark) == (1, 3)

    def after(partition: Partition) -> None:
        stable = []
        for offset in (3, 4, 5, 6):
            partition.record_fetch(2, 8, offset, 0.0)
            stable.append((partition.last_stable_offset, partition.high_watermark))
        assert stable == [(1, 3), (1, 4), (1, 5), (6, 6)]

    run(lambda loop: main(loop, before), 0)
    run(lambda loop: main(loop, after), 0)
