"""A full disk refuses batches and harms nothing; a failing one takes the log offline."""

import pytest
from tests.log.conftest import LOG_FILE, NOW_MS, append, batch, open_log, read_values, sync

from barnabas.config.topic_config import TopicConfig
from barnabas.log.log import PartitionLog
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.sim.faults import Chances
from barnabas.sim.files import SimFiles


@pytest.fixture
def disk() -> SimFiles:
    files = SimFiles(7, chances=Chances(cold=0))
    files.make_dirs("data/events-0")
    return files


def used(disk: SimFiles) -> int:
    names = disk.list("data/events-0")
    return sum(disk.size_of(f"data/events-0/{name}") for name in names)


def refusal(log: PartitionLog, data: memoryview) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        append(log, data)
    return refused.value.code


def test_a_batch_that_does_not_fit_is_refused_at_every_byte(disk: SimFiles) -> None:
    log = open_log(disk)
    append(log, batch(b"0", producer=(1, 0, 0)))
    size = len(batch(b"1"))
    for room in range(size):
        disk.disk_bytes_max = used(disk) + room
        code = refusal(log, batch(b"1", producer=(1, 0, 1)))
        assert code is ErrorCode.kafka_storage_error
        assert (log.end_offset, log.failure, disk.size_of(LOG_FILE)) == (1, None, size)
        assert read_values(log) == [(0, b"0")]
    disk.disk_bytes_max = None
    assert append(log, batch(b"1", producer=(1, 0, 1))) == 1
    assert read_values(log) == [(0, b"0"), (1, b"1")]


def test_a_smaller_batch_may_still_fit(disk: SimFiles) -> None:
    log = open_log(disk)
    append(log, batch(b"0"))
    disk.disk_bytes_max = used(disk) + len(batch(b"1"))
    assert refusal(log, batch(b"large" * 50)) is ErrorCode.kafka_storage_error
    assert append(log, batch(b"1")) == 1


def test_what_a_refused_write_left_is_gone_after_a_kill_too(disk: SimFiles) -> None:
    log = open_log(disk)
    append(log, batch(b"0"))
    disk.disk_bytes_max = used(disk) + 50
    refusal(log, batch(b"1"))
    disk.disk_bytes_max = None
    again = open_log(disk.kill())
    assert read_values(again) == [(0, b"0")]


def test_when_a_new_segment_can_not_be_made_the_old_one_goes_on_later(disk: SimFiles) -> None:
    config = TopicConfig(segment_bytes=200)
    log = open_log(disk, config=config)
    for number in range(2):
        append(log, batch(b"%d" % number, producer=(1, 0, number)))
    full = used(disk)
    for room in range(40):
        disk.disk_bytes_max = full + room
        assert refusal(log, batch(b"2", producer=(1, 0, 2))) is ErrorCode.kafka_storage_error
        assert (log.end_offset, log.failure) == (2, None)
        assert read_values(log) == [(0, b"0"), (1, b"1")]
    disk.disk_bytes_max = None
    assert append(log, batch(b"2", producer=(1, 0, 2))) == 2
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    again = open_log(disk.kill(), config=config)
    assert [value for _, value in read_values(again)] == [b"0", b"1", b"2"]


def test_a_kill_while_no_segment_could_be_made_loses_nothing(disk: SimFiles) -> None:
    config = TopicConfig(segment_bytes=200)
    log = open_log(disk, config=config)
    for number in range(2):
        append(log, batch(b"%d" % number))
    disk.disk_bytes_max = used(disk) + 20
    refusal(log, batch(b"2"))
    disk.disk_bytes_max = None
    again = open_log(disk.kill(), config=config)
    assert [value for _, value in read_values(again)] == [b"0", b"1"]
    assert append(again, batch(b"2")) == 2


def test_a_write_that_can_not_be_taken_back_takes_the_log_offline(
    disk: SimFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(disk)
    append(log, batch(b"0"))

    def broken(_length: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(log.segments[0].file, "truncate", broken)
    disk.faults.fail_next("write", ".log")
    assert refusal(log, batch(b"1")) is ErrorCode.kafka_storage_error
    assert refusal(log, batch(b"1")) is ErrorCode.kafka_storage_error
    assert log.failure is not None
    assert "offline until a restart" in log.failure
    again = open_log(disk.kill())
    assert read_values(again)[0] == (0, b"0")


def test_a_full_disk_can_be_emptied_by_retention(disk: SimFiles) -> None:
    config = TopicConfig(segment_bytes=200, retention_bytes=200)
    log = open_log(disk, config=config)
    for number in range(9):
        append(log, batch(b"%d" % number))
    sync(log)
    disk.disk_bytes_max = used(disk)
    assert refusal(log, batch(b"9")) is ErrorCode.kafka_storage_error
    doomed = log.expired(NOW_MS, log.end_offset)
    log.drop(doomed)
    for segment in doomed:
        segment.remove_files()
    assert append(log, batch(b"9")) == 9


def test_the_first_refusal_and_the_recovery_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = SimFiles(4, chances=Chances(cold=0))
    files.make_dirs("data/events-0")
    log = open_log(files)
    append(log, batch(b"a"))
    files.disk_bytes_max = 0
    for _ in range(3):
        with pytest.raises(KafkaError):
            append(log, batch(b"b"))
    files.disk_bytes_max = None
    append(log, batch(b"c"))
    append(log, batch(b"d"))
    told = [record.message for record in caplog.records]
    assert [each.split(":")[0] for each in told] == [
        "events-0 refuses writes",
        "events-0 takes writes again",
    ]
