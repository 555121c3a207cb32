"""Writers that are killed, that meet, and that run out of disk: nothing half-written stays."""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tests.spark.tables.oracles import delta_rows, visible
from tests.spark.tables.plain import (
    FILES_OF_A_BATCH,
    current,
    data_file,
    new_table,
    whole_batches,
    write_batch,
)

from barnabas.spark.tables import checkpoints
from barnabas.spark.tables.files import vacuum, writing_alone
from barnabas.spark.tables.log import TableLog
from barnabas.spark.tables.snapshot import (
    Batch,
    BatchIsIn,
    TableBusyError,
    TableDiskError,
    TableError,
)

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _tests_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By processes that are spawned, too: they look where this one looks."""
    monkeypatch.syspath_prepend(str(ROOT))


def test_killed_again_and_again(tmp_path: Path) -> None:
    folder = str(tmp_path / "table")
    new_table(folder)
    program = subprocess.run(
        [sys.executable, "-m", "tests.spark.tables.killing", folder],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert program.returncode == 0, program.stderr
    batches = whole_batches(current(folder))
    assert batches > checkpoints.EVERY_VERSIONS, "no checkpoint was killed"
    with writing_alone(folder):
        assert visible(folder) == set(current(folder).files)
    rows = sorted(row["n"] for row in delta_rows(folder))
    assert rows == sorted(list(range(batches)) * FILES_OF_A_BATCH)
    assert vacuum(folder, 0) == 0


def _race(folder: str, who: int, commits: int, results: Connection) -> None:
    log = TableLog(folder)
    in_already = 0
    for number in range(commits):
        base = log.snapshot()
        assert base is not None
        log.commit(base, add=[data_file(f"p=x/{who}-{number}.parquet")], operation="WRITE")
        try:
            shared = data_file(f"p=x/shared-{who}-{number}.parquet")
            log.commit(base, add=[shared], batch=Batch("both", number), operation="WRITE")
        except BatchIsIn:
            in_already += 1
    results.send(in_already)


def test_writers_who_race(tmp_path: Path) -> None:
    folder = str(tmp_path / "table")
    new_table(folder)
    commits, writers = 25, 3
    context = multiprocessing.get_context("spawn")
    started = []
    for who in range(writers):
        ours, theirs = context.Pipe(False)
        process = context.Process(target=_race, args=(folder, who, commits, theirs))
        process.start()
        started.append((process, ours))
    in_already = []
    for process, ours in started:
        in_already.append(ours.recv())
        process.join()
    snapshot = current(folder)
    shared = [path for path in snapshot.files if "shared" in path]
    # Each batch of the shared application is in exactly once, whoever brought it.
    assert len(shared) == commits == writers * commits - sum(in_already)
    assert len(snapshot.files) == (writers + 1) * commits
    assert snapshot.version == len(snapshot.files)
    assert snapshot.transactions == {"both": commits - 1}


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    folder = str(tmp_path / "table")
    new_table(folder)
    with writing_alone(folder) as writer:
        staged = writer.stage()
        with (
            pytest.raises(TableBusyError, match="Somebody else has been writing to the table"),
            writing_alone(folder, wait_s=0),
        ):
            pass
        assert os.path.isdir(os.path.dirname(staged))
        write_batch(writer, 0)
    with writing_alone(folder, wait_s=0) as writer:
        write_batch(writer, 1)
    assert whole_batches(current(folder)) == 2


def test_what_fails_between_publishing_and_the_commit_goes(tmp_path: Path) -> None:
    folder = str(tmp_path / "table")
    new_table(folder)
    with writing_alone(folder) as writer:
        write_batch(writer, 0)

    def fail() -> None:
        if len(visible(folder)) > FILES_OF_A_BATCH:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), writing_alone(folder) as writer:
        write_batch(writer, 1, fail)
    assert visible(folder) == set(current(folder).files)
    taken = next(iter(current(folder).files))
    with writing_alone(folder) as writer:
        staged = writer.stage()
        os.makedirs(staged)
        Path(staged, "x").write_text("x")
        with pytest.raises(TableError, match=r"has a file .* already"):
            writer.publish(staged, {"x": taken})
    assert visible(folder) == set(current(folder).files)


def test_unused_files_go_when_their_versions_have_gone(tmp_path: Path) -> None:
    folder = str(tmp_path / "table")
    snapshot = new_table(folder)
    log_folder = os.path.join(folder, "_delta_log")
    with writing_alone(folder) as writer:
        for number in range(checkpoints.EVERY_VERSIONS + 5):
            write_batch(writer, number)
            snapshot = writer.log.commit(
                current(folder), remove=list(current(folder).files)[:2], operation="DELETE"
            )
    assert vacuum(folder, 0) == 0
    assert checkpoints.remove_old_versions(log_folder) == 0
    assert checkpoints.remove_old_versions(log_folder, kept_min=3, kept_s=0) == 40
    unused = len(visible(folder)) - len(TableLog(folder).kept_paths())
    assert vacuum(folder, 3600) == 0
    assert vacuum(folder, 0) == unused == 40
    assert visible(folder) == TableLog(folder).kept_paths() > set(snapshot.files)
    assert len(delta_rows(folder)) == snapshot.rows == len(snapshot.files)
    assert os.path.isdir(os.path.join(folder, "p=x"))


def test_a_removal_of_old_versions_that_was_killed_costs_no_file(tmp_path: Path) -> None:
    """Between versions and checkpoints: an old one is left, from which no version goes on."""
    folder = str(tmp_path / "table")
    new_table(folder)
    with writing_alone(folder) as writer:
        for number in range(45):
            write_batch(writer, number)
    log_folder = tmp_path / "table" / "_delta_log"
    old = log_folder / checkpoints.checkpoint_name(20)
    content = old.read_bytes()
    assert checkpoints.remove_old_versions(str(log_folder), kept_min=3, kept_s=0) == 40
    assert not old.exists()
    old.write_bytes(content)
    assert vacuum(folder, 0) == 0
    assert visible(folder) == set(current(folder).files)
    assert len(delta_rows(folder)) == current(folder).rows


def _write_with_little_room(folder: str, limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    log = TableLog(folder)
    base = log.snapshot()
    assert base is not None
    many = [data_file(f"p=x/{number}.parquet") for number in range(1000)]
    try:
        log.commit(base, add=many, operation="WRITE")
    except TableDiskError as problem:
        os._exit(17 if "File too large" in str(problem) else 2)
    os._exit(1)


def test_a_commit_for_which_there_is_no_room(tmp_path: Path) -> None:
    folder = str(tmp_path / "table")
    before = new_table(folder)
    process = multiprocessing.get_context("spawn").Process(
        target=_write_with_little_room, args=(folder, 4096)
    )
    process.start()
    process.join()
    assert process.exitcode == 17
    assert os.listdir(os.path.join(folder, "_delta_log")) == ["00000000000000000000.json"]
    assert TableLog(folder).snapshot() == before
