"""The cleaner in a broker: which logs it takes, and what happens to them meanwhile."""

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from tests.broker import group_scenes
from tests.broker.conftest import Life, Machine

from barnabas.broker.cleaning import RETRY_S, Cleaning
from barnabas.cluster.image import PartitionState, Topic
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.topic_config import TopicConfig
from barnabas.log.checkpoints import read_offsets
from barnabas.log.cleaner.cleaning import clean_log
from barnabas.log.cleaner.plan import CleanPlan, CleanReport
from barnabas.log.cleaner.swap import Swap
from barnabas.log.store import LogStore
from barnabas.model.topics import CONSUMER_OFFSETS, TopicPartition
from barnabas.replica.partition import Partition
from barnabas.replica.service import Replicas
from barnabas.sim.clock import SimClock
from barnabas.sim.entropy import SimEntropy
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles
from barnabas.sim.loop import SimLoop, run
from barnabas.sim.work import SimWork
from barnabas.wire.records.batch import walk
from barnabas.wire.records.record import decode_batch, encode_batch

OFFSETS = "data/cleaner-offset-checkpoint"
MARKS = (".cleaned", ".swap", ".deleted")


class House:
    """Some compacted topics of one partition each, and their cleaner."""

    def __init__(self, loop: SimLoop, **settings: str) -> None:
        self.files = SimFiles(1, chances=Chances(cold=0))
        self.clock = SimClock(loop)
        self.work = SimWork(loop, 1)
        self.store = LogStore(self.files, "data", self.clock, SimEntropy(1))
        self.replicas = Replicas(self.store, self.work, lambda reason: None)
        named = {key.replace("_", "."): value for key, value in settings.items()}
        self.config = BrokerConfig(named)
        self.cleaning = Cleaning(
            self.replicas, self.clock, SimEntropy(2), self.work, lambda: self.config
        )

    async def create(self, name: str, **settings: Any) -> Partition:
        chosen: dict[str, Any] = {
            "cleanup_policy": frozenset({"compact"}),
            "segment_bytes": 500,
            "file_delete_delay_ms": 0,
        } | settings
        number = len(self.replicas.by_name) + 1
        state = PartitionState(1, 0, (1,), (1,))
        topic = Topic(name, uuid.UUID(int=number), (state,), {}, TopicConfig(**chosen))
        await self.replicas.create(topic)
        return self.partition(name)

    def partition(self, name: str) -> Partition:
        found = self.replicas.find(name, 0)
        assert found is not None
        return found

    def configure(self, name: str, **settings: Any) -> None:
        hosted = self.replicas.by_name[name]
        old = hosted.topic
        self.replicas.configure(
            Topic(old.name, old.id, old.partitions, {}, TopicConfig(**settings))
        )

    def fill(self, name: str, count: int = 40, keys: int = 4) -> None:
        partition = self.partition(name)
        for number in range(count):
            now_ms = self.clock.wall_ms()
            pair = (b"%d" % (number % keys), b"%d" % number)
            view = memoryview(bytearray(encode_batch([(now_ms, *pair, [])])))
            partition.append(view, partition.log.check(view, now_ms), now_ms)

    async def settle(self, name: str) -> None:
        """Everything synced, as it is after a while."""
        partition = self.partition(name)
        while partition.log.proven_offset < partition.log.end_offset:
            partition.sync()
            await asyncio.sleep(1)

    async def dirty(self, name: str, **settings: Any) -> Partition:
        partition = await self.create(name, **settings)
        self.fill(name)
        await self.settle(name)
        return partition

    def offsets(self, name: str) -> list[int]:
        found = []
        for segment in self.partition(name).log.segments:
            data = segment.file.pread(segment.size, 0)
            for position, _ in walk(data):
                found += [record.offset for record in decode_batch(data, position)]
        return found

    def marked(self) -> list[str]:
        folders = [name for name in self.files.list("data") if "-" in name and "point" not in name]
        return [
            name
            for folder in folders
            if folder.rpartition("-")[2].isdigit()
            for name in self.files.list(f"data/{folder}")
            if name.endswith(MARKS)
        ]

    def is_clean(self, name: str) -> bool:
        """All of it that was there and closed when it was cleaned is without outdated records."""
        cleaned_to = self.store.cleaned_to.get(self.partition(name).log.partition, 0)
        return len([offset for offset in self.offsets(name) if offset < cleaned_to]) == 4

    def remove_due(self) -> None:
        for remove in self.store.take_due_removals():
            remove()


