"""Transactions outlive restarts and kills; their indexes are rebuilt where they are not to be
believed; a full disk leaves nothing half done."""

from collections.abc import Callable

import pytest
from tests.log.conftest import append, batch, flip, open_log, sync
from tests.log.txn_log import aborted, end, read_committed, stable, write

from barnabas.config.topic_config import TopicConfig
from barnabas.log.dump import StoredPartition, dump_file
from barnabas.log.log import PartitionLog
from barnabas.log.txn_index import (
    ABORTED_ENTRY_BYTES,
    AbortedTransaction,
    decode_aborted,
    encode_aborted,
)
from barnabas.log.verify import Tally, verify_partition
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import TopicPartition
from barnabas.ports.files import Files
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles
from barnabas.world.memory import MemoryFiles

A, B, C = 1000, 2000, 3000
SMALL = TopicConfig(segment_bytes=600)
HOME = "data/events-0"


def fill(log: PartitionLog) -> None:
    """Several segments: A aborts every other transaction, B stays open all the time."""
    write(log, (B, 3, 0), b"b")
    for number in range(12):
        write(log, (A, 0, 2 * number), b"a %d" % number)
        append(log, batch(b"plain %d" % number))
        write(log, (A, 0, 2 * number + 1), b"a %d too" % number)
        end(log, A, 0, committed=number % 2 == 0, coordinator_epoch=number)
    assert len(log.segments) > 4


def indexes(files: MemoryFiles) -> dict[str, bytes]:
    names = [name for name in files.list(HOME) if name.endswith(".txnindex")]
    return {name: files.read(f"{HOME}/{name}") for name in names}


def problems(files: Files) -> list[str]:
    place = StoredPartition(HOME, TopicPartition("events", 0))
    found = verify_partition(files, place, Tally(lambda _: None))
    return [f"{each.path.rpartition('/')[2]}: {each.what}" for each in found]


@pytest.mark.parametrize("how", ["clean", "killed", "killed early"])
def test_an_open_transaction_outlives_a_restart(files: MemoryFiles, how: str) -> None:
    log = open_log(files, config=SMALL)
    fill(log)
    point = 0 if how == "killed early" else sync(log)
    before, told, told_from_20 = indexes(files), aborted(log), aborted(log, 20)
    assert (stable(log), len(told)) == (0, 6)
    log.close(clean=how == "clean")
    log = open_log(files, clean=how == "clean", recovery_point=point, config=SMALL)
    assert stable(log) == 0
    assert indexes(files) == before
    assert (aborted(log), aborted(log, 20)) == (told, told_from_20)
    assert log.producers.has_open_transaction(B, 3)
    with pytest.raises(KafkaError) as refused:
        end(log, A, 0, committed=True, coordinator_epoch=10)
    assert refused.value.code is ErrorCode.transaction_coordinator_fenced
    write(log, (B, 3, 1), b"b too", guard=None)
    end(log, B, 4, committed=True, version=2)
    assert stable(log) == log.end_offset
    kept = [value for _, value in read_committed(log)]
    expected = [b"b"]
    for number in range(12):
        one, plain, two = b"a %d" % number, b"plain %d" % number, b"a %d too" % number
        expected += [one, plain, two] if number % 2 == 0 else [plain]
    assert kept == [*expected, b"b too"]
    assert problems(files) == []


def cut_short(data: bytes) -> bytes:
    return data[:-1]


def of_another_version(data: bytes) -> bytes:
    return b"\x00\x01" + data[2:]


def with_a_marker_elsewhere(data: bytes) -> bytes:
    entry = next(decode_aborted(data))
    return encode_aborted(entry._replace(last_offset=entry.last_offset + 10_000)) + data[34:]


def with_a_first_offset_behind_its_marker(data: bytes) -> bytes:
    entry = next(decode_aborted(data))
    return encode_aborted(entry._replace(first_offset=entry.last_offset)) + data[34:]


def twice(data: bytes) -> bytes:
    return data + data


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "damaged",
    [cut_short, of_another_version, with_a_marker_elsewhere, with_a_first_offset_behind_its_marker,
     twice],
)  # fmt: skip
def test_a_damaged_index_is_built_anew(
    files: MemoryFiles, damaged: Callable[[bytes], bytes], clean: bool
) -> None:
    log = open_log(files, config=SMALL)
    fill(log)
    point = sync(log)
    log.close(clean=clean)
    before = indexes(files)
    for name, data in before.items():
        files.replace(f"{HOME}/{name}", damaged(data))
    assert len(problems(files)) >= len(before)
    log = open_log(files, clean=clean, recovery_point=point, config=SMALL)
    assert indexes(files) == before
    assert len(aborted(log)) == 6
    assert problems(files) == []


def test_removed_indexes_are_built_anew_with_the_others(files: MemoryFiles) -> None:
    log = open_log(files, config=SMALL)
    fill(log)
    log.close(clean=False)
    before = indexes(files)
    for name in files.list(HOME):
        if name.endswith((".index", ".timeindex", ".txnindex")):
            files.remove(f"{HOME}/{name}")
    log = open_log(files, recovery_point=log.end_offset, config=SMALL)
    assert indexes(files) == before
    assert len(aborted(log)) == 6


