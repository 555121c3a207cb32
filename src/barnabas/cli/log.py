"""`barnabas log`: look into the files of a data directory, and check them."""

import os
import time
from collections.abc import Iterator
from typing import Annotated, Final

import typer

from barnabas.cli.ending import FAILED
from barnabas.cli.output import (
    AsJson,
    note,
    print_json,
    print_table,
    readable_size,
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
from barnabas.log.verify import Tally, verify_partition
from barnabas.model.errors import BarnabasError, DecodeError
from barnabas.wire.records.batch import LOG_APPEND_TIME, NO_PRODUCER, BatchHeader
from barnabas.wire.records.compression import CODEC_NAMES
from barnabas.world.files import DiskFiles

app = typer.Typer(
    help="Look into the files of a data directory, and check them.", no_args_is_help=True
)

DUMP_EXAMPLES: Final = """\b
Examples:
  barnabas log dump barnabas-data                        every record of every partition
  barnabas log dump barnabas-data/orders-0 --batches     offsets, positions, codecs, producers
  barnabas log dump barnabas-data/orders-0 --json | jq .value
  barnabas log dump barnabas-data/orders-0/00000000000000000000.index
"""
VERIFY_EXAMPLES: Final = """\b
Examples:
  barnabas log verify barnabas-data
  barnabas log verify barnabas-data/orders-0 --json
"""
_PROGRESS_S: Final = 1.0
_SHOWN_CHARS: Final = 60

Place = Annotated[
    str,
    typer.Argument(metavar="DIR", help="A data directory, a partition's folder, or one file."),
]


@app.command("dump", epilog=DUMP_EXAMPLES)
def dump(
    place: Place,
    records: Annotated[
        bool, typer.Option("--records/--batches", help="Show records, or only their batches.")
    ] = True,
    control: Annotated[
        bool, typer.Option("--control", help="Show the markers that end transactions, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what lies in a log: Barnabas' own, or one that Apache Kafka wrote.

    Files are only read, and a broker may be running on them. With --json every line is one
    object; bytes that are not UTF-8 become {"base64": "..."}.
    """
    if _is_small_file(place):
        _dump_small_file(place, as_json)
        return
    damaged = 0
    for partition, segment in _segments(place):
        show = (
            _show_records(segment, partition, control, as_json)
            if records
            else _show_batches(segment, partition, as_json)
        )
        damaged += show
    if damaged:
        note(f"barnabas: {damaged} damaged; `barnabas log verify` tells more.")
        raise typer.Exit(FAILED)


def _is_small_file(place: str) -> bool:
    if not os.path.exists(place):
        raise BarnabasError(f"There is nothing at {place}.")
    return os.path.isfile(place) and not place.endswith(names.LOG)


def _partitions(place: str) -> list[StoredPartition]:
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
    for partition in _partitions(os.path.abspath(place)):
        for segment in stored_segments(DiskFiles(), partition.directory):
            if only is None or segment.path(names.LOG).endswith(f"/{only}"):
                yield partition, segment


def _show_records(
    segment: StoredSegment, partition: StoredPartition, control: bool, as_json: bool
) -> int:
    damaged = 0
    if not as_json:
        print(f"{segment.path(names.LOG)}")
    for batch, records in records_of(segment, partition.name):
        if batch.problem is not None:
            damaged += 1
            note(_damage(batch))
        for record in records:
            if record.control is not None and not control:
                continue
            if as_json:
                print_json(_record_json(record))
            else:
                print(_record_line(record))
    return damaged


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
    start = f"  {record.offset:>10}  {readable_time(record.timestamp)}"
    if stored.control is not None:
        return f"{start}  {stored.control.name} of producer {stored.batch.producer_id}"
    headers = "".join(f"  {name}={_shown(content)}" for name, content in record.headers)
    return f"{start}  {_shown(record.key)}  {_shown(record.value)}{headers}"


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


def _dump_small_file(place: str, as_json: bool) -> None:
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


@app.command("verify", epilog=VERIFY_EXAMPLES)
def verify(place: Place, as_json: AsJson = False) -> None:
    """Check every batch, index, snapshot and epoch of a data directory; exit 1 if any is wrong.

    Nothing is changed. One line a problem, with the file and the byte where it is. A broker may
    be running on the directory.
    """
    if not os.path.isdir(place):
        raise BarnabasError(f"{place} is no directory: name a data directory or a partition's.")
    progress = _Progress(place)
    tally = Tally(progress)
    problems = 0
    for partition in _partitions(place):
        for problem in verify_partition(DiskFiles(), partition, tally):
            problems += 1
            if as_json:
                print_json({"file": problem.path, "position": problem.position,
                            "problem": problem.what})  # fmt: skip
            else:
                print(f"{problem.path}: byte {problem.position}: {problem.what}")
    if not as_json:
        looked_at = (
            f"{tally.partitions} partitions, {tally.segments} segments, {tally.batches} batches, "
            f"{tally.records} records, {readable_size(tally.size)}"
        )
        print(f"{looked_at}: {problems or 'no'} {'problem' if problems == 1 else 'problems'}.")
    if problems:
        raise typer.Exit(FAILED)


class _Progress:
    """Says on stderr now and then how far it has got, once the work turns out to be long."""

    def __init__(self, place: str) -> None:
        self._total = sum(
            segment.size
            for partition in _partitions(place)
            for segment in stored_segments(DiskFiles(), partition.directory)
        )
        self._next_s = time.monotonic() + _PROGRESS_S

    def __call__(self, tally: Tally) -> None:
        """Called often; speaks seldom."""
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + _PROGRESS_S
        note(f"checked {readable_size(tally.size)} of {readable_size(self._total)}")