def inside(scene: Callable[[House], Any], **settings: str) -> None:
    async def main(loop: SimLoop) -> None:
        await scene(House(loop, **settings))

    run(main, 0)


def test_dirty_logs_are_cleaned_one_after_the_other_and_remembered() -> None:
    async def scene(house: House) -> None:
        first = await house.dirty("first")
        second = await house.dirty("second")
        assert await house.cleaning.clean_next()
        assert await house.cleaning.clean_next()
        assert not await house.cleaning.clean_next()
        for partition in (first, second):
            name = partition.log.partition.topic
            assert house.is_clean(name)
            base = partition.log.segments[-1].base_offset
            assert house.store.cleaned_to[partition.log.partition] == base
            assert read_offsets(house.files, OFFSETS)[partition.log.partition] == base
        report = house.cleaning.last_report
        assert report is not None
        assert report.records_kept < report.records_read
        house.remove_due()
        assert house.marked() == []
        house.store.close()
        again = LogStore(house.files, "data", house.clock, SimEntropy(3))
        assert again.cleaned_to == house.store.cleaned_to

    inside(scene)


def test_what_was_said_of_a_deleted_topic_is_forgotten() -> None:
    async def scene(house: House) -> None:
        await house.dirty("events")
        assert await house.cleaning.clean_next()
        await house.replicas.delete(house.replicas.by_name["events"].topic)
        assert house.store.cleaned_to == {}
        await house.dirty("events")
        assert read_offsets(house.files, OFFSETS) == {}
        assert await house.cleaning.clean_next()
        assert house.is_clean("events")

    inside(scene)


def test_the_loop_cleans_by_itself_and_stops() -> None:
    async def scene(house: House) -> None:
        await house.dirty("events")
        house.cleaning.start()
        await asyncio.sleep(120)
        assert house.is_clean("events")
        house.fill("events")
        await house.settle("events")
        await asyncio.sleep(60)
        assert house.is_clean("events")
        await house.cleaning.stop()

    inside(scene)


@pytest.mark.parametrize(
    ("topic", "broker"),
    [
        ({"cleanup_policy": frozenset({"delete"})}, {}),
        ({"min_cleanable_dirty_ratio": 1.0}, {}),
        ({"min_compaction_lag_ms": 3_600_000}, {}),
        ({}, {"log_cleaner_enable": "false"}),
    ],
)
def test_not_every_log_is_cleaned(topic: dict[str, Any], broker: dict[str, str]) -> None:
    async def scene(house: House) -> None:
        await house.dirty("events", **topic)
        assert not await house.cleaning.clean_next()
        assert house.offsets("events") == list(range(40))

    inside(scene, **broker)


def test_max_compaction_lag_counts_from_what_lies_on_disk() -> None:
    """After a restart nobody knows when a segment's first batch was written: it is looked up."""

    async def scene(house: House) -> None:
        late = {"min_cleanable_dirty_ratio": 1.0, "max_compaction_lag_ms": 60_000}
        partition = await house.dirty("events", **late)
        for segment in partition.log.segments:
            segment.first_timestamp = -1
        assert not await house.cleaning.clean_next()
        await asyncio.sleep(120)
        assert await house.cleaning.clean_next()
        assert house.is_clean("events")

    inside(scene)


def test_a_policy_that_changes_is_followed() -> None:
    async def scene(house: House) -> None:
        await house.dirty("events", cleanup_policy=frozenset({"delete"}))
        assert not await house.cleaning.clean_next()
        house.configure("events", cleanup_policy=frozenset({"compact"}), segment_bytes=500)
        assert await house.cleaning.clean_next()
        assert house.is_clean("events")

    inside(scene)


# --- meanwhile --------------------------------------------------------------------------------


