"""What lies in a data directory, for people: partitions, batches, records and the small files.

Only reads, and needs no lock: a broker may go on writing while somebody looks. What it is just
writing counts as not yet there.
"""

from collections.abc import Iterator
from struct import iter_unpack
from typing import Final, NamedTuple

from barnabas.log import names
from barnabas.log.checkpoints import read_rows
from barnabas.log.epochs import LeaderEpochs
from barnabas.log.index import OffsetIndex, TimeIndex
from barnabas.log.recovery import Checked, scan
from barnabas.log.segment import Segment
from barnabas.log.snapshots import decode_snapshot
from barnabas.log.txn_index import decode_aborted
from barnabas.model.errors import BarnabasError, DecodeError
from barnabas.model.topics import TopicPartition, parse_directory
from barnabas.ports.files import File, Files
from barnabas.wire.records.batch import HEADER_BYTES, BatchHeader, parse_header, problem_of
from barnabas.wire.records.control import ControlType, control_type
from barnabas.wire.records.record import Record, decode_batch

NO_PARTITION: Final = -1
"""The number of a partition whose folder does not tell it."""


class StoredSegment(Segment):
    """A segment that is only looked at: its file is opened for reading."""

    __slots__ = ()

    def _open_file(self, path: str) -> File:
        return self._files.open_read_only(path)


class StoredPartition(NamedTuple):
    """A folder with segments, and the partition it belongs to."""

    directory: str
    name: TopicPartition


class StoredBatch(NamedTuple):
    """One batch where it lies; without a header when even that can not be read."""

    partition: TopicPartition
    path: str
    position: int
    header: BatchHeader | None
    problem: str | None


class StoredRecord(NamedTuple):
    """One record and what its batch says about it."""

    partition: TopicPartition
    batch: BatchHeader
    record: Record
    control: ControlType | None


def find_partitions(files: Files, directory: str) -> list[StoredPartition]:
    """The partition that `directory` is, or those that lie in it, by topic and number."""
    root = directory.rstrip("/") or "/"
    if _has_segments(files, root):
        return [StoredPartition(root, _partition_of(root.rpartition("/")[2]))]
    partitions = [
        StoredPartition(f"{root}/{name}", partition)
        for name in files.list(root)
        if (partition := parse_directory(name)) is not None
        and _has_segments(files, f"{root}/{name}")
    ]
    return sorted(partitions, key=lambda each: each.name)


def _has_segments(files: Files, path: str) -> bool:
    try:
        found = files.list(path)
    except NotADirectoryError:
        return False
    return any(names.offset_of(name, names.LOG) is not None for name in found)


def _partition_of(folder: str) -> TopicPartition:
    """`orders-0`, also when the folder was set aside as `orders-0.<id>-delete`."""
    stem = folder
    for suffix in (names.DELETE_DIRECTORY, names.STRAY_DIRECTORY):
        if folder.endswith(suffix):
            stem = folder.removesuffix(suffix).rpartition(".")[0]
    return parse_directory(stem) or TopicPartition(folder, NO_PARTITION)


def stored_segments(files: Files, directory: str) -> Iterator[StoredSegment]:
    """The segments of a partition, oldest first; one that retention takes meanwhile is left out."""
    bases = [names.offset_of(name, names.LOG) for name in files.list(directory)]
    for base in sorted(each for each in bases if each is not None):
        segment = _opened(files, directory, base)
        if segment is not None:
            try:
                yield segment
            finally:
                segment.close()


def _opened(files: Files, directory: str, base_offset: int) -> StoredSegment | None:
    segment = StoredSegment(files, directory, base_offset, 0)
    try:
        segment.size = segment.file.size()
    except FileNotFoundError:
        return None
    return segment


def checked_batches(segment: Segment) -> Iterator[Checked]:
    """As `scan`; a batch that is being written at this moment ends it without a verdict."""
    for checked in scan(segment):
        if checked.header is None and _has_been_completed(segment, checked.position):
            return
        yield checked


def _has_been_completed(segment: Segment, position: int) -> bool:
    """Whether the batch that seemed cut short is whole now, since its writer has got on."""
    known = segment.size
    while (size := segment.file.size()) > known:
        known = size
        head = segment.file.pread(HEADER_BYTES, position)
        if len(head) == HEADER_BYTES:
            header = parse_header(head)
            if HEADER_BYTES <= header.size <= size - position:
                return problem_of(segment.file.pread(header.size, position), 0, header) is None
    return False


