"""Whether the replicas of each partition are the same, as their files tell."""

import hashlib
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from tests.chaos.talk import Place

from barnabas.log.dump import (
    StoredBatch,
    StoredPartition,
    StoredRecord,
    dump_batches,
    dump_records,
    find_partitions,
)
from barnabas.log.names import DAMAGED_DIRECTORY
from barnabas.model.topics import TopicPartition
from barnabas.ports.files import Files
from barnabas.wire.records.control import ControlType
from barnabas.world.files import DiskFiles

Print = tuple[int, int, str]
"""First offset, last offset, and what the bytes of a batch amount to."""


def differences(
    directories: Mapping[int, Path], ends: Mapping[Place, int], compacted: set[str]
) -> Iterator[str]:
    """What is not alike below the high watermarks, in words; nothing when all is well."""
    files = DiskFiles()
    stored = {
        number: {each.name: each for each in find_partitions(files, str(directory))}
        for number, directory in directories.items()
    }
    for place, end in sorted(ends.items()):
        name = TopicPartition(*place)
        missing = [number for number, found in stored.items() if name not in found]
        if missing:
            yield f"{name.directory} is not there on {missing}"
            continue
        if place[0] in compacted:
            latest = {n: _latest(files, found[name], end) for n, found in stored.items()}
            yield from _compare_latest(name, latest)
        else:
            prints = {n: _prints(files, found[name], end) for n, found in stored.items()}
            yield from _compare_batches(name, end, prints)


def set_aside(directories: Mapping[int, Path]) -> Iterator[str]:
    """Replicas that were damaged: brokers copy them anew, so that nothing differs any more."""
    for number, directory in directories.items():
        for folder in sorted(directory.glob(f"*{DAMAGED_DIRECTORY}")):
            yield f"broker {number} found a replica damaged, and set it aside as {folder.name}"


def _prints(files: Files, partition: StoredPartition, end: int) -> Iterator[Print | str]:
    for batch in dump_batches(files, partition):
        if batch.header is None or batch.problem is not None:
            yield f"damaged at byte {batch.position}: {batch.problem}"
            return
        if batch.header.base_offset >= end:
            return
        yield _print_of(batch)


def _print_of(batch: StoredBatch) -> Print:
    header = batch.header
    assert header is not None
    with Path(batch.path).open("rb") as file:
        file.seek(batch.position)
        data = file.read(header.size)
    return header.base_offset, header.last_offset, hashlib.sha1(data).hexdigest()


def _compare_batches(
    name: TopicPartition, end: int, prints: Mapping[int, Iterator[Print | str]]
) -> Iterator[str]:
    reached = 0
    for row in zip_longest(*prints.values()):
        if any(each != row[0] for each in row):
            told = ", ".join(f"broker {n} has {each}" for n, each in zip(prints, row, strict=True))
            yield f"{name.directory}: {told}"
            return
        if isinstance(row[0], str):
            yield f"{name.directory}: {row[0]}, everywhere"
            return
        reached = row[0][1] + 1
    if reached != end:
        yield f"{name.directory}: the logs end at {reached}, the high watermark is {end}"


def _latest(files: Files, partition: StoredPartition, end: int) -> dict[bytes, bytes] | str:
    """The value of each key that counts: committed, and not deleted."""
    found: dict[bytes, tuple[int, bytes | None]] = {}
    open_transactions: dict[int, list[StoredRecord]] = {}
    for batch, records in dump_records(files, partition):
        if batch.header is None or batch.problem is not None:
            return f"damaged at byte {batch.position}: {batch.problem}"
        header = batch.header
        if header.base_offset >= end:
            break
        if header.is_control:
            ended = open_transactions.pop(header.producer_id, [])
            if records and records[0].control is ControlType.COMMIT:
                _take(found, ended)
        elif header.is_transactional:
            open_transactions.setdefault(header.producer_id, []).extend(records)
        else:
            _take(found, records)
    return {key: value for key, (_, value) in found.items() if value is not None}


def _take(found: dict[bytes, tuple[int, bytes | None]], records: list[StoredRecord]) -> None:
    """The highest offset counts, whichever was committed last: so does compaction see it."""
    for stored in records:
        record = stored.record
        key, value = bytes(record.key or b""), record.value
        if key not in found or found[key][0] < record.offset:
            found[key] = record.offset, None if value is None else bytes(value)


def _compare_latest(
    name: TopicPartition, latest: Mapping[int, dict[bytes, bytes] | str]
) -> Iterator[str]:
    first, *others = latest
    for number, found in latest.items():
        if isinstance(found, str):
            yield f"{name.directory}: broker {number} is {found}"
    for other in others:
        one, two = latest[first], latest[other]
        if isinstance(one, str) or isinstance(two, str) or one == two:
            continue
        keys = sorted(key for key in one.keys() | two.keys() if one.get(key) != two.get(key))
        told = f"{len(keys)} keys differ on brokers {first} and {other}, like {keys[0]!r}"
        yield f"{name.directory}: {told}: {one.get(keys[0])!r} and {two.get(keys[0])!r}"
