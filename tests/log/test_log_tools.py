"""The tools that look into a data directory: what they show, what they find, what they leave."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.conftest import NOW_MS, append, batch, open_log

from barnabas.config.topic_config import TopicConfig
from barnabas.log import names
from barnabas.log.dump import (
    StoredPartition,
    checked_batches,
    dump_batches,
    dump_file,
    dump_records,
    find_partitions,
    offset_entries,
    stored_segments,
    time_entries,
)
from barnabas.log.log import PartitionLog
from barnabas.log.rewriting import rewrite
from barnabas.log.txn_index import AbortedTransaction, encode_aborted
from barnabas.log.verify import Tally, verify_partition
from barnabas.log.verify_transactions import Problem
from barnabas.model.errors import BarnabasError, DecodeError
from barnabas.model.topics import TopicPartition
from barnabas.wire.records.compression import CODEC_NAMES
from barnabas.wire.records.control import ControlType, EndTransactionMarker, marker_batch
from barnabas.wire.records.record import NewRecord, encode_batch
from barnabas.world.memory import MemoryFiles

PLACE = StoredPartition("data/events-0", TopicPartition("events", 0))
FIRST = "data/events-0/00000000000000000000"
SMALL = TopicConfig(segment_bytes=1000, index_interval_bytes=100)


def fill(files: MemoryFiles, count: int = 40) -> PartitionLog:
    """A closed log of several segments, with indexes that have entries."""
    log = open_log(files, config=SMALL)
    for number in range(count):
        append(log, batch(b"value %d" % number, timestamp=NOW_MS + number, producer=(7, 0, number)))
    log.close(clean=True)
    return log


def problems(files: MemoryFiles, told: list[int] | None = None) -> list[Problem]:
    tally = Tally(lambda each: None if told is None else told.append(each.batches))
    return list(verify_partition(files, PLACE, tally))


def damage(files: MemoryFiles, path: str, position: int, data: bytes) -> None:
    file = files.open(path)
    file.pwrite(data, position)
    file.close()


def test_a_partition_is_found_by_its_own_folder_and_by_the_data_directory() -> None:
    files = MemoryFiles()
    for name in ("events-0", "events-1", "a.b-c-12", "events-3.0f-delete", "empty-0"):
        files.make_dirs(f"data/{name}")
        if name != "empty-0":
            files.open(f"data/{name}/00000000000000000000.log", create=True).close()
    files.open("data/meta-1", create=True).close()
    found = find_partitions(files, "data/")
    assert [place.name for place in found] == [("a.b-c", 12), ("events", 0), ("events", 1)]
    assert find_partitions(files, "data/events-1") == [found[2]]
    assert find_partitions(files, "data/events-3.0f-delete")[0].name == ("events", 3)


def test_a_folder_of_any_name_is_a_partition_when_it_holds_segments() -> None:
    files = MemoryFiles()
    files.make_dirs("copy")
    files.open("copy/00000000000000000000.log", create=True).close()
    assert find_partitions(files, "copy") == [StoredPartition("copy", TopicPartition("copy", -1))]


def test_every_record_of_every_codec_is_shown(files: MemoryFiles) -> None:
    log = open_log(files)
    records: list[NewRecord] = [
        (NOW_MS, b"k", b"v" * 200, [("h", None)]),
        (NOW_MS, None, None, []),
    ]
    for codec in CODEC_NAMES:
        data = encode_batch(records, codec=codec)
        append(log, memoryview(bytearray(data)))
    log.close(clean=False)
    shown = [record for _, records in dump_records(files, PLACE) for record in records]
    assert [each.record.offset for each in shown] == list(range(10))
    assert {each.record.value for each in shown} == {b"v" * 200, None}
    assert {each.batch.codec for each in shown} == set(CODEC_NAMES)
    assert shown[0].record.headers == [("h", None)]


def test_markers_of_transactions_are_told_apart(files: MemoryFiles) -> None:
    path = f"{FIRST}.log"
    data = encode_batch([(NOW_MS, None, b"v", [])], producer_id=3, producer_epoch=0,
                        base_sequence=0, transactional=True, base_offset=0)  # fmt: skip
    marker = bytearray(
        marker_batch(
            EndTransactionMarker(False, 1), timestamp=NOW_MS, producer_id=3, producer_epoch=0
        )
    )
    struct.pack_into(">q", marker, 0, 1)
    file = files.open(path, create=True)
    file.pwrite(data + bytes(marker), 0)
    file.close()
    rewrite(files, f"{FIRST}.txnindex", encode_aborted(AbortedTransaction(3, 0, 1, 2)))
    shown = [record for _, records in dump_records(files, PLACE) for record in records]
    assert [each.control for each in shown] == [None, ControlType.ABORT]
    assert [each.batch.is_transactional for each in shown] == [True, True]
    assert problems(files) == []


def test_a_damaged_batch_is_named_and_the_next_one_shown(files: MemoryFiles) -> None:
    fill(files, 3)
    second = list(dump_batches(files, PLACE))[1]
    damage(files, second.path, second.position + 70, b"\xff")
    told = list(dump_records(files, PLACE))
    assert [(batch.problem is None, len(records)) for batch, records in told] == [
        (True, 1),
        (False, 0),
        (True, 1),
    ]
    assert told[1][0].position == second.position


def test_looking_opens_files_for_reading_only(files: MemoryFiles) -> None:
    fill(files, 1)
    segments = stored_segments(files, "data/events-0")
    file = next(segments).file
    assert file.pread(1, 0) == b"\0"
    with pytest.raises(OSError, match="Bad file"):
        file.pwrite(b"x", 0)


def test_a_batch_that_is_just_being_written_is_no_damage(files: MemoryFiles) -> None:
    fill(files, 2)
    segments = stored_segments(files, "data/events-0")
    segment = next(segments)
    whole = files.read(f"{FIRST}.log")
    segment.size = len(whole) - 10  # as it was when the looking began
    assert [each.problem for each in checked_batches(segment)] == [None]


def test_a_batch_that_stays_cut_short_is_damage(files: MemoryFiles) -> None:
    fill(files, 2)
    file = files.open(f"{FIRST}.log")
    file.truncate(file.size() - 10)
    file.close()
    (found,) = [each for each in problems(files) if each.path == f"{FIRST}.log"]
    assert "damaged" in found.what
    assert found.position == list(dump_batches(files, PLACE))[1].position


def test_index_files_are_shown_with_whole_offsets(files: MemoryFiles) -> None:
    log = fill(files)
    second = log.segments[1].base_offset
    rows = dump_file(files, f"data/events-0/{names.file_name(second, names.OFFSET_INDEX)}")
    batches = {each.position: each.header for each in dump_batches(files, PLACE)
               if each.path.endswith(names.file_name(second, names.LOG))}  # fmt: skip
    assert rows
    for row in rows:
        header = batches[int(row["position"])]
        assert header is not None
        assert header.last_offset == row["offset"]
    times = dump_file(files, f"data/events-0/{names.file_name(second, names.TIME_INDEX)}")
    assert all(row["timestamp"] == NOW_MS + int(row["offset"]) for row in times)


def test_snapshots_epochs_and_checkpoints_are_shown(files: MemoryFiles) -> None:
    fill(files, 5)
    (snapshot,) = [name for name in files.list("data/events-0") if name.endswith(names.SNAPSHOT)]
    (row,) = dump_file(files, f"data/events-0/{snapshot}")
    assert (row["producer_id"], row["last_sequence"], row["last_offset"]) == (7, 4, 4)
    assert dump_file(files, f"data/events-0/{names.EPOCHS}") == [{"epoch": 0, "start_offset": 0}]
    files.replace(f"data/{names.RECOVERY_POINTS}", b"0\n1\nevents 0 5\n")
    assert dump_file(files, f"data/{names.RECOVERY_POINTS}") == [
        {"topic": "events", "partition": 0, "offset": 5}
    ]


def test_other_and_damaged_files_are_refused(files: MemoryFiles) -> None:
    files.replace("data/notes.txt", b"hello")
    with pytest.raises(BarnabasError, match=r"notes\.txt"):
        dump_file(files, "data/notes.txt")
    files.replace(f"{FIRST}.snapshot", b"hello")
    with pytest.raises(DecodeError):
        dump_file(files, f"{FIRST}.snapshot")


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 900)), max_size=20), st.integers(0, 9))
def test_padding_of_an_offset_index_is_no_entry(steps: list[tuple[int, int]], zeros: int) -> None:
    offset = position = 0
    entries = []
    for more_offset, more_position in steps:
        offset, position = offset + more_offset, position + more_position
        entries.append((offset, position))
    data = b"".join(struct.pack(">ii", *entry) for entry in entries)
    assert offset_entries(data + bytes(8 * zeros)) == entries
    times = b"".join(struct.pack(">qi", position, offset) for offset, position in entries)
    assert time_entries(times + bytes(12 * zeros)) == [(b, a) for a, b in entries]


def test_a_sound_log_has_no_problems(files: MemoryFiles) -> None:
    log = fill(files)
    assert len(log.segments) > 2
    told: list[int] = []
    assert problems(files, told) == []
    assert told[-1] == 40


def test_padded_indexes_and_missing_ones_are_no_problem(files: MemoryFiles) -> None:
    log = fill(files)
    for suffix, entry in ((names.OFFSET_INDEX, 8), (names.TIME_INDEX, 12)):
        path = f"data/events-0/{names.file_name(log.segments[-1].base_offset, suffix)}"
        file = files.open(path)
        file.truncate(file.size() + 100 * entry)
        file.close()
        files.remove(f"{FIRST}{suffix}")
    assert problems(files) == []


def test_a_wrong_checksum_is_found_with_its_place(files: MemoryFiles) -> None:
    fill(files)
    third = list(dump_batches(files, PLACE))[2]
    damage(files, third.path, third.position + 65, b"\xff\xff")
    assert [(each.path, each.position) for each in problems(files)] == [
        (third.path, third.position)
    ]


def test_offsets_that_do_not_rise_are_found(files: MemoryFiles) -> None:
    fill(files)
    third = list(dump_batches(files, PLACE))[2]
    damage(files, third.path, third.position, struct.pack(">q", 1))  # outside the checksum
    (found,) = [each for each in problems(files) if each.path == third.path]
    assert (found.position, found.what) == (third.position, "offset 1 where 2 was next")


def test_segments_that_overlap_are_found(files: MemoryFiles) -> None:
    log = fill(files)
    second = log.segments[1]
    files.rename(second.path(names.LOG), "data/events-0/00000000000000000001.log")
    assert any("overlaps" in each.what for each in problems(files))


@pytest.mark.parametrize(
    ("position", "entry", "what"),
    [
        (0, struct.pack(">ii", 1, 33), "where no batch begins"),
        (0, struct.pack(">ii", 0, 10**6), "where no batch begins"),
        (8, struct.pack(">ii", -5, 7), "do not rise"),
    ],
)
def test_an_offset_index_that_misleads_is_found(
    files: MemoryFiles, position: int, entry: bytes, what: str
) -> None:
    fill(files)
    damage(files, f"{FIRST}.index", position, entry)
    found = problems(files)
    assert found
    assert all(each.path == f"{FIRST}.index" for each in found)
    assert any(what in each.what and each.position == position for each in found)


def test_an_index_entry_that_skips_its_offset_is_found(files: MemoryFiles) -> None:
    fill(files)
    batches = [each for each in dump_batches(files, PLACE) if each.path == f"{FIRST}.log"]
    damage(files, f"{FIRST}.index", 0, struct.pack(">ii", 1, batches[3].position))
    assert [each.position for each in problems(files) if "begins with offset 3" in each.what] == [0]


def test_a_time_index_that_promises_too_much_is_found(files: MemoryFiles) -> None:
    fill(files)
    damage(files, f"{FIRST}.timeindex", 0, struct.pack(">q", NOW_MS - 1000))
    (found,) = problems(files)
    assert (found.path, found.position) == (f"{FIRST}.timeindex", 0)
    assert "newer" in found.what


def test_index_entries_behind_the_log_and_half_entries_are_found(files: MemoryFiles) -> None:
    fill(files, 1)
    file = files.open(f"{FIRST}.timeindex")
    file.truncate(0)
    file.pwrite(struct.pack(">qi", NOW_MS + 5, 9), 0)
    file.close()
    files.replace(f"{FIRST}.index", b"abc")
    assert sorted(each.what for each in problems(files)) == [
        "3 bytes are no whole number of entries",
        "offset 9 is behind the segment's last",
    ]


def test_damaged_snapshots_and_epochs_are_found(files: MemoryFiles) -> None:
    fill(files, 2)
    files.replace("data/events-0/00000000000000000002.snapshot", b"\x00\x01nonsense")
    files.replace(f"data/events-0/{names.EPOCHS}", b"0\n2\n0 0\n")
    assert [each.path.rpartition("/")[2] for each in problems(files)] == [
        names.EPOCHS,
        "00000000000000000002.snapshot",
    ]
