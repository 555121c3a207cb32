"""Cleaning a log as a broker does, step by step, on whatever files it lies on."""

from collections.abc import Sequence

from tests.log.conftest import NOW_MS, sync
from tests.log.txn_log import stable

from barnabas.config.topic_config import TopicConfig
from barnabas.log.cleaner.choosing import cleanable, plan_cleaning
from barnabas.log.cleaner.cleaning import clean_log
from barnabas.log.cleaner.plan import CleanedSegment, CleanerLimits, CleanReport
from barnabas.log.cleaner.swap import Swap
from barnabas.log.log import PartitionLog
from barnabas.log.verification import VERIFICATION_OFF
from barnabas.ports.files import Files
from barnabas.wire.records.batch import BatchHeader, parse_header, walk
from barnabas.wire.records.codec import SLOT_BYTES
from barnabas.wire.records.record import Record, decode_batch, encode_batch

SECRET = bytes(range(16))
_HEADERS: list[tuple[str, bytes | None]] = [("h", b"x")]
Pair = tuple[bytes | None, bytes | None]


class StillClock:
    """A clock that does not go on by itself."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic(self) -> float:
        return self.now_ms / 1000


class Collected:
    """Keeps what a cleaning tells."""

    def __init__(self) -> None:
        self.parts: list[CleanedSegment] = []
        self.checks = 0

    def tell(self, part: object) -> None:
        assert isinstance(part, CleanedSegment)
        self.parts.append(part)

    def check(self) -> None:
        self.checks += 1


def compacting(**settings: object) -> TopicConfig:
    """The settings of a small compacted topic."""
    chosen = {
        "cleanup_policy": frozenset({"compact"}),
        "segment_bytes": 1_000,
        "index_interval_bytes": 100,
        "delete_retention_ms": 1_000,
        "file_delete_delay_ms": 0,
    } | settings
    return TopicConfig(**chosen)  # type: ignore[arg-type]


def limits(keys: int = 10_000, buffer_bytes: int = 0) -> CleanerLimits:
    """Room for so many keys, about."""
    return CleanerLimits(
        dedupe_bytes=keys * SLOT_BYTES,
        load_factor=0.9,
        buffer_bytes=buffer_bytes,
        bytes_per_second=1e300,
    )


def put(
    log: PartitionLog,
    *pairs: Pair,
    now_ms: int = NOW_MS,
    codec: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> int:
    """One batch of keys and values; its first offset."""
    data = encode_batch(
        [(now_ms + at, key, value, _HEADERS) for at, (key, value) in enumerate(pairs)],
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        transactional=transactional,
    )
    view = memoryview(bytearray(data))
    return log.append(view, parse_header(view), 0, now_ms, VERIFICATION_OFF).first_offset


def run_cleaning(
    files: Files,
    log: PartitionLog,
    *,
    cleaned_to: int | None = None,
    now_ms: int = NOW_MS,
    keys: int = 10_000,
    buffer_bytes: int = 0,
) -> tuple[CleanReport, list[CleanedSegment]]:
    """Everything up to the `.cleaned` files."""
    target = cleanable(log, cleaned_to, stable(log), now_ms)
    plan = plan_cleaning(target, limits(keys, buffer_bytes), SECRET, now_ms)
    told = Collected()
    return clean_log(files, StillClock(now_ms), plan, told), told.parts


def swap_in(
    files: Files, log: PartitionLog, parts: Sequence[CleanedSegment], now_ms: int = NOW_MS
) -> None:
    """Everything after the `.cleaned` files."""
    for part in parts:
        swap = Swap(files, log, part)
        assert swap.is_possible()
        swap.prepare()
        swap.put_in(now_ms)
        swap.sync()
        swap.name()
        swap.sync()
        swap.removal()()


def clean(
    files: Files,
    log: PartitionLog,
    *,
    cleaned_to: int | None = None,
    now_ms: int = NOW_MS,
    keys: int = 10_000,
) -> CleanReport:
    """Roll, sync, clean and swap."""
    log.roll(now_ms)
    while log.recovery_point < log.end_offset or log.has_unsynced_roll:
        sync(log)
    report, parts = run_cleaning(files, log, cleaned_to=cleaned_to, now_ms=now_ms, keys=keys)
    swap_in(files, log, parts, now_ms)
    return report


def stored_batches(log: PartitionLog) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch with its records, segment by segment."""
    found = []
    for segment in log.segments:
        data = segment.file.pread(segment.size, 0)
        found += [(header, decode_batch(data, position)) for position, header in walk(data)]
    return found


def stored(log: PartitionLog) -> list[Record]:
    """Every record with data."""
    return [
        record
        for header, records in stored_batches(log)
        if not header.is_control
        for record in records
    ]


def contents(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    """The last value of each key."""
    return {record.key: record.value for record in stored(log)}
