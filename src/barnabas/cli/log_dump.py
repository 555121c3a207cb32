"""What `barnabas log dump` prints."""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.cli.log_coordinators import (
    coordinators_line,
    coordinators_record,
    is_of_coordinators,
)
from barnabas.cli.output import (
    note,
    print_json,
    print_table,
    readable_time,
    record_object,
)
from barnabas.log import names
from barnabas.log.checkpoints import CheckpointError
from barnabas.log.dump import (
    StoredBatch,
    StoredPartition,
    StoredRecord,
    StoredSegment,
    batches_of,
    dump_file,
    find_partitions,
    records_of,
    stored_segments,
)
from barnabas.model.errors import BarnabasError, DecodeError
from barnabas.wire.records.batch import LOG_APPEND_TIME, NO_PRODUCER, BatchHeader
from barnabas.wire.records.compression import CODEC_NAMES
from barnabas.world.files import DiskFiles

_SHOWN_CHARS: Final = 60


class Manner(NamedTuple):
    """How records are shown."""

    control: bool
    """The markers that end transactions, too."""
    raw: bool
    """As bytes also where it is known what they say."""
    as_json: bool


def is_small_file(place: str) -> bool:
    """Whether a place is one of a partition's files beside its segments."""
    if not os.path.exists(place):
        raise BarnabasError(f"There is nothing at {place}.")
    return os.path.isfile(place) and not place.endswith(names.LOG)


def partitions_at(place: str) -> list[StoredPartition]:
    """The partitions a directory holds; BarnabasError when there are none."""
    found = find_partitions(DiskFiles(), place)
    if not found:
        raise BarnabasError(
            f"{place} holds no partitions: name a data directory or a partition's folder."
        )
    return found


def _segments(place: str) -> Iterator[tuple[StoredPartition, StoredSegment]]:
    """The segments a place stands for: those of a directory, or the one that a file is."""
    only = None
    if os.path.isfile(place):
        only, place = os.path.basename(place), os.path.dirname(place) or "."
        if names.offset_of(only, names.LOG) is None:
            raise BarnabasError(f"{only} is not named like a segment (20 digits and .log).")
    # An absolute path has the folder's name in it, which tells topic and partition.
    for partition in partitions_at(os.path.abspath(place)):
        for segment in stored_segments(DiskFiles(), partition.directory):
            if only is None or segment.path(names.LOG).endswith(f"/{only}"):
                yield partition, segment


def dump_records(place: str, manner: Manner) -> int:
    """Show every record; how many batches, or records of groups, are damaged."""
    return sum(_show_records(segment, partition, manner) for partition, segment in _segments(place))


def dump_batches(place: str, as_json: bool) -> int:
    """Show every batch; how many are damaged."""
    return sum(
        _show_batches(segment, partition, as_json) for partition, segment in _segments(place)
    )


def _show_records(segment: StoredSegment, partition: StoredPartition, manner: Manner) -> int:
    damaged = 0
    has_meaning = is_of_coordinators(partition.name.topic) and not manner.raw
    if not manner.as_json:
        print(f"{segment.path(names.LOG)}")
    for batch, records in records_of(segment, partition.name):
        if batch.problem is not None:
            damaged += 1
            note(_damage(batch))
        for record in records:
            if record.control is not None and not manner.control:
                continue
            if has_meaning and record.control is None:
                damaged += not _show_meaning(record, manner.as_json)
            elif manner.as_json:
                print_json(_record_json(record))
            else:
                print(_record_line(record))
    return damaged


def _show_meaning(stored: StoredRecord, as_json: bool) -> bool:
    """Show what a coordinator's record says, or its bytes where it says nothing; whether it did."""
    record = stored.record
    try:
        key, value = coordinators_record(stored.partition.topic, record.key, record.value)
    except DecodeError as error:
        note(f"{stored.partition.directory}: offset {stored.record.offset}: {error}")
        if as_json:
            print_json(_record_json(stored))
        else:
            print(_record_line(stored))
        return False
    if as_json:
        print_json(_record_json(stored) | {"key": key, "value": value})
    else:
        print(f"{_line_start(stored)}  {coordinators_line(key, value)}")
    return True


