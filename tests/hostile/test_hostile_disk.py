"""A disk that is full, in use, or not for writing: said in a sentence, and nothing else suffers."""

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chaos import talk
from tests.chaos.broker_process import BrokerProcess
from tests.hostile.stranger import Stranger

from barnabas.link.sync import Link

_BATCH = talk.batch_of(bytes(200 * 1024))
_ROOM = 1024 * 1024

needs_mounts = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")


def _fill(link: Link, topic: str) -> int:
    """Produce until the broker refuses; how many batches it took."""
    refusal, taken = "", 0
    while not refusal:
        try:
            talk.produce(link, (topic, 0), _BATCH)
            taken += 1
        except talk.RefusedError as error:
            refusal = str(error)
    assert refusal == "KAFKA_STORAGE_ERROR"
    return taken


def _readable(link: Link, topic: str) -> int:
    """Reads a topic from start to end; how many batches there are."""
    end = talk.offset_of(link, (topic, 0), -1)
    for offset in range(end):
        assert talk.fetch(link, (topic, 0), offset, 1)[61:] == _BATCH[61:]
    return end


def test_a_file_that_can_not_grow(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands in for a full disk: for one topic, until the limit is taken away."""
    with BrokerProcess(tmp_path, file_bytes_max=_ROOM) as broker:
        broker.start()
        with broker.link() as link:
            talk.create_topic(link, "full")
            talk.create_topic(link, "other")
            taken = _fill(link, "full")
            assert taken > 0
            assert _readable(link, "full") == taken
            assert talk.produce(link, ("other", 0), _BATCH) == 0
            assert _readable(link, "other") == 1
            free = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, free)
            assert talk.produce(link, ("full", 0), _BATCH) == taken
            assert _readable(link, "full") == taken + 1
        assert broker.terminate() == 0
        assert "Traceback" not in broker.log_text()
        broker.start()
        with broker.link() as link:
            assert _readable(link, "full") == taken + 1
        assert broker.log_text() == ""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few mebibytes."""
    place = tmp_path / "small"
    place.mkdir()
    _mount("-t", "tmpfs", "-o", "size=6m", "tmpfs", str(place))
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")


@needs_mounts
@pytest.mark.parametrize("config", [{}, {"flush.messages": "1"}], ids=["default", "synced"])
def test_a_full_disk(tmp_path: Path, small_disk: Path, config: dict[str, str]) -> None:
    with BrokerProcess(tmp_path, data=small_disk / "data") as broker:
        broker.start()
        with broker.link() as link:
            talk.create_topic(link, "first", 1, config)
            talk.create_topic(link, "second", 1, config)
            assert talk.produce(link, ("second", 0), _BATCH) == 0
            taken = _fill(link, "first")
            assert taken > 5
            with pytest.raises(talk.RefusedError, match="KAFKA_STORAGE_ERROR"):
                talk.produce(link, ("second", 0), _BATCH)
            assert _readable(link, "first") == taken
            assert _readable(link, "second") == 1
            _mount("-o", "remount,size=64m", str(small_disk))
            assert talk.produce(link, ("first", 0), _BATCH) == taken
            assert talk.produce(link, ("second", 0), _BATCH) == 1
            assert _readable(link, "first") == taken + 1
        assert broker.terminate() == 0
        assert "Traceback" not in broker.log_text()
        broker.start()
        with broker.link() as link:
            assert _readable(link, "first") == taken + 1


@needs_mounts
def test_topics_on_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    """No topic can be made; those that exist are served; making room makes new ones possible."""
    with BrokerProcess(tmp_path, data=small_disk / "data") as broker:
        broker.start()
        filler = small_disk / "filler"
        with broker.link() as link:
            talk.create_topic(link, "before")
            assert talk.produce(link, ("before", 0), _BATCH) == 0
            _fill_with(filler)
            for number in range(3):
                with pytest.raises(talk.RefusedError, match=r"KAFKA_STORAGE_ERROR|UNKNOWN_SERVER"):
                    talk.create_topic(link, f"never-{number}")
            assert _readable(link, "before") == 1
            filler.unlink()
            talk.create_topic(link, "after")
            assert talk.produce(link, ("after", 0), _BATCH) == 0
            assert talk.produce(link, ("before", 0), _BATCH) == 1
        assert broker.terminate() == 0
        assert "Traceback" not in broker.log_text()
        broker.start()
        with broker.link() as link:
            assert _readable(link, "after") == 1
            assert _readable(link, "before") == 2


@needs_mounts
def test_new_logs_on_a_disk_without_room_for_files(tmp_path: Path, small_disk: Path) -> None:
    """Only the partitions that found no room are offline, and only until the next start."""
    _mount("-o", "remount,nr_inodes=200", str(small_disk))
    fillers = small_disk / "fillers"
    fillers.mkdir()
    with BrokerProcess(tmp_path, data=small_disk / "data") as broker:
        broker.start()
        with broker.link() as link:
            talk.create_topic(link, "before")
            _take_all_inodes(fillers, spare=10)
            talk.create_topic(link, "half", 20)
            errors = {row["error_code"] for row in talk.topics(link)["half"]["partitions"]}
            assert errors == {"NONE", "LEADER_NOT_AVAILABLE"}
            with pytest.raises(talk.RefusedError, match="KAFKA_STORAGE_ERROR"):
                talk.produce(link, ("half", 19), _BATCH)
            assert talk.produce(link, ("before", 0), _BATCH) == 0
            assert _readable(link, "before") == 1
            for filler in fillers.iterdir():
                filler.unlink()
        broker.terminate()
        assert "Traceback" not in broker.log_text()
        broker.start()
        with broker.link() as link:
            assert talk.produce(link, ("half", 19), _BATCH) == 0
            assert _readable(link, "before") == 1


def _take_all_inodes(folder: Path, spare: int) -> None:
    number = 0
    try:
        while True:
            (folder / str(number)).touch()
            number += 1
    except OSError:
        for unwanted in range(number - spare, number):
            (folder / str(unwanted)).unlink()


def _fill_with(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def _failed_start(broker: BrokerProcess) -> str:
    """What a broker says that can not start."""
    broker.spawn()
    assert broker.reap() == 1
    said = broker.log_text()
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) == 1, said
    return said


def test_a_data_directory_in_use(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with (
        BrokerProcess(tmp_path / "one", data=data) as first,
        BrokerProcess(tmp_path / "two", data=data) as second,
    ):
        first.start()
        said = _failed_start(second)
        assert str(data) in said
        assert "in use" in said
        with first.link() as link:
            talk.create_topic(link, "still-served")
        first.kill()
        second.start()
        with second.link() as link:
            assert "still-served" in talk.topics(link)


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "one") as first:
        first.start()
        with BrokerProcess(tmp_path / "two", port=first.port) as second:
            said = _failed_start(second)
            assert str(first.port) in said
            assert "in use" in said
        with Stranger(first.port) as stranger:
            assert stranger.outcome(b"") == []


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory")
    with BrokerProcess(tmp_path) as broker:
        assert "data" in _failed_start(broker)
    assert (tmp_path / "data").read_text() == "not a directory"


def test_a_data_directory_that_can_not_be_written(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    if os.geteuid() == 0:
        _mount("-t", "tmpfs", "-o", "ro", "tmpfs", str(data))
    else:
        data.chmod(0o555)
    try:
        with BrokerProcess(tmp_path) as broker:
            assert str(data) in _failed_start(broker)
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", "-l", str(data)], check=True)
        else:
            data.chmod(0o755)