async def meanwhile(house: House, what: Callable[[], object], *, prepared: bool) -> bool:
    """Let something happen while a log is being cleaned, or while a segment is being put in."""
    done = False
    with pytest.MonkeyPatch.context() as patch:
        real = Swap.prepare

        def prepare(swap: Swap) -> None:
            nonlocal done
            if not prepared and not done:
                done = True
                what()
                return
            real(swap)
            if not done:
                done = True
                what()

        patch.setattr(Swap, "prepare", prepare)
        cleaned = await house.cleaning.clean_next()
    assert done
    return cleaned


@pytest.mark.parametrize("prepared", [False, True])
def test_a_topic_may_be_deleted_meanwhile(prepared: bool) -> None:
    async def scene(house: House) -> None:
        await house.dirty("events")
        topic = house.replicas.by_name["events"].topic
        deleted: list[asyncio.Task[None]] = []

        def delete() -> None:
            deleted.append(house.replicas.delete(topic))

        assert not await meanwhile(house, delete, prepared=prepared)
        await deleted[0]
        assert house.cleaning._set_aside == {}
        house.remove_due()
        assert [name for name in house.files.list("data") if name.startswith("events")] == []
        assert house.store.cleaned_to == {}
        assert not await house.cleaning.clean_next()

    inside(scene)


@pytest.mark.parametrize("prepared", [False, True])
def test_retention_may_take_segments_meanwhile(prepared: bool) -> None:
    async def scene(house: House) -> None:
        partition = await house.dirty("events")
        log = partition.log

        def retain() -> None:
            log.advance_start(log.segments[1].base_offset)
            house.store.drop_segments(log, log.segments[:1])

        assert not await meanwhile(house, retain, prepared=prepared)
        assert log.partition not in house.store.cleaned_to
        house.remove_due()
        assert house.marked() == []
        assert await house.cleaning.clean_next()
        assert house.is_clean("events")

    inside(scene)


@pytest.mark.parametrize("prepared", [False, True])
def test_the_policy_may_change_meanwhile(prepared: bool) -> None:
    async def scene(house: House) -> None:
        await house.dirty("events")

        def change() -> None:
            house.configure("events", cleanup_policy=frozenset({"delete"}), segment_bytes=500)

        assert not await meanwhile(house, change, prepared=prepared)
        assert house.offsets("events") == list(range(40))
        assert house.marked() == []

    inside(scene)


def test_records_may_be_deleted_meanwhile() -> None:
    async def scene(house: House) -> None:
        partition = await house.dirty("events")
        await meanwhile(house, lambda: partition.log.advance_start(20), prepared=True)
        assert partition.log.start_offset == 20
        assert house.is_clean("events")

    inside(scene)


def test_writers_and_readers_go_on_meanwhile() -> None:
    async def scene(house: House) -> None:
        partition = await house.dirty("events")
        job = asyncio.ensure_future(house.cleaning.clean_next())
        offset = 0
        while not job.done():
            house.fill("events", 1)
            found = partition.read(offset, 1_000, partition.high_watermark, at_least_one=True)
            if isinstance(found, asyncio.Future):
                found = await found
            assert found is not None
            assert found.next_offset > offset
            offset = found.next_offset
            await asyncio.sleep(0.001)
        assert job.result()
        assert house.is_clean("events")

    inside(scene)


def test_a_stop_waits_for_no_cleaning() -> None:
    async def scene(house: House) -> None:
        await house.dirty("events")
        house.cleaning.start()
        await asyncio.sleep(0.001)
        await house.cleaning.stop()
        assert house.marked() == []
        assert house.offsets("events") == list(range(40))

    inside(scene)


# --- trouble ----------------------------------------------------------------------------------


def test_a_damaged_log_is_told_once_and_the_others_are_cleaned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(house: House) -> None:
        bad = await house.dirty("bad")
        await house.dirty("good")
        house.files.flip_bit(bad.log.segments[1].path(".log"))
        before = [segment.size for segment in bad.log.segments]
        with caplog.at_level(logging.ERROR):
            for _ in range(5):
                await house.cleaning.clean_next()
                await asyncio.sleep(RETRY_S)
        told = [each.getMessage() for each in caplog.records if "bad-0" in each.getMessage()]
        assert len(told) == 1
        assert "stays as it is until a restart" in told[0]
        assert [segment.size for segment in bad.log.segments] == before
        assert bad.log.failure is None
        assert house.is_clean("good")
        house.remove_due()
        assert house.marked() == []

    inside(scene)