def _record_json(stored: StoredRecord) -> dict[str, object]:
    record = stored.record
    append_time = stored.batch.attributes & LOG_APPEND_TIME
    described: dict[str, object] = record_object(
        topic=stored.partition.topic,
        partition=stored.partition.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        timestamp_type="LogAppendTime" if append_time else "CreateTime",
        key=record.key,
        value=record.value,
        headers=record.headers,
    )
    if stored.control is not None:
        described["control"] = stored.control.name
    return described


def _record_line(stored: StoredRecord) -> str:
    record = stored.record
    start = _line_start(stored)
    if stored.control is not None:
        return f"{start}  {stored.control.name} of producer {stored.batch.producer_id}"
    headers = "".join(f"  {name}={_shown(content)}" for name, content in record.headers)
    return f"{start}  {_shown(record.key)}  {_shown(record.value)}{headers}"


def _line_start(stored: StoredRecord) -> str:
    return f"  {stored.record.offset:>10}  {readable_time(stored.record.timestamp)}"


def _shown(data: bytes | None) -> str:
    """Something of the bytes, on one line whatever they are."""
    if data is None:
        return "null"
    text = repr(data.decode("utf-8", "backslashreplace"))
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}… ({len(data)} bytes)"


def _damage(batch: StoredBatch) -> str:
    return f"{batch.path}: byte {batch.position}: the batch is damaged: {batch.problem}"


_BATCH_TITLES: Final = (
    "base", "last", "position", "bytes", "records", "crc", "codec", "epoch", "producer",
    "max timestamp", "flags",
)  # fmt: skip


def _show_batches(segment: StoredSegment, partition: StoredPartition, as_json: bool) -> int:
    damaged = 0
    rows = []
    for batch in batches_of(segment, partition.name):
        damaged += batch.problem is not None
        if as_json:
            print_json(_batch_json(batch))
        elif batch.header is not None:
            rows.append(_batch_row(batch.header, batch))
        if batch.problem is not None:
            note(_damage(batch))
    if not as_json:
        print(segment.path(names.LOG))
        print_table(_BATCH_TITLES, rows)
    return damaged


def _flags(header: BatchHeader) -> list[str]:
    named = {
        "transactional": header.is_transactional,
        "control": header.is_control,
        "append-time": bool(header.attributes & LOG_APPEND_TIME),
    }
    return [name for name, is_set in named.items() if is_set]


def _batch_row(header: BatchHeader, batch: StoredBatch) -> list[object]:
    producer = "-"
    if header.producer_id != NO_PRODUCER:
        producer = f"{header.producer_id}/{header.producer_epoch}/{header.base_sequence}"
    return [
        header.base_offset, header.last_offset, batch.position, header.size, header.count,
        "ok" if batch.problem is None else "BAD", CODEC_NAMES.get(header.codec, header.codec),
        header.leader_epoch, producer, readable_time(header.max_timestamp),
        ",".join(_flags(header)),
    ]  # fmt: skip


def _batch_json(batch: StoredBatch) -> dict[str, object]:
    partition, header = batch.partition, batch.header
    described: dict[str, object] = {
        "topic": partition.topic,
        "partition": partition.partition,
        "file": batch.path,
        "position": batch.position,
        "valid": batch.problem is None,
        "problem": batch.problem,
    }
    if header is None:
        return described
    return described | {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "size": header.size,
        "records": header.count,
        "crc": header.crc,
        "codec": CODEC_NAMES.get(header.codec, str(header.codec)),
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "timestamp_type": (
            "LogAppendTime" if header.attributes & LOG_APPEND_TIME else "CreateTime"
        ),
        "transactional": header.is_transactional,
        "control": header.is_control,
    }


def dump_small_file(place: str, as_json: bool) -> None:
    """Show the entries of an index, a snapshot or a checkpoint."""
    try:
        rows = dump_file(DiskFiles(), place)
    except (DecodeError, CheckpointError) as error:
        raise BarnabasError(f"{place} is damaged: {error}.") from error
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        print(f"{place} has no entries.")
