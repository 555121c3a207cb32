"""A segment's file: opened once, however many ask; and never again after it was closed."""

import contextlib
import os
import threading
from errno import EBADF
from pathlib import Path

import pytest
from tests.log.conftest import append, batch, open_log

from barnabas.config.topic_config import TopicConfig
from barnabas.log.segment import Segment
from barnabas.log.truncation import restart_at
from barnabas.world.files import DiskFiles
from barnabas.world.memory import MemoryFile, MemoryFiles

_THREADS = 4


class SlowlyOpening(MemoryFiles):
    """Files that take their time to open until everybody has asked, or nobody else will."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0
        self._all_here = threading.Barrier(_THREADS)

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if not create:
            self.opened += 1
            with contextlib.suppress(threading.BrokenBarrierError):
                self._all_here.wait(timeout=0.2)
        return super().open(path, create=create)


def test_threads_that_ask_at_once_share_one_descriptor() -> None:
    files = SlowlyOpening()
    files.make_dirs("data")
    Segment.create(files, "data", 0, 0).close()
    segment = Segment.existing(files, "data", 0, 0)
    got: list[object] = []
    threads = [threading.Thread(target=lambda: got.append(segment.file)) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (files.opened, len(got), len(set(map(id, got)))) == (1, _THREADS, 1)


@pytest.mark.parametrize("was_open", [True, False])
def test_a_closed_segment_is_not_opened_again(files: MemoryFiles, was_open: bool) -> None:
    log = open_log(files, config=TopicConfig(segment_bytes=100))
    for value in (b"a", b"b", b"c"):
        append(log, batch(value))
    log.close(clean=True)
    segment = Segment.existing(files, "data/events-0", 0, 0)
    if was_open:
        assert segment.file.size() > 0
    segment.close()
    with pytest.raises(OSError, match=os.strerror(EBADF)):
        _ = segment.file
    segment.close()


def test_a_reader_who_comes_after_the_removal_is_refused(files: MemoryFiles) -> None:
    log = open_log(files, config=TopicConfig(segment_bytes=100))
    for value in (b"a", b"b", b"c"):
        append(log, batch(value))
    plan = log.plan_read(0, 1000, 3, at_least_one=True)
    search = log.timestamp_search(3)
    assert plan is not None
    restart_at(log, files, 0, 0)  # another file of the same name
    with pytest.raises(OSError, match=os.strerror(EBADF)):
        plan.read()
    with pytest.raises(OSError, match=os.strerror(EBADF)):
        search.first_at_or_after(0)


class Renaming(MemoryFiles):
    """A segment gets another name just when somebody is about to open one of its files."""

    moving: Segment | None = None

    def open_read_only(self, path: str) -> MemoryFile:
        segment, self.moving = self.moving, None
        if segment is not None:
            segment.move("")
        return super().open_read_only(path)


def test_an_index_that_gets_another_name_is_not_taken_for_none() -> None:
    files = Renaming()
    files.make_dirs("data/events-0")
    log = open_log(files, config=TopicConfig(segment_bytes=200))
    append(log, batch(b"0"))
    newest = log.segments[0].max_timestamp
    log.roll(0)
    log.segments[0].move(".swap")
    segment = Segment.existing(files, "data/events-0", 0, 0, mark=".swap")
    files.moving = segment
    assert segment.max_timestamp == newest


class Reading(DiskFiles):
    """Few files stay open, and somebody reads a segment whenever a name has just changed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(open_max=4)
        self.folder = folder
        self.watched: list[Segment] = []
        self.got: list[bytes] = []

    def rename(self, source: str, target: str) -> None:
        for at_once in (False, True):
            if at_once:
                super().rename(source, target)
            others = [self.open(str(self.folder / f"{n}"), create=True) for n in range(20)]
            self.got += [segment.file.pread(4, 8) for segment in self.watched]
            for other in others:
                other.close()


def test_whoever_reads_a_segment_goes_on_while_its_names_change(tmp_path: Path) -> None:
    files = Reading(tmp_path)
    segment = Segment.create(files, str(tmp_path), 0, 0)
    segment.file.pwrite(b"twelve bytes", 0)
    segment.file.sync()
    segment.write_indexes()
    # What an earlier cleaning has left for a while.
    files.open(segment.path(".log") + ".deleted", create=True).close()
    files.watched = [segment]
    segment.move(".deleted")
    segment.move("")
    assert set(files.got) == {b"ytes"}
    assert len(files.got) == 2 * 2 * 3
    segment.close()
