"""What a broker does again and again, duty by duty."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.housekeeping import Housekeeping
from barnabas.cluster.image import PartitionState, Topic
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.topic_config import TopicConfig
from barnabas.log import recovery
from barnabas.log.log import PartitionLog
from barnabas.log.segment import Segment
from barnabas.log.store import LogStore
from barnabas.model.errors import ErrorCode
from barnabas.ports.work import Lane
from barnabas.replica.partition import Partition
from barnabas.replica.service import Replicas
from barnabas.sim.clock import SimClock
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles
from barnabas.sim.loop import SimLoop, run
from barnabas.sim.work import SimWork
from barnabas.wire.records.record import encode_batch

POINTS = "data/recovery-point-offset-checkpoint"
MINUTE_MS = 60_000


class House:
    """One topic with one partition, and its housekeeping."""

    def __init__(self, loop: SimLoop, settings: dict[str, Any]) -> None:
        self.files = SimFiles(1, chances=Chances(cold=0))
        self.clock = SimClock(loop)
        self.failures: list[str] = []
        self.work = SimWork(loop, 1)
        self.store = LogStore(self.files, "data", self.clock, SimEntropy(1))
        self.replicas = Replicas(self.store, self.work, self.failures.append)
        state = PartitionState(1, 0, (1,), (1,))
        topic = Topic("events", uuid.UUID(int=1), (state,), {}, TopicConfig(**settings))
        self.opened = self.replicas.create(topic)
        self.topic = topic
        self.duties = Housekeeping(self.replicas, self.clock, self.work, BrokerConfig)

    @property
    def partition(self) -> Partition:
        found = self.replicas.find("events", 0)
        assert found is not None
        return found

    def send(
        self,
        value: bytes,
        *,
        topic: str = "events",
        producer: tuple[int, int, int] = (-1, -1, -1),
    ) -> None:
        partition = self.replicas.find(topic, 0)
        assert partition is not None
        now_ms = self.clock.wall_ms()
        data = encode_batch(
            [(now_ms, b"k", value, [])],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
        )
        view = memoryview(bytearray(data))
        partition.append(view, partition.log.check(view, now_ms), now_ms)

    def log_files(self) -> list[str]:
        return [name for name in self.files.list("data/events-0") if name.endswith(".log")]


def inside(scene: Callable[[House], Any], **settings: Any) -> None:
    async def main(loop: SimLoop) -> None:
        house = House(loop, settings)
        await house.opened
        await scene(house)

    run(main, 0)


def test_retention_lets_go_of_old_segments_after_a_sync_and_a_delay() -> None:
    async def scene(house: House) -> None:
        house.send(b"old")
        await asyncio.sleep(120)
        await house.duties.retention()
        assert house.partition.log.start_offset == 0
        await house.duties.sync()
        await asyncio.sleep(10)
        await house.duties.retention()
        assert house.partition.log.start_offset == 1
        assert len(house.log_files()) == 2
        await house.duties.removal()
        await asyncio.sleep(10)
        assert len(house.log_files()) == 2
        await asyncio.sleep(40)
        await house.duties.removal()
        await asyncio.sleep(10)
        assert house.log_files() == ["00000000000000000001.log"]

    inside(scene, retention_ms=MINUTE_MS, file_delete_delay_ms=30_000)


def test_retention_forgets_silent_producers() -> None:
    async def scene(house: House) -> None:
        house.send(b"x", producer=(5, 0, 0))
        await house.duties.retention()
        assert len(house.partition.log.producers) == 1
        await asyncio.sleep(86_400 + 1)
        await house.duties.retention()
        assert len(house.partition.log.producers) == 0

    inside(scene)


def test_one_log_whose_retention_fails_does_not_keep_the_others() -> None:
    async def scene(house: House) -> None:
        state = PartitionState(1, 0, (1,), (1,))
        config = TopicConfig(retention_ms=MINUTE_MS)
        await house.replicas.create(Topic("other", uuid.UUID(int=2), (state,), {}, config))
        house.send(b"x")
        house.send(b"x", topic="other")
        await asyncio.sleep(120)
        house.files.faults.fail_next("write", "events-0")
        await house.duties.retention()
        assert [len(each.log.segments) for each in house.replicas] == [1, 2]
        await house.duties.retention()
        assert [len(each.log.segments) for each in house.replicas] == [2, 2]

    inside(scene, retention_ms=MINUTE_MS)


def test_a_failed_log_is_left_alone() -> None:
    async def scene(house: House) -> None:
        house.send(b"x")
        await asyncio.sleep(120)
        house.replicas.fail_all("The disk is gone.")
        await house.duties.retention()
        await house.duties.sync()
        await asyncio.sleep(10)
        log = house.partition.log
        assert (len(log.segments), log.recovery_point) == (1, 0)

    inside(scene, retention_ms=MINUTE_MS)


def test_logs_are_synced_when_their_oldest_unsynced_batch_reaches_flush_ms() -> None:
    async def scene(house: House) -> None:
        house.send(b"x")
        await asyncio.sleep(29)
        house.send(b"y")
        await house.duties.sync()
        await asyncio.sleep(0.9)
        assert house.partition.log.recovery_point == 0
        await asyncio.sleep(0.2)
        await house.duties.sync()
        await asyncio.sleep(6)
        assert house.partition.log.recovery_point == 2
        await house.duties.sync()
        assert house.partition.log.sync_job() is None

    inside(scene, flush_ms=30_000)


def test_rolled_segments_are_synced_whatever_the_settings() -> None:
    async def scene(house: House) -> None:
        house.send(b"x")
        await house.duties.sync()
        await asyncio.sleep(6)
        assert house.partition.log.recovery_point == 0
        house.partition.log.roll(house.clock.wall_ms())
        await house.duties.sync()
        await asyncio.sleep(6)
        assert house.partition.log.recovery_point == 1

    inside(scene)


def test_checkpoints_tell_up_to_where_logs_are_synced() -> None:
    async def scene(house: House) -> None:
        house.send(b"x")
        house.partition.sync()
        await asyncio.sleep(6)
        house.send(b"y")
        await house.duties.checkpoint()
        await asyncio.sleep(6)
        assert house.files.read(POINTS) == b"0\n1\nevents 0 1\n"

    inside(scene)


def test_a_checkpoint_that_fails_is_tried_again() -> None:
    async def scene(house: House) -> None:
        house.send(b"x")
        house.files.faults.fail_next("write", "checkpoint")
        house.duties.start()
        await asyncio.sleep(65)
        assert not house.files.exists(POINTS)
        await asyncio.sleep(60)
        assert house.files.exists(POINTS)
        await house.duties.stop()

    inside(scene)


def test_a_duty_that_raises_comes_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[float] = []

    async def main(loop: SimLoop) -> None:
        house = House(loop, {})

        async def raising() -> None:
            calls.append(loop.time())
            if len(calls) == 1:
                raise OSError(24, "Too many open files")

        monkeypatch.setattr(house.duties, "sync", raising)
        house.duties.start()
        await asyncio.sleep(5.5)
        await house.duties.stop()

    run(main, 0)
    assert calls == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert ["Too many open files" in line for line in caplog.messages] == [True]


def test_a_duty_that_takes_long_is_not_begun_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[float] = []

    async def scene(house: House) -> None:
        loop = asyncio.get_running_loop()
        zero = loop.time()

        async def slow() -> None:
            began.append(loop.time() - zero)
            await asyncio.sleep(2.5)

        monkeypatch.setattr(house.duties, "sync", slow)
        house.duties.start()
        await asyncio.sleep(7.2)
        await house.duties.stop()

    inside(scene)
    assert began == [1.0, 4.0, 7.0]


def test_nothing_is_done_after_the_stop_and_what_had_begun_is_finished() -> None:
    async def scene(house: House) -> None:
        house.duties.start()
        house.send(b"x")
        await asyncio.sleep(60)  # The first checkpoint has just begun.
        await house.duties.stop()
        assert house.files.exists(POINTS)
        before = house.files.trace.digest()
        await asyncio.sleep(3_600)
        assert house.files.trace.digest() == before

    inside(scene)


def test_left_to_itself_it_syncs_checkpoints_and_removes() -> None:
    async def scene(house: House) -> None:
        house.duties.start()
        house.send(b"old")
        await asyncio.sleep(20 * 60)
        assert house.log_files() == ["00000000000000000001.log"]
        assert house.files.read(POINTS) == b"0\n1\nevents 0 1\n"
        assert house.files.read("data/log-start-offset-checkpoint") == b"0\n1\nevents 0 1\n"
        await house.replicas.delete(house.topic)
        await asyncio.sleep(20 * 60)
        assert [name for name in house.files.list("data") if "events" in name] == []
        assert house.failures == []
        await house.duties.stop()

    inside(scene, retention_ms=MINUTE_MS)


def test_deleting_a_topic_while_its_sync_runs_harms_nobody() -> None:
    async def scene(house: House) -> None:
        house.send(b"x")
        house.partition.sync()
        house.partition.stop(ErrorCode.unknown_topic_or_partition, "The topic was deleted.")
        await house.replicas.delete(house.topic)
        await asyncio.sleep(10)
        assert house.failures == []

    inside(scene)


def test_syncing_looks_only_at_logs_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    class Watched(PartitionLog):
        @property
        def unsynced_since_ms(self) -> int | None:
            looked.append(self.partition.directory)
            return super().unsynced_since_ms

    async def scene(house: House) -> None:
        state = PartitionState(1, 0, (1,), (1,))
        many = Topic("many", uuid.UUID(int=2), (state,) * 500, {}, TopicConfig())
        await house.replicas.create(many)
        await house.duties.sync()
        looked.clear()
        await house.duties.sync()
        assert looked == []
        house.send(b"x")
        await house.duties.sync()
        assert looked == ["events-0"]
        await asyncio.sleep(29)
        await house.duties.sync()
        assert house.partition.log.recovery_point == 0
        house.send(b"x", topic="many")
        house.send(b"y", topic="many")
        await house.duties.sync()
        looked.clear()
        await asyncio.sleep(1)
        await house.duties.sync()
        await asyncio.sleep(6)
        assert looked[:1] == ["events-0"], "the default never syncs by age"
        await house.duties.sync()
        looked.clear()
        await house.duties.sync()
        assert (looked, house.partition.log.recovery_point) == ([], 1)

    monkeypatch.setattr(recovery, "PartitionLog", Watched)
    inside(scene, flush_ms=30_000)


def test_flush_ms_that_is_set_later_finds_what_was_written_before() -> None:
    async def scene(house: House) -> None:
        house.send(b"x")
        await house.duties.sync()
        await asyncio.sleep(60)
        old = house.topic
        config = TopicConfig(flush_ms=1_000)
        house.replicas.configure(Topic(old.name, old.id, old.partitions, {}, config))
        await house.duties.sync()
        await asyncio.sleep(6)
        assert house.partition.log.recovery_point == 1

    inside(scene)


def test_retention_of_many_partitions_lets_others_in_between() -> None:
    async def scene(house: House) -> None:
        state = PartitionState(1, 0, (1,), (1,))
        config = TopicConfig(retention_ms=MINUTE_MS)
        many = Topic("many", uuid.UUID(int=2), (state,) * 1_000, {}, config)
        await house.replicas.create(many)
        parts = list(house.replicas.by_name["many"].partitions.values())
        house.send(b"x", topic="many")
        await asyncio.sleep(120)
        turns = 0

        async def somebody_else() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(somebody_else())
        await house.duties.retention()
        other.cancel()
        assert turns >= 10
        assert len(parts[0].log.segments) == 2

    inside(scene)


def test_the_age_of_old_segments_is_read_off_the_loop() -> None:
    """After a start nothing of old segments is in memory; retention gets it from their files."""
    old = TopicConfig(retention_ms=MINUTE_MS, file_delete_delay_ms=0, segment_bytes=100)
    read: list[tuple[str, bool]] = []
    on_loop = True

    class Watched(SimWork):
        def run(self, job: Callable[[], Any], lane: Lane = Lane.READ) -> "asyncio.Future[Any]":
            def off_loop() -> Any:
                nonlocal on_loop
                on_loop = False
                try:
                    return job()
                finally:
                    on_loop = True

            return super().run(off_loop, lane)

    async def scene(house: House) -> None:
        for value in (b"1", b"2", b"3"):
            house.send(value)
        await house.replicas.settle()
        await house.replicas.close()
        loop = asyncio.get_running_loop()
        work = Watched(loop, 2)
        store = LogStore(house.files, "data", house.clock, SimEntropy(1))
        replicas = Replicas(store, work, house.failures.append)
        topic = Topic("events", house.topic.id, house.topic.partitions, {}, old)
        await replicas.open_all([topic])
        partition = replicas.find("events", 0)
        assert partition is not None
        assert [each.bounds_known for each in partition.log.segments] == [False, False, True]
        await asyncio.sleep(120)
        real = Segment.load_time_bounds

        def load(segment: Segment) -> None:
            read.append((segment.path(".log"), on_loop))
            real(segment)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Segment, "load_time_bounds", load)
            await Housekeeping(replicas, house.clock, work, BrokerConfig).retention()
        assert len(read) == 2
        assert not any(there for _, there in read)
        assert partition.log.start_offset == 1, "the next has to wait for a sync of the last"

    inside(scene, segment_bytes=100)
