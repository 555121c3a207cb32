"""Damage to bytes that had been synced: never cut, never served, never hidden."""

import pytest
from tests.log.conftest import LOG_FILE, append, batch, flip, open_log, read_values

from barnabas.log.log import PartitionLog
from barnabas.log.recovery import DamagedLogError
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.records.batch import walk
from barnabas.world.memory import MemoryFiles

BATCHES = 8
SIZE = len(batch(b"0"))


@pytest.fixture
def killed(files: MemoryFiles) -> MemoryFiles:
    log = open_log(files)
    for number in range(BATCHES):
        append(log, batch(b"%d" % number))
    return files


def content(files: MemoryFiles) -> dict[str, bytes]:
    return {name: files.read(f"data/events-0/{name}") for name in files.list("data/events-0")}


def check_all_but(log: PartitionLog, damaged: int) -> None:
    """Every record but one can be read; that one is refused."""
    assert log.end_offset == BATCHES
    for offset in range(BATCHES):
        plan = log.plan_read(offset, SIZE, BATCHES, at_least_one=True)
        assert plan is not None
        if offset == damaged:
            with pytest.raises(KafkaError) as refused:
                plan.read()
            assert refused.value.code is ErrorCode.corrupt_message
        else:
            assert plan.read().next_offset == offset + 1


@pytest.mark.parametrize("damaged", range(BATCHES))
def test_a_batch_whose_checksum_fails_is_kept_and_not_served(
    killed: MemoryFiles, damaged: int
) -> None:
    flip(killed, LOG_FILE, damaged * SIZE + SIZE - 1)
    before = killed.read(LOG_FILE)
    log = open_log(killed, recovery_point=BATCHES)
    check_all_but(log, damaged)
    assert killed.read(LOG_FILE) == before
    assert append(log, batch(b"more")) == BATCHES
    assert read_values(log, damaged + 1)[0] == (damaged + 1, b"%d" % (damaged + 1)) or (
        damaged == BATCHES - 1
    )


@pytest.mark.parametrize("clean", [True, False])
def test_it_is_noticed_again_at_every_start(killed: MemoryFiles, clean: bool) -> None:
    flip(killed, LOG_FILE, 3 * SIZE + 70)
    open_log(killed, recovery_point=BATCHES).close(clean=True)
    check_all_but(open_log(killed, clean=clean, recovery_point=BATCHES), 3)


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("byte", range(8, 12))
def test_a_damaged_length_keeps_the_log_offline_and_changes_nothing(
    killed: MemoryFiles, byte: int, bit: int
) -> None:
    flip(killed, LOG_FILE, 3 * SIZE + byte, bit)
    before = content(killed)
    with pytest.raises(DamagedLogError, match="had been synced") as damage:
        open_log(killed, recovery_point=BATCHES)
    assert LOG_FILE in str(damage.value)
    assert content(killed) == before


def test_a_damaged_offset_range_keeps_the_log_offline(killed: MemoryFiles) -> None:
    """A batch that no longer says where it ends can not be stepped over."""
    last_offset_delta = 23
    flip(killed, LOG_FILE, 3 * SIZE + last_offset_delta, 7)
    before = content(killed)
    with pytest.raises(DamagedLogError, match="had been synced"):
        open_log(killed, recovery_point=BATCHES)
    assert content(killed) == before


@pytest.mark.parametrize("size", [3 * SIZE - 1, 3 * SIZE + 60, 3 * SIZE + 61, 8 * SIZE - 1])
def test_a_file_that_lost_synced_bytes_keeps_the_log_offline(
    killed: MemoryFiles, size: int
) -> None:
    killed.open(LOG_FILE).truncate(size)
    before = content(killed)
    with pytest.raises(DamagedLogError, match=r"cut short|batch length"):
        open_log(killed, recovery_point=BATCHES)
    assert content(killed) == before


def test_a_base_offset_that_went_back_keeps_the_log_offline(killed: MemoryFiles) -> None:
    killed.open(LOG_FILE).pwrite((1).to_bytes(8, "big"), 5 * SIZE)
    with pytest.raises(DamagedLogError, match="offset 1 where 5 was next"):
        open_log(killed, recovery_point=BATCHES)


def test_damage_below_the_recovery_point_is_no_reason_to_cut_what_is_above(
    killed: MemoryFiles,
) -> None:
    flip(killed, LOG_FILE, 2 * SIZE + 70)
    killed.open(LOG_FILE).truncate(BATCHES * SIZE - 3)
    log = open_log(killed, recovery_point=5)
    assert log.end_offset == BATCHES - 1
    assert killed.size_of(LOG_FILE) == (BATCHES - 1) * SIZE


@pytest.mark.parametrize("byte", [8, 9, 10, 11])
def test_a_damaged_tail_after_a_clean_stop_is_noticed(killed: MemoryFiles, byte: int) -> None:
    open_log(killed).close(clean=True)
    flip(killed, LOG_FILE, (BATCHES - 1) * SIZE + byte, 4)
    with pytest.raises(DamagedLogError):
        open_log(killed, clean=True, recovery_point=BATCHES)


def test_a_file_cut_after_a_clean_stop_is_noticed(killed: MemoryFiles) -> None:
    open_log(killed).close(clean=True)
    killed.open(LOG_FILE).truncate(BATCHES * SIZE - 1)
    with pytest.raises(DamagedLogError):
        open_log(killed, clean=True, recovery_point=BATCHES)


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("byte", range(8))
def test_a_damaged_offset_is_noticed_by_those_around_it(
    killed: MemoryFiles, byte: int, bit: int
) -> None:
    """It lies outside of the checksum. Whatever is served has the offset that it always had."""
    log = open_log(killed)
    flip(killed, LOG_FILE, 3 * SIZE + byte, bit)
    plan = log.plan_read(0, 1 << 16, BATCHES, at_least_one=True)
    assert plan is not None
    result = plan.read()
    assert [header.base_offset for _, header in walk(result.data)] in ([0, 1], [0, 1, 2])
    assert result.next_offset in (2, 3)
