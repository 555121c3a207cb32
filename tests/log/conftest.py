"""Logs on files in memory, and batches to put into them."""

from collections.abc import Callable

import pytest

from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import PartitionLog
from barnabas.log.recovery import LogPlace, load_log
from barnabas.model.stops import Stop
from barnabas.model.topics import TopicPartition
from barnabas.ports.files import Files
from barnabas.wire.records.record import encode_batch
from barnabas.world.memory import MemoryFiles

NOW_MS = 1_700_000_000_000
PLACE = TopicPartition("events", 0)
LOG_FILE = "data/events-0/00000000000000000000.log"

OpenLog = Callable[..., PartitionLog]


def batch(
    *values: bytes,
    timestamp: int = NOW_MS,
    producer: tuple[int, int, int] | None = None,
    transactional: bool = False,
) -> memoryview:
    """A client's batch; `producer` is id, epoch and first sequence."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    data = encode_batch(
        [(timestamp, b"key", value, []) for value in values],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return memoryview(bytearray(data))


def append(log: PartitionLog, records: memoryview, *, now_ms: int = NOW_MS, epoch: int = 0) -> int:
    """Append a client's batch; the offset it got."""
    return log.append(records, log.check(records, now_ms), epoch, now_ms).first_offset


def read_values(log: PartitionLog, offset: int | None = None) -> list[tuple[int, bytes | None]]:
    """Offset and value of every record from `offset` on, read as a consumer would."""
    from barnabas.wire.records.batch import walk
    from barnabas.wire.records.record import decode_batch

    offset = log.start_offset if offset is None else offset
    found: list[tuple[int, bytes | None]] = []
    while offset < log.end_offset:
        plan = log.plan_read(offset, 1 << 16, log.end_offset, at_least_one=True)
        assert plan is not None
        result = plan.read()
        log.remember(plan, result)
        for position, _ in walk(result.data):
            found += [
                (record.offset, record.value)
                for record in decode_batch(result.data, position)
                if record.offset >= offset
            ]
        if result.next_offset == offset:
            following = log.next_readable(offset)
            assert following is not None, f"a reader is stuck at {offset}"
            offset = following
        else:
            offset = result.next_offset
    return found


def sync(log: PartitionLog) -> int:
    """Make everything written so far durable; up to which offset that is."""
    job = log.sync_job()
    if job is not None:
        job.run()
        log.synced(job)
    return log.recovery_point


def flip(files: Files, path: str, position: int, bit: int = 0) -> None:
    """Rot: one bit of a file changes."""
    file = files.open(path)
    (byte,) = file.pread(1, position)
    file.pwrite(bytes([byte ^ 1 << bit]), position)
    file.close()


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_dirs("data/events-0")
    return files


def open_log(
    files: Files,
    *,
    clean: bool = False,
    stop: Stop = Stop.LOSSY,
    recovery_point: int = 0,
    start_offset: int = 0,
    now_ms: int = NOW_MS,
    config: TopicConfig | None = None,
) -> PartitionLog:
    """Open the log that `files` hold, as a starting broker would."""
    place = LogPlace(
        files,
        "data/events-0",
        PLACE,
        config or TopicConfig(),
        recovery_point=recovery_point,
        start_offset=start_offset,
        stop=Stop.CLEAN if clean else stop,
    )
    return load_log(place, now_ms)