def dump_batches(files: Files, partition: StoredPartition) -> Iterator[StoredBatch]:
    """Every batch of a partition, sound or not."""
    for segment in stored_segments(files, partition.directory):
        yield from batches_of(segment, partition.name)


def batches_of(segment: Segment, partition: TopicPartition) -> Iterator[StoredBatch]:
    """Every batch of one segment, sound or not."""
    path = segment.path(names.LOG)
    for position, header, problem in checked_batches(segment):
        yield StoredBatch(partition, path, position, header, problem)


def dump_records(
    files: Files, partition: StoredPartition
) -> Iterator[tuple[StoredBatch, list[StoredRecord]]]:
    """Every batch of a partition with its records; none, and a problem, when it is damaged."""
    for segment in stored_segments(files, partition.directory):
        yield from records_of(segment, partition.name)


def records_of(
    segment: Segment, partition: TopicPartition
) -> Iterator[tuple[StoredBatch, list[StoredRecord]]]:
    """Every batch of one segment with its records."""
    for batch in batches_of(segment, partition):
        if batch.header is None or batch.problem is not None:
            yield batch, []
            continue
        try:
            yield batch, _decoded(segment, batch, batch.header)
        except DecodeError as error:
            yield batch._replace(problem=str(error)), []


def _decoded(segment: Segment, batch: StoredBatch, header: BatchHeader) -> list[StoredRecord]:
    records = decode_batch(segment.file.pread(header.size, batch.position))
    return [
        StoredRecord(
            batch.partition, header, record, control_type(record) if header.is_control else None
        )
        for record in records
    ]


Row = dict[str, int | str]


def dump_file(files: Files, path: str) -> list[Row]:
    """The entries of one of a partition's small files. Raises BarnabasError for other files,
    DecodeError or CheckpointError for a damaged one."""
    name = path.rpartition("/")[2]
    data = files.read(path)
    if (base := names.offset_of(name, names.OFFSET_INDEX)) is not None:
        return [
            {"offset": base + relative, "position": position}
            for relative, position in offset_entries(data)
        ]
    if (base := names.offset_of(name, names.TIME_INDEX)) is not None:
        return [
            {"timestamp": timestamp, "offset": base + relative}
            for timestamp, relative in time_entries(data)
        ]
    if names.offset_of(name, names.TRANSACTION_INDEX) is not None:
        return [dict(entry._asdict()) for entry in decode_aborted(data)]
    if names.offset_of(name, names.SNAPSHOT) is not None:
        return _snapshot_rows(data)
    if name == names.EPOCHS:
        entries = LeaderEpochs.from_bytes(data).entries
        return [{"epoch": epoch, "start_offset": start} for epoch, start in entries]
    if name in (names.RECOVERY_POINTS, names.LOG_STARTS, names.CLEANER_OFFSETS):
        return [
            {"topic": topic, "partition": int(number), "offset": int(offset)}
            for topic, number, offset in read_rows(data, columns=3)
        ]
    raise BarnabasError(
        f"{path} is no file of a log: name a data directory, a partition's folder, or a .log, "
        f".index, .timeindex, .txnindex, .snapshot or {names.EPOCHS} file."
    )


def offset_entries(data: bytes) -> list[tuple[int, int]]:
    """Relative offset and position of each entry of an offset index."""
    return _without_padding(list(iter_unpack(">ii", OffsetIndex.from_bytes(data).to_bytes())))


def time_entries(data: bytes) -> list[tuple[int, int]]:
    """Timestamp and relative offset of each entry of a time index."""
    return _without_padding(list(iter_unpack(">qi", TimeIndex.from_bytes(data).to_bytes())))


def _without_padding(entries: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Kafka pre-allocates indexes: a lone entry of zeros is none (and would say nothing)."""
    return [] if entries == [(0, 0)] else entries


def _snapshot_rows(data: bytes) -> list[Row]:
    rows: list[Row] = []
    for producer_id, producer in decode_snapshot(data, 0).items():
        newest = producer.batches[-1] if producer.batches else None
        rows.append(
            {
                "producer_id": producer_id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_offset": newest.last_offset if newest else -1,
                "last_timestamp": producer.last_timestamp,
                "batches": len(producer.batches),
                "coordinator_epoch": producer.coordinator_epoch,
                "transaction_start": producer.transaction_start,
            }
        )
    return rows
