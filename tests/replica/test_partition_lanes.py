"""A slow disk read delays no acknowledgement and no read from memory, and a slow sync no read."""

import asyncio
import threading
from pathlib import Path

import pytest
from tests.replica.conftest import NOW_MS

from barnabas.config.topic_config import TopicConfig
from barnabas.log.reading import ReadPlan, ReadResult
from barnabas.log.recovery import LogPlace, load_log
from barnabas.model.topics import TopicPartition
from barnabas.replica.partition import Partition
from barnabas.wire.records.record import encode_batch
from barnabas.world.files import DiskFiles
from barnabas.world.work import ThreadWork


def opened(folder: Path, work: ThreadWork, number: int) -> Partition:
    directory = str(folder / f"events-{number}")
    files = DiskFiles()
    files.make_dirs(directory)
    config = TopicConfig(flush_messages=1)
    place = LogPlace(files, directory, TopicPartition("events", number), config)
    return Partition(load_log(place, NOW_MS), 0, work, pytest.fail)


def send(partition: Partition) -> "asyncio.Future[None]":
    view = memoryview(bytearray(encode_batch([(NOW_MS, b"k", b"v", [])])))
    acknowledged = partition.append(view, partition.log.check(view, NOW_MS), NOW_MS)[1]
    assert acknowledged is not None
    return acknowledged


def test_stuck_reads_delay_no_acknowledgement_and_no_hot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_answers = threading.Event()
    real = ReadPlan.read

    def slow(plan: ReadPlan) -> ReadResult:
        assert disk_answers.wait(60)
        return real(plan)

    async def scene() -> None:
        work = ThreadWork()
        cold, hot = opened(tmp_path, work, 0), opened(tmp_path, work, 1)
        await asyncio.gather(send(cold), send(hot))
        with monkeypatch.context() as patch:
            patch.setattr(ReadPlan, "read", slow)
            patch.setattr(ReadPlan, "read_cached", lambda _plan: None)
            stuck = [cold.read(0, 1000, 1, at_least_one=True) for _ in range(20)]
        for _ in range(5):
            await send(hot)
        found = hot.read(5, 1000, 6, at_least_one=True)
        assert isinstance(found, ReadResult)
        assert found.next_offset == 6
        for each in stuck:
            assert isinstance(each, asyncio.Future)
            assert not each.done()
        disk_answers.set()
        for each in stuck:
            assert isinstance(each, asyncio.Future)
            assert (await each).next_offset == 1
        await asyncio.gather(cold.settle(), hot.settle())
        work.close()

    asyncio.run(scene())


def test_stuck_syncs_delay_no_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_answers = threading.Event()

    async def scene() -> None:
        work = ThreadWork()
        partitions = [opened(tmp_path, work, number) for number in range(20)]
        await asyncio.gather(*map(send, partitions))
        with monkeypatch.context() as patch:
            patch.setattr("os.fdatasync", lambda _descriptor: disk_answers.wait(60))
            waiting = [send(each) for each in partitions]
            patch.setattr(ReadPlan, "read_cached", lambda _plan: None)
            for each in partitions:
                found = each.read(0, 1000, 1, at_least_one=True)
                assert isinstance(found, asyncio.Future)
                assert (await found).next_offset == 1
            assert not any(each.done() for each in waiting)
            disk_answers.set()
            await asyncio.gather(*waiting)
        await asyncio.gather(*(each.settle() for each in partitions))
        work.close()

    asyncio.run(scene())
