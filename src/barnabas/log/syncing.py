"""Making a log durable: what has to reach the disk, in which order, and what may be tried again."""

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.log import names
from barnabas.log.segment import Segment
from barnabas.ports.files import File, Files


class SyncPostponedError(OSError):
    """There was no room to write what must be there first; no page was lost, try again later."""


@dataclass(slots=True)
class SyncJob:
    """Everything below `target` becomes durable when `run` returns."""

    target: int
    since_ms: int | None
    run: Callable[[], None]
    fresh: list[Segment]
    """Segments with new names (their own, or their indexes')."""
    active: Segment


@dataclass(slots=True, kw_only=True)
class Unsynced:
    """What a log has written and not synced."""

    files: Files
    directory: str
    epochs: bytes | None
    segments: list[Segment]
    active: Segment
    new_directory: bool

    def job(self, target: int, since_ms: int | None) -> SyncJob:
        """A job for all of it; the handles are taken now, on the loop."""
        fresh = [segment for segment in self.segments if not segment.name_synced]
        handles = [(segment, segment.file) for segment in self.segments]
        side_files = self._side_files()

        def run() -> None:
            if self.epochs is not None:
                _write_epochs(self.files, f"{self.directory}/{names.EPOCHS}", self.epochs)
            for segment, handle in handles:
                _sync_unless_removed(segment, handle)
            for path in side_files:
                _sync_if_there(self.files, path)
            if fresh:
                self.files.sync_dir(self.directory)
            if self.new_directory:
                self.files.sync_dir(self.directory.rpartition("/")[0])

        return SyncJob(target, since_ms, run, fresh, self.active)

    def _side_files(self) -> list[str]:
        """What recovery believes below the recovery point must be as durable as the data."""
        rolled = [segment for segment in self.segments if segment is not self.active]
        paths = [s.path(suffix) for s in rolled for suffix in names.INDEX_SUFFIXES]
        paths += [segment.path(names.SNAPSHOT) for segment in self.segments]
        if self.new_directory:
            paths.append(f"{self.directory}/{names.PARTITION_METADATA}")
        return paths


def _write_epochs(files: Files, path: str, epochs: bytes) -> None:
    try:
        files.replace(path, epochs)
    except OSError as error:
        raise SyncPostponedError(error.errno, f"{path} could not be written: {error}") from error


def _sync_unless_removed(segment: Segment, handle: File) -> None:
    """Retention may remove a segment while a job waits for its turn: nothing is lost by that."""
    try:
        handle.sync()
    except OSError:
        if not segment.is_closed:
            raise


def _sync_if_there(files: Files, path: str) -> None:
    try:
        file = files.open(path)
    except FileNotFoundError:
        return
    try:
        file.sync()
    finally:
        file.close()
