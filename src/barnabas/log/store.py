"""All logs of one data directory: the lock, the checkpoints, the clean-stop mark, deletions."""

import base64
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from barnabas.config.topic_config import TopicConfig
from barnabas.log import names
from barnabas.log.attention import Attention
from barnabas.log.checkpoints import CheckpointError, read_offsets, write_offsets
from barnabas.log.folder import ListedFolder
from barnabas.log.log import PartitionLog
from barnabas.log.recovery import LogPlace, load_log
from barnabas.log.rewriting import rewrite
from barnabas.log.segment import Segment
from barnabas.log.strays import ended_before
from barnabas.log.undecided import recall_undecided
from barnabas.model.errors import BarnabasError
from barnabas.model.stops import Stop
from barnabas.model.topics import TopicPartition, parse_directory
from barnabas.ports.clock import Clock
from barnabas.ports.entropy import Entropy
from barnabas.ports.files import AlreadyLockedError, Files

logger = logging.getLogger(__name__)

_NOWHERE: Final[Mapping[TopicPartition, tuple[uuid.UUID, int]]] = {}
_CLEAN_MARK = b'{"version":0,"brokerEpoch":-1}'


@dataclass(slots=True)
class Doomed:
    """Files waiting out `file.delete.delay.ms`, in case somebody still reads them."""

    due_s: float
    remove: Callable[[], None]