def test_an_index_without_a_segment_goes(files: MemoryFiles) -> None:
    stray = f"{HOME}/00000000000000000001.txnindex"
    files.replace(stray, encode_aborted(AbortedTransaction(A, 0, 1, 2)))
    log = open_log(files)
    log.close(clean=True)
    files.replace(stray, encode_aborted(AbortedTransaction(A, 0, 1, 2)))
    open_log(files, clean=True)
    assert not files.exists(stray)


def test_a_torn_tail_takes_its_aborted_transactions_along(files: MemoryFiles) -> None:
    log = open_log(files)
    for number in range(4):
        write(log, (A, 0, number))
        end(log, A, 0, committed=False)
    log.close(clean=False)
    path = f"{HOME}/00000000000000000000.log"
    flip(files, path, files.size_of(path) - 5)
    log = open_log(files)
    assert (log.end_offset, stable(log)) == (7, 6)
    assert aborted(log) == [(A, 0), (A, 2), (A, 4)]
    end(log, A, 0, committed=True)
    assert aborted(log) == [(A, 0), (A, 2), (A, 4)]
    assert problems(files) == []


def test_a_damaged_marker_below_the_recovery_point_ends_nothing(files: MemoryFiles) -> None:
    """It may have been a commit or an abort: readers of committed records see neither."""
    log = open_log(files)
    write(log, (A, 0, 0))
    end(log, A, 0, committed=True)
    write(log, (B, 0, 0))
    point = sync(log)
    log.close(clean=False)
    segment = log.segments[0]
    flip(files, f"{HOME}/00000000000000000000.log", segment.size // 2 - 8)
    log = open_log(files, recovery_point=point)
    assert (log.end_offset, stable(log)) == (3, 0)


def test_tools_tell_of_torn_transactions(files: MemoryFiles) -> None:
    log = open_log(files)
    write(log, (A, 1, 0))
    end(log, A, 1, committed=False)
    log.producers.restore([])
    write(log, (A, 0, 0))
    log.producers.restore([])
    write(log, (A, 0, 1), transactional=False)
    log.close(clean=False)
    log_name = "00000000000000000000.log"
    index = f"{HOME}/00000000000000000000.txnindex"
    assert problems(files) == [
        f"{log_name}: epoch 0 of producer {A} after 1",
        f"{log_name}: a batch of producer {A} outside its transaction, open from offset 2 on",
    ]
    rows = dump_file(files, index)
    assert rows == [
        {"producer_id": A, "first_offset": 0, "last_offset": 1, "last_stable_offset": 2}
    ]
    files.replace(index, encode_aborted(AbortedTransaction(B, 0, 1, 2)))
    name = "00000000000000000000.txnindex"
    told = f"the aborted transaction of producer {A} from offset 0 to 1"
    assert problems(files)[2:] == [f"{name}: it does not tell of {told}"]
    files.replace(
        index,
        encode_aborted(AbortedTransaction(A, 0, 1, 2))
        + encode_aborted(AbortedTransaction(B, 1, 2, 2)),
    )
    told = f"the aborted transaction of producer {B} from offset 1 to 2"
    assert problems(files)[2:] == [f"{name}: nothing in the log bears out {told}"]


# --- a full disk -----------------------------------------------------------------------------


@pytest.mark.parametrize("earlier", [0, 2])
@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_on_a_full_disk_is_refused_and_can_come_again(
    earlier: int, committed: bool
) -> None:
    disk = SimFiles(7, chances=Chances(cold=0))
    disk.make_dirs(HOME)
    log = open_log(disk)
    for number in range(earlier):
        write(log, (A, 0, number))
        end(log, A, 0, committed=False)
    write(log, (A, 0, earlier), b"last")
    before = contents(disk)
    used = sum(map(len, before.values()))
    needed = 78 if committed else 78 + ABORTED_ENTRY_BYTES
    for room in range(needed):
        disk.disk_bytes_max = used + room
        with pytest.raises(KafkaError) as refused:
            end(log, A, 0, committed=committed)
        assert refused.value.code is ErrorCode.kafka_storage_error
        assert contents(disk) == before
        assert (stable(log), log.failure) == (log.end_offset - 1, None)
    disk.disk_bytes_max = used + needed
    end(log, A, 0, committed=committed)
    assert stable(log) == log.end_offset
    assert len(aborted(log)) == earlier + (not committed)
    assert problems(disk) == []


def contents(disk: SimFiles) -> dict[str, bytes]:
    return {name: disk.read(f"{HOME}/{name}") for name in disk.list(HOME)}


def test_entries_are_kafkas() -> None:
    data = encode_aborted(AbortedTransaction(1, 2, 3, 4))
    assert data == bytes.fromhex(
        "00000000000000000001000000000000000200000000000000030000000000000004"
    )  # fmt: skip
    assert len(data) == ABORTED_ENTRY_BYTES == 34
