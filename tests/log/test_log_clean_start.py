"""After a clean stop a log is opened without being read."""

import pytest
from tests.log.conftest import LOG_FILE, append, batch, open_log, read_values

from barnabas.config.topic_config import TopicConfig
from barnabas.ports.files import Buffer, File
from barnabas.world.memory import MemoryFiles

CONFIG = TopicConfig(segment_bytes=20_000, index_interval_bytes=1_000)


class CountingFile:
    """Counts what is read through it."""

    def __init__(self, file: File, files: "CountingFiles") -> None:
        self._file = file
        self._files = files

    def pread(self, length: int, position: int) -> bytes:
        data = self._file.pread(length, position)
        self._files.bytes_read += len(data)
        return data

    def pread_cached(self, length: int, position: int) -> bytes | None:
        return self.pread(length, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        self._file.pwrite(data, position)

    def size(self) -> int:
        return self._file.size()

    def truncate(self, length: int) -> None:
        self._file.truncate(length)

    def sync(self) -> None:
        self._file.sync()

    def moved(self, path: str) -> None:
        self._file.moved(path)

    def close(self) -> None:
        self._file.close()


class CountingFiles(MemoryFiles):
    """Files in memory that count the bytes read from them."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0

    def open(self, path: str, *, create: bool = False) -> CountingFile:  # type: ignore[override]
        return CountingFile(super().open(path, create=create), self)

    def open_read_only(self, path: str) -> CountingFile:  # type: ignore[override]
        return CountingFile(super().open_read_only(path), self)

    def read(self, path: str) -> bytes:
        data = super().read(path)
        self.bytes_read += len(data)
        return data


def cost_of_opening(batches: int, *, clean: bool) -> tuple[int, int]:
    """Bytes read to open a log, and the size of the log."""
    files = CountingFiles()
    files.make_dirs("data/events-0")
    log = open_log(files, config=CONFIG)
    for number in range(batches):
        append(log, batch(b"%05d" % number, producer=(3, 0, number)))
    size = log.size
    log.close(clean=True)
    files.bytes_read = 0
    again = open_log(files, clean=clean, recovery_point=0, config=CONFIG)
    assert again.end_offset == batches
    return files.bytes_read, size


def test_what_is_read_does_not_grow_with_the_log() -> None:
    small, small_size = cost_of_opening(450, clean=True)
    large, large_size = cost_of_opening(4_500, clean=True)
    segments = large_size // CONFIG.segment_bytes
    assert segments > 15
    assert large_size == pytest.approx(10 * small_size, rel=0.01)
    # An entry of each segment's time index, and no more than two probes of the newest segment.
    assert large <= small + 12 * segments + 2 * 8_192 < large_size / 10


def test_without_the_clean_mark_everything_above_the_recovery_point_is_read() -> None:
    read, size = cost_of_opening(450, clean=False)
    assert read >= size


def test_everything_is_as_it_was(files: MemoryFiles) -> None:
    log = open_log(files, config=CONFIG)
    for number in range(700):
        append(log, batch(b"%d" % number, producer=(3, 0, number)), epoch=number // 100)
    log.advance_start(5)
    log.close(clean=True)
    again = open_log(files, clean=True, start_offset=5, config=CONFIG)
    assert read_values(again) == read_values(open_log(files, start_offset=5, config=CONFIG))
    assert (again.start_offset, again.end_offset, again.recovery_point) == (5, 700, 700)
    assert again.epochs.entries == log.epochs.entries
    assert again.producers.get(3) == log.producers.get(3)
    assert [s.max_timestamp for s in again.segments] == [s.max_timestamp for s in log.segments]
    assert append(again, batch(b"x", producer=(3, 0, 700))) == 700


def test_indexing_goes_on_where_it_ended(files: MemoryFiles) -> None:
    straight = MemoryFiles()
    straight.make_dirs("data/events-0")
    one = open_log(straight, config=CONFIG)
    two = open_log(files, config=CONFIG)
    for number in range(250):
        append(one, batch(b"%03d" % number))
        append(two, batch(b"%03d" % number))
        if number % 7 == 0:
            two.close(clean=True)
            two = open_log(files, clean=True, config=CONFIG)
    one.close(clean=True)
    two.close(clean=True)
    for name in straight.list("data/events-0"):
        if not name.endswith((".timeindex", ".snapshot")):
            path = f"data/events-0/{name}"
            assert straight.read(path) == files.read(path), name
    assert files.read(LOG_FILE) == straight.read(LOG_FILE)