class LogStore:
    """The data directory, held by one broker at a time."""

    def __init__(self, files: Files, root: str, clock: Clock, entropy: Entropy) -> None:
        self.files = files
        self._entropy = entropy
        self.root = root.rstrip("/") or "/"
        self._clock = clock
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._unopened: set[TopicPartition] = set()
        """Damaged logs: as long as there are any, no stop is a clean one."""
        self.attention = Attention()
        self._closed: set[TopicPartition] = set()
        self._sound = True
        """Whether every log that was closed so far was closed cleanly."""
        self._doomed: list[Doomed] = []
        self._checkpoints_begun = 0
        self._checkpoints_written = 0
        self._checkpoint_lock = threading.Lock()
        self._mark_lock = threading.Lock()
        _make_durably(files, self.root)
        try:
            self._lock = files.lock(f"{self.root}/{names.LOCK}")
        except AlreadyLockedError as error:
            raise BarnabasError(
                f"The data directory {self.root} is in use by another broker: stop that one, or "
                "choose another directory (log.dirs, or --data)."
            ) from error
        try:
            self._is_marked = files.exists(f"{self.root}/{names.CLEAN_SHUTDOWN}")
            self.last_stop = self._how_it_was_left()
            self._recovery_points = self._checkpoint(names.RECOVERY_POINTS)
            self._knows_starts = files.exists(f"{self.root}/{names.LOG_STARTS}")
            self._starts = self._checkpoint(names.LOG_STARTS)
            self._committed = self._checkpoint(names.HIGH_WATERMARKS)
            self.cleaned_to = self._checkpoint(names.CLEANER_OFFSETS)
            """Up to where compaction has got with each log."""
            self._sweep_deleted()
        except BaseException:
            self._lock.release()
            raise
        self._checkpointed = self._recovery_points.keys() | self._starts.keys()
        self._checkpointed |= self.cleaned_to.keys()
        """Of which partitions the files speak."""
        self._cleaned_written = dict(self.cleaned_to)
        self._committed_written = dict(self._committed)

    def _how_it_was_left(self) -> Stop:
        if self._is_marked:
            return Stop.CLEAN
        boot = self.files.boot(self.root)
        return Stop.KILLED if boot and boot == self._marked_boot() else Stop.LOSSY

    def _marked_boot(self) -> str:
        path = f"{self.root}/{names.BOOT}"
        return self.files.read(path).decode(errors="replace") if self.files.exists(path) else ""

    @property
    def clean(self) -> bool:
        """Whether the last life stopped in an orderly way."""
        return self.last_stop is Stop.CLEAN

    def has_noted(self, partition: TopicPartition) -> bool:
        """Whether the checkpoints speak of a log, be it there or not."""
        return partition in self._checkpointed

    def mark_boot(self) -> None:
        """Whatever this directory may have lost so far is found, and everybody knows: from here on
        only another run of the system can have lost more."""
        boot = self.files.boot(self.root)
        if boot and boot != self._marked_boot():
            self.files.replace(f"{self.root}/{names.BOOT}", boot.encode())

    def distrust(self) -> None:
        """The disk has failed: what was written may be gone though the system runs on."""
        try:
            if self.files.exists(f"{self.root}/{names.BOOT}"):
                self.files.remove(f"{self.root}/{names.BOOT}")
        except OSError as error:
            logger.error("that %s can not be trusted could not be noted: %s", self.root, error)

    def _take_mark(self) -> None:
        """From the first log on, things change: the last stop's mark is no longer true."""
        with self._mark_lock:
            if self._is_marked:
                self.files.remove(f"{self.root}/{names.CLEAN_SHUTDOWN}")
                self.files.sync_dir(self.root)
                self._is_marked = False

    def _checkpoint(self, name: str) -> dict[TopicPartition, int]:
        path = f"{self.root}/{name}"
        try:
            return read_offsets(self.files, path)
        except CheckpointError as error:
            # Without recovery points every batch is checked; that is slow, and safe.
            logger.warning("%s is left out: it holds %s", path, error)
            if name == names.LOG_STARTS:
                self._knows_starts = False
            return {}

    def _sweep_deleted(self) -> None:
        """What an earlier life deleted and had no time to remove goes with what this one deletes:
        nobody has to wait for it."""
        for name in self.files.list(self.root):
            if name.endswith(names.DELETE_DIRECTORY):
                remove = partial(self.files.remove_tree, f"{self.root}/{name}")
                self._doomed.append(Doomed(self._clock.monotonic(), remove))

    def committed(self, partition: TopicPartition) -> int:
        """A high watermark that the partition once had; 0 if none is known."""
        return self._committed.get(partition, 0)

    def directory(self, partition: TopicPartition) -> str:
        """Where a partition's files lie."""
        return f"{self.root}/{partition.directory}"

    def forget(self, partitions: Iterable[TopicPartition]) -> Callable[[], None] | None:
        """Partitions of these names will begin anew: what the checkpoints say of older ones of
        the same name must go first. On the loop; the job, if any, has to be done before `open`."""
        gone = set(partitions)
        for partition in gone:
            self._forget(partition)
        # A checkpoint that is on its way may speak of them too.
        is_under_way = self._checkpoints_begun != self._checkpoints_written
        return self.checkpoint_job() if is_under_way or gone & self._checkpointed else None

    def open(
        self,
        partition: TopicPartition,
        topic_id: uuid.UUID,
        config: TopicConfig,
        *,
        alone: bool = True,
    ) -> PartitionLog:
        """Open a partition's log, or begin one; `alone`: there are no other replicas, so what is
        in it is committed. May take long: run it off the loop."""
        self._take_mark()
        directory = self.directory(partition)
        self._enter(partition, topic_id)
        folder = ListedFolder(self.files, directory)
        place = LogPlace(
            folder,
            directory,
            partition,
            config,
            recovery_point=self._recovery_points.get(partition, 0),
            start_offset=self._starts.get(partition, 0),
            stop=self.last_stop,
            knows_start=self._knows_starts,
        )
        self._unopened.add(partition)
        log = load_log(place, self._clock.wall_ms())
        if not alone:
            recall_undecided(log, self.committed(partition), self._clock.wall_ms())
        folder.forget()
        self._unopened.discard(partition)
        if config.flush_messages == 1:
            # What is served from such a log survives power loss; a kill left some of it unsynced.
            _sync(log)
        self.logs[partition] = log
        log.was_cleaned = partition in self.cleaned_to
        log.draw_attention = self.attention.draw
        log.rewrite_recovery_point = self._checkpoint_now
        self.attention.draw(partition)
        return log

    def _enter(self, partition: TopicPartition, topic_id: uuid.UUID) -> None:
        """Make sure that the folder is there, and this topic's; one of an older topic of that name
        is kept, under another name."""
        directory = self.directory(partition)
        path = f"{directory}/{names.PARTITION_METADATA}"
        wanted = f"version: 0\ntopic_id: {topic_id_text(topic_id)}\n".encode()
        try:
            found = self.files.read(path)
        except FileNotFoundError:
            found = b""
        if found == wanted:
            return
        ids = _topic_ids(found)
        if ids and ids[0] != topic_id_text(topic_id):
            self._set_aside(partition, names.STRAY_DIRECTORY)
            self._forget(partition)
        if not self.files.exists(directory):
            self._begin(partition, directory)
        rewrite(self.files, path, wanted)

    def _topic_ids_in(self, directory: str) -> list[str]:
        try:
            return _topic_ids(self.files.read(f"{directory}/{names.PARTITION_METADATA}"))
        except FileNotFoundError:
            return []

    def _begin(self, partition: TopicPartition, directory: str) -> None:
        """Make a folder; what the checkpoints say of an older topic of that name must go first."""
        if partition in self._checkpointed:
            self._forget(partition)
            self.checkpoint_job()()
        self.files.make_dirs(directory)

    def clear_strays(
        self,
        known: set[TopicPartition],
        elsewhere: Mapping[TopicPartition, tuple[uuid.UUID, int]] = _NOWHERE,
    ) -> list[Doomed]:
        """Rename the folders of partitions that are not `known` to live here, and keep them; but
        those that were moved away while nobody was here go, by way of `doom`.

        `elsewhere`: the topic and the leader epoch of partitions that other brokers have."""
        for unknown in self._checkpointed - known:
            self._forget(unknown)
        doomed = []
        for name in self.files.list(self.root):
            partition = parse_directory(name)
            if partition is None or partition in known:
                continue
            topic_id, epoch = elsewhere.get(partition, (None, 0))
            directory = self.directory(partition)
            is_its = topic_id and self._topic_ids_in(directory) == [topic_id_text(topic_id)]
            if is_its and ended_before(self.files, directory, epoch):
                logger.info("%s was moved to other brokers and is removed", name)
                target = self._set_aside(partition, names.DELETE_DIRECTORY)
                remove = partial(self.files.remove_tree, target)
                doomed.append(Doomed(self._clock.monotonic(), remove))
            else:
                logger.warning("%s is of no partition that should be here: it is set aside", name)
                self._set_aside(partition, names.STRAY_DIRECTORY)
        return doomed

    def _set_aside(self, partition: TopicPartition, suffix: str) -> str:
        target = f"{self.root}/{partition.directory[:200]}.{self._entropy.uuid().hex}{suffix}"
        self.files.rename(self.directory(partition), target)
        return target

    def delete(self, partition: TopicPartition) -> None:
        """The partition is gone at once; its files go after `file.delete.delay.ms`."""
        self.doom(self.set_deleted_aside([partition]))

    def set_deleted_aside(self, partitions: Iterable[TopicPartition]) -> list[Doomed]:
        """Rename the folders of deleted partitions; off the loop, where there are many.

        What is left of them is for `doom`, which belongs to the loop.
        """
        return [gone for each in partitions if (gone := self._set_deleted_aside(each)) is not None]

    def _set_deleted_aside(self, partition: TopicPartition) -> Doomed | None:
        log = self.logs.pop(partition, None)
        if log is None and partition not in self._unopened:
            return None
        self._forget(partition)
        if log is not None:
            log.fail("the topic was deleted")
        try:
            target = self._set_aside(partition, names.DELETE_DIRECTORY)
        except FileNotFoundError:
            logger.warning("%s had been removed already", self.directory(partition))
            return None

        def remove() -> None:
            if log is not None:
                log.close(clean=False)
            self.files.remove_tree(target)

        delay_ms = 0 if log is None else log.config.file_delete_delay_ms
        return Doomed(self._clock.monotonic() + delay_ms / 1000, remove)

    def holds(self, partition: TopicPartition, topic_id: uuid.UUID) -> bool:
        """Whether there is a folder of that very partition, as far as anybody can tell."""
        directory = self.directory(partition)
        if not self.files.exists(directory):
            return False
        ids = self._topic_ids_in(directory)
        return not ids or ids[0] == topic_id_text(topic_id)

    def note_damage(self, log: PartitionLog, what: str) -> None:
        """Remember for later lives that a log is damaged; off the loop."""
        self.files.replace(f"{log.directory}/{names.DAMAGE}", what.encode())

    def set_damaged_aside(self, partition: TopicPartition) -> str:
        """Give the folder of a damaged log another name, for good, and keep it: which. Off the
        loop, and only while nobody writes to it."""
        log = self.logs.pop(partition, None)
        self._forget(partition)
        if log is not None:
            log.fail("it is damaged")
        target = self._set_aside(partition, names.DAMAGED_DIRECTORY)
        self.files.sync_dir(self.root)
        if log is not None:
            log.close(clean=False)
        return target

    def doom(self, doomed: Iterable[Doomed]) -> None:
        """Remove these when their time has come."""
        self._doomed += doomed

    def _forget(self, partition: TopicPartition) -> None:
        self._unopened.discard(partition)
        self._starts.pop(partition, None)
        self._committed.pop(partition, None)
        self._recovery_points.pop(partition, None)
        self.cleaned_to.pop(partition, None)

    def drop_segments(self, log: PartitionLog, segments: list[Segment]) -> None:
        """Let retention's segments go: out of the log now, off the disk later."""
        log.drop(segments)
        begins_at = log.segments[0].base_offset

        def remove() -> None:
            for segment in segments:
                segment.close()
                segment.remove_files()
                if self.files.exists(log.directory):
                    # The oldest first, for good: power loss must not bring one back alone, since
                    # a log with a hole would look as if it ended there.
                    self.files.sync_dir(log.directory)
            log.remove_snapshots_below(begins_at)

        self.discard(log, segments, remove)

    def discard(
        self, log: PartitionLog, segments: Sequence[Segment], remove: Callable[[], None]
    ) -> None:
        """Have files of former segments of a log removed, which somebody may still be reading."""
        due_s = self._clock.monotonic() + log.config.file_delete_delay_ms / 1000

        def remove_unless_renamed() -> None:
            for segment in segments:
                segment.close()
            # Another log may have its folder's name by now, and files of the same names in it.
            if self.logs.get(log.partition) is log:
                remove()

        self.doom([Doomed(due_s, remove_unless_renamed)])

    def take_due_removals(self) -> list[Callable[[], None]]:
        """Deletions whose time has come, to be run off the loop."""
        now = self._clock.monotonic()
        due = [each for each in self._doomed if each.due_s <= now]
        self._doomed = [each for each in self._doomed if each.due_s > now]
        return [each.remove for each in due]

    def checkpoint_job(self) -> Callable[[], None]:
        """Write recovery points and log starts; the values are those of this moment."""
        self._note_moved()
        points, starts = dict(self._recovery_points), dict(self._starts)
        committed, cleaned = dict(self._committed), dict(self.cleaned_to)
        self._checkpoints_begun += 1
        number = self._checkpoints_begun

        def run() -> None:
            with self._checkpoint_lock:
                if number < self._checkpoints_written:
                    return  # A younger one was quicker, and says all that this one would.
                write_offsets(self.files, f"{self.root}/{names.LOG_STARTS}", starts)
                write_offsets(self.files, f"{self.root}/{names.RECOVERY_POINTS}", points)
                if committed != self._committed_written:
                    write_offsets(self.files, f"{self.root}/{names.HIGH_WATERMARKS}", committed)
                    self._committed_written = committed
                if cleaned != self._cleaned_written:
                    write_offsets(self.files, f"{self.root}/{names.CLEANER_OFFSETS}", cleaned)
                    self._cleaned_written = cleaned
                self._checkpointed = points.keys() | starts.keys() | cleaned.keys()
                self._checkpoints_written = number

        return run

    def _checkpoint_now(self) -> None:
        """On the loop, where it waits for a disk: nothing may be written before it is done."""
        self.checkpoint_job()()

    def _note_moved(self) -> None:
        """What has changed since the last checkpoint; all the others are not looked at."""
        moved = self.attention.moved
        while moved:
            partition, _ = moved.popitem()
            log = self.logs.get(partition)
            if log is not None:
                self._recovery_points[partition] = log.proven_offset
                if log.start_offset > 0:
                    self._starts[partition] = log.start_offset
                else:
                    self._starts.pop(partition, None)
                if log.committed is not None:
                    self._committed[partition] = log.committed

    def close_logs(self, partitions: Iterable[TopicPartition]) -> None:
        """Sync and close some logs; several threads may do so, each its own. Then `close`."""
        for partition in partitions:
            log = self.logs.get(partition)
            if log is not None and partition not in self._closed:
                self._closed.add(partition)
                if not self._close_log(log):
                    self._sound = False

    def close(self) -> None:
        """Sync and close everything; when all of it went well, leave the clean-stop mark."""
        try:
            self.close_logs(list(self.logs))
            self.checkpoint_job()()
            if self._sound and not self._unopened:
                self.files.replace(f"{self.root}/{names.CLEAN_SHUTDOWN}", _CLEAN_MARK)
        finally:
            self._lock.release()

    def _close_log(self, log: PartitionLog) -> bool:
        if log.failure is not None:
            log.close(clean=False)
            return False
        try:
            _sync(log)
            log.close(clean=True)
        except OSError as error:
            logger.error("%s was not closed cleanly: %s", log.directory, error)
            return False
        return True

    def abandon(self) -> None:
        """Close the files and the lock and nothing else, as a killed process would."""
        for log in self.logs.values():
            log.close(clean=False)
        self._lock.release()


def _topic_ids(metadata: bytes) -> list[str]:
    lines = metadata.decode("ascii", "replace").splitlines()
    return [line.removeprefix("topic_id: ") for line in lines if line.startswith("topic_id: ")]


def _sync(log: PartitionLog) -> None:
    job = log.sync_job()
    if job is not None:
        job.run()
        log.synced(job)


def topic_id_text(topic_id: uuid.UUID) -> str:
    """A topic id as Kafka writes it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _make_durably(files: Files, path: str) -> None:
    """Create a folder and its parents, and make each of the new names durable."""
    if files.exists(path):
        return
    head, slash, _ = path.rpartition("/")
    parent = head or slash or "."
    if parent not in ("/", "."):
        _make_durably(files, parent)
    files.make_dirs(path)
    files.sync_dir(parent)
