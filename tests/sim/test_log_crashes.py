"""Logs through kills and power cuts: many seeds keep every promise, planted mistakes do not.

`make test-sim SEEDS=0-5000` (or BARNABAS_SEEDS=0-5000) tells more stories; one seed alone is
told again by `make test-sim SEEDS=123-123`.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import NoReturn

import pytest

from barnabas.log import checkpoints, recovery, store
from barnabas.log import log as log_module
from barnabas.log.log import Appended, PartitionLog
from barnabas.log.producers import ProducerStates
from barnabas.log.recovery import DamagedLogError, LogPlace
from barnabas.log.segment import Segment
from barnabas.log.store import LogStore
from barnabas.log.syncing import SyncJob, Unsynced
from barnabas.model.check import BrokenInvariantError
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import TopicPartition
from barnabas.ports.files import Files
from barnabas.replica.partition import Partition
from barnabas.sim.log_crashes import Story, tell
from barnabas.wire.records.batch import BatchHeader, Buffer

PINNED = (
    0, 1, 2, 3, 4, 5, 6, 12, 17, 20, 25, 31, 69, 74, 96, 116, 220, 231, 327, 758
)  # fmt: skip
"""Each caught a mistake: 758 a real one (a torn snapshot was not renewed), the others planted."""

_FIRST, _LAST = map(int, os.environ.get("BARNABAS_SEEDS", "0-299").split("-"))
_CHUNK = 50
CHUNKS = [
    range(start, min(start + _CHUNK, _LAST + 1)) for start in range(_FIRST, _LAST + 1, _CHUNK)
]
SEEDS_TO_CATCH = 1_000
"""Of so many stories at least one must notice a planted mistake."""

CAUGHT = (BrokenInvariantError, KafkaError, DamagedLogError)
"""How a broken promise shows: in the model, to a client, or at start."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Every cut is logged, and there are thousands of them."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def told(seed: int) -> Story:
    """The story of a seed; its failure says how to see it again."""
    try:
        return tell(seed)
    except BaseException as error:
        error.add_note(f"replay it with: make test-sim SEEDS={seed}-{seed}")
        raise


@pytest.mark.parametrize("seed", PINNED)
def test_a_seed_that_once_caught_something_keeps_every_promise(seed: int) -> None:
    assert told(seed).tally["batches"] > 0


@pytest.mark.parametrize("seeds", CHUNKS, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_every_promise_is_kept(seeds: range) -> None:
    for seed in seeds:
        told(seed)


def test_the_stories_have_in_them_what_they_are_about() -> None:
    sums: dict[str, int] = {}
    for seed in range(40):
        for what, count in told(seed).tally.items():
            sums[what] = sums.get(what, 0) + count
    assert sums["crashes"] > 40
    assert sums["cut"] > 40
    assert sums["repeats"] > 200
    assert sums["batches"] > 2_000


@pytest.mark.parametrize("seed", [7, 8, 9])
def test_the_same_seed_tells_the_same_story(seed: int) -> None:
    first, second = told(seed), told(seed)
    assert first.files.trace.digest() == second.files.trace.digest()
    assert first.tally == second.tally
    assert first.files.trace.digest() != told(seed + 1).files.trace.digest()


# --- mistakes to be caught -------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def _sync_job_without_names(patch: pytest.MonkeyPatch) -> None:
    honest = PartitionLog.sync_job

    def sync_job(self: PartitionLog) -> SyncJob | None:
        job = honest(self)
        if job is None:
            return None
        run, files = job.run, type(self.files)

        def run_without_names() -> None:
            with pytest.MonkeyPatch.context() as inner:
                inner.setattr(files, "sync_dir", lambda _files, _path: None)
                run()

        return replace(job, run=run_without_names)

    patch.setattr(PartitionLog, "sync_job", sync_job)


def _sync_job_without_sync(patch: pytest.MonkeyPatch) -> None:
    honest = PartitionLog.sync_job

    def sync_job(self: PartitionLog) -> SyncJob | None:
        job = honest(self)
        return job and replace(job, run=lambda: None)

    patch.setattr(PartitionLog, "sync_job", sync_job)


def _side_files_left_unsynced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unsynced, "_side_files", lambda _unsynced: [])


def _sync_that_counts_later_appends(patch: pytest.MonkeyPatch) -> None:
    honest = PartitionLog.synced

    def synced(self: PartitionLog, job: SyncJob) -> None:
        honest(self, replace(job, target=self.end_offset))

    patch.setattr(PartitionLog, "synced", synced)


def _acknowledged_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    honest = Partition.append

    def append(
        self: Partition, records: memoryview, header: BatchHeader, now_ms: int
    ) -> tuple[Appended, "asyncio.Future[None] | None"]:
        appended, _ = honest(self, records, header, now_ms)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return appended, done

    patch.setattr(Partition, "append", append)