def test_a_full_disk_is_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(house: House) -> None:
        await house.dirty("events")
        house.files.faults.chances = Chances(cold=0, write=1.0)
        with caplog.at_level(logging.ERROR):
            assert not await house.cleaning.clean_next()
        assert "for 600 s" in caplog.text
        assert house.marked() == []
        house.files.faults.chances = Chances(cold=0)
        assert not await house.cleaning.clean_next()
        await asyncio.sleep(RETRY_S)
        assert await house.cleaning.clean_next()
        assert house.is_clean("events")

    inside(scene)


@pytest.mark.parametrize("failing", ["prepare", "put_in"])
def test_a_disk_that_is_full_in_mid_swap_leaves_the_old_segments(failing: str) -> None:
    async def scene(house: House) -> None:
        await house.dirty("events")

        def fail(swap: Swap, *_: object) -> None:
            raise OSError(28, "no space")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Swap, failing, fail)
            assert not await house.cleaning.clean_next()
        assert house.offsets("events") == list(range(40))
        assert house.marked() == []
        assert house.partition("events").log.failure is None
        await asyncio.sleep(RETRY_S)
        assert await house.cleaning.clean_next()
        assert house.is_clean("events")

    inside(scene)


def test_a_segment_that_could_not_get_its_name_gets_it_later() -> None:
    async def scene(house: House) -> None:
        partition = await house.dirty("events")

        def fail(swap: Swap) -> None:
            raise OSError(5, "the disk is tired")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Swap, "name", fail)
            assert await house.cleaning.clean_next()
        assert {segment.mark for segment in partition.log.segments[:-1]} == {".swap"}
        assert house.is_clean("events")
        await house.cleaning.clean_next()
        assert {segment.mark for segment in partition.log.segments} == {""}

    inside(scene)


# --- whole brokers ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["stop", "kill", "power"])
def test_committed_offsets_are_compacted_and_outlive_it(machine: Machine, ending: str) -> None:
    told: list[Any] = []

    async def fill(life: Life) -> None:
        await life.client.create(group_scenes.TOPIC, 3)
        await group_scenes.coordinate(life)
        await group_scenes.sync_each_commit(life)
        for number in range(60):
            offsets = dict.fromkeys(range(3), number)
            await group_scenes.commit(life, "readers", offsets, "x" * 300)
        partition = life.broker._replicas.find(CONSUMER_OFFSETS, 0)
        assert partition is not None
        log = partition.log
        log.roll(life.clock.wall_ms())
        before = log.size
        while life.broker._store.cleaned_to.get(TopicPartition(CONSUMER_OFFSETS, 0), 0) == 0:
            await asyncio.sleep(1)
        assert log.size < before / 5
        told.append(await group_scenes.committed(life, "readers"))
        assert told[0][2] == (59, f"59 {'x' * 300}")

    async def look(life: Life) -> None:
        await group_scenes.coordinate(life)
        assert await group_scenes.committed(life, "readers") == told[0]

    machine.live(fill, ending=ending, **group_scenes.ONE_SHARD)
    machine.live(look, **group_scenes.ONE_SHARD)


def test_a_log_whose_files_can_not_be_read_holds_up_no_other() -> None:
    async def scene(house: House) -> None:
        bad = await house.dirty("bad", max_compaction_lag_ms=3_600_000)
        await house.dirty("good")
        for segment in bad.log.segments[:-1]:
            segment.first_timestamp = -1
            segment.close()
        assert await house.cleaning.clean_next()
        assert house.is_clean("good")
        assert not await house.cleaning.clean_next()

    inside(scene)


def test_a_cleaning_that_fails_in_an_unforeseen_way_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def clean_all_but_one(files: Any, clock: Any, plan: CleanPlan, caller: Any) -> CleanReport:
        if plan.directory == "data/first-0":
            raise MemoryError
        return clean_log(files, clock, plan, caller)

    monkeypatch.setattr("barnabas.broker.cleaning.clean_log", clean_all_but_one)

    async def scene(house: House) -> None:
        await house.dirty("first")
        await house.dirty("second")
        assert not await house.cleaning.clean_next()
        assert await house.cleaning.clean_next()
        assert house.is_clean("second")

    inside(scene)