def _recovery_without_checksums(patch: pytest.MonkeyPatch) -> None:
    def problem_of(_buffer: Buffer, _position: int, header: BatchHeader) -> str | None:
        return None if header.magic == 2 else "another magic"

    patch.setattr(recovery, "problem_of", problem_of)


def _recovery_that_trusts_indexes(patch: pytest.MonkeyPatch) -> None:
    def recover(log: PartitionLog, _place: LogPlace, now_ms: int) -> None:
        recovery._trust(log, now_ms)

    patch.setattr(recovery, "_recover", recover)


def _recovery_without_snapshots(patch: pytest.MonkeyPatch) -> None:
    honest_recover, honest_write = recovery._recover, PartitionLog.write_snapshot

    def recover(log: PartitionLog, place: LogPlace, now_ms: int) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(PartitionLog, "write_snapshot", lambda _log, *, sync=False: None)
            honest_recover(log, place, now_ms)
        assert PartitionLog.write_snapshot is honest_write

    patch.setattr(recovery, "_recover", recover)


def _recovery_that_keeps_what_follows_a_cut(patch: pytest.MonkeyPatch) -> None:
    def remove_segments(log: PartitionLog, slot: int) -> None:
        log.keep_segments(slot)

    patch.setattr(recovery, "_remove_segments", remove_segments)


def _recovery_that_takes_names_for_synced(patch: pytest.MonkeyPatch) -> None:
    honest = recovery._recover_segment

    def recover_segment(log: PartitionLog, segment: Segment, place: LogPlace, now_ms: int) -> bool:
        segment.name_synced = True
        return honest(log, segment, place, now_ms)

    patch.setattr(recovery, "_recover_segment", recover_segment)


def _producers_forgotten_at_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(log_module, "restored_producers", lambda *_: ProducerStates())


def _segments_removed_in_any_order(patch: pytest.MonkeyPatch) -> None:
    honest = LogStore.drop_segments

    def drop_segments(self: LogStore, log: PartitionLog, segments: list[Segment]) -> None:
        honest(self, log, segments)
        remove = self._doomed[-1].remove

        def remove_without_order() -> None:
            with pytest.MonkeyPatch.context() as inner:
                inner.setattr(type(self.files), "sync_dir", lambda _files, _path: None)
                remove()

        self._doomed[-1].remove = remove_without_order

    patch.setattr(LogStore, "drop_segments", drop_segments)


def _snapshots_removed_before_their_segments(patch: pytest.MonkeyPatch) -> None:
    honest = PartitionLog.drop

    def drop(self: PartitionLog, segments: list[Segment]) -> None:
        honest(self, segments)
        self.remove_snapshots_below(self.segments[0].base_offset)

    patch.setattr(PartitionLog, "drop", drop)


def _clean_mark_that_stays(patch: pytest.MonkeyPatch) -> None:
    honest = checkpoints.read_offsets

    def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
        files.replace(path.rpartition("/")[0] + "/.kafka_cleanshutdown", b"")
        return honest(files, path)

    patch.setattr(store, "read_offsets", read_offsets)


def _partial_writes_left_in_place(patch: pytest.MonkeyPatch) -> None:
    def undo(_log: PartitionLog, _segment: Segment, error: OSError) -> NoReturn:
        raise KafkaError(ErrorCode.kafka_storage_error) from error

    patch.setattr(PartitionLog, "_undo_partial_write", undo)


@pytest.mark.parametrize(
    ("plant", "first"),
    [
        (_sync_job_without_names, 0),
        (_sync_job_without_sync, 0),
        (_side_files_left_unsynced, 0),
        (_sync_that_counts_later_appends, 0),
        (_acknowledged_before_the_sync, 0),
        (_recovery_without_checksums, 0),
        (_recovery_that_trusts_indexes, 0),
        (_recovery_without_snapshots, 0),
        (_recovery_that_keeps_what_follows_a_cut, 0),
        (_recovery_that_takes_names_for_synced, 60),
        (_producers_forgotten_at_start, 0),
        (_segments_removed_in_any_order, 80),
        (_snapshots_removed_before_their_segments, 310),
        (_clean_mark_that_stays, 0),
        (_partial_writes_left_in_place, 200),
    ],
)
def test_a_planted_mistake_is_caught(
    plant: Plant, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`first` is where to look first; when the code has changed, another seed may be the one."""
    plant(monkeypatch)
    seeds = chain(range(first, first + 40), range(SEEDS_TO_CATCH))
    assert any(_is_caught(seed) for seed in seeds)


def _is_caught(seed: int) -> bool:
    try:
        tell(seed)
    except CAUGHT:
        return True
    return False


def test_a_failure_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _sync_job_without_sync(monkeypatch)
    with pytest.raises(BrokenInvariantError) as failure:
        told(0)
    assert failure.value.__notes__ == ["replay it with: make test-sim SEEDS=0-0"]
