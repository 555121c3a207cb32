"""Cleaning one log: learn the last offset of each key, then copy what stays.

Kafka's way: the map of keys is built over the dirty part alone and holds as much of it as its
memory allows; then all segments up to where the map reaches, clean ones too, are copied without
what the map has outdated. Nothing that a reader sees is touched here.
"""

from collections.abc import Sequence

from barnabas.log import names
from barnabas.log.cleaner.filtering import BatchFilter, records_of
from barnabas.log.cleaner.plan import CleaningFailedError, CleanPlan, CleanReport, Source
from barnabas.log.cleaner.source import SegmentReader
from barnabas.log.cleaner.throttle import Throttle
from barnabas.log.cleaner.transactions import CleanedTransactions
from barnabas.log.cleaner.writing import CleanedWriter
from barnabas.log.segment import RELATIVE_OFFSET_MAX
from barnabas.log.txn_index import AbortedTransaction
from barnabas.model.errors import DecodeError, KafkaError
from barnabas.ports.clock import Clock
from barnabas.ports.files import Files
from barnabas.ports.work import Caller
from barnabas.wire.records.batch import BatchHeader
from barnabas.wire.records.codec import SLOT_BYTES, KeyOffsets


def clean_log(files: Files, clock: Clock, plan: CleanPlan, caller: Caller) -> CleanReport:
    """Carry `plan` out. Each new segment is told to the caller as soon as it is durable.

    CleaningFailedError: the log is damaged. OSError: for instance the disk is full. What was told
    until then is good; nothing else is left behind.
    """
    return _Cleaning(files, clock, plan, caller).run()


class _Cleaning:
    def __init__(self, files: Files, clock: Clock, plan: CleanPlan, caller: Caller) -> None:
        self._files = files
        self._clock = clock
        self._plan = plan
        self._caller = caller
        self._throttle = Throttle(plan.limits.bytes_per_second, clock)
        self._keys = KeyOffsets(_map_bytes(plan), plan.limits.load_factor, plan.secret)
        self._report = CleanReport(first_dirty=plan.first_dirty, end_offset=plan.first_dirty)

    def run(self) -> CleanReport:
        report, plan = self._report, self._plan
        begun = self._clock.monotonic()
        aborted = self._aborted()
        latest = self._map_keys(CleanedTransactions(aborted))
        mapped = self._clock.monotonic()
        transactions = CleanedTransactions(aborted)
        batches = BatchFilter(plan, self._keys, latest, transactions)
        cleaned = [source for source in plan.sources if source.base_offset <= latest]
        for group in grouped(self._files, plan, cleaned):
            self._clean_group(group, batches, transactions)
        report.end_offset = latest + 1
        report.keys = len(self._keys)
        report.records_kept = batches.records_kept
        report.map_seconds = mapped - begun
        report.copy_seconds = self._clock.monotonic() - mapped
        report.peak_memory_bytes = _peak_memory_bytes()
        return report

    def _aborted(self) -> list[AbortedTransaction]:
        if self._plan.aborted is None:
            return []
        try:
            return self._plan.aborted.read()
        except KafkaError as error:
            raise CleaningFailedError(error.message) from error

    def _map_keys(self, transactions: CleanedTransactions) -> int:
        """Fill the map from the dirty part; the last offset of which it knows everything."""
        latest = self._plan.first_dirty - 1
        for source in self._plan.sources:
            if source.end_offset <= self._plan.first_dirty:
                continue
            for header, batch, _ in self._batches(source):
                self._report.bytes_mapped += header.size
                refused = self._map_batch(header, batch, transactions)
                if refused >= 0:
                    self._report.map_full = True
                    return refused - 1
                latest = max(latest, header.last_offset)
            # Offsets that compaction has left out are known to hold nothing.
            latest = max(latest, source.end_offset - 1)
        return latest

    def _map_batch(
        self, header: BatchHeader, batch: memoryview, transactions: CleanedTransactions
    ) -> int:
        first = self._plan.first_dirty
        try:
            if header.is_control:
                transactions.is_done_with(header, batch)
                return -1
            if transactions.is_aborted(header) or header.last_offset < first or not header.count:
                return -1
            records = records_of(header, batch)
            delta = header.last_offset_delta
            return self._keys.note(records, header.count, header.base_offset, delta, first)
        except DecodeError as error:
            raise self._unreadable(header, error) from error

    def _clean_group(
        self, group: Sequence[Source], batches: BatchFilter, transactions: CleanedTransactions
    ) -> None:
        writer = CleanedWriter(self._files, self._plan, tuple(each.base_offset for each in group))
        try:
            changed = self._copy(group, batches, writer) or len(group) > 1
            needed = transactions.take_needed()
            if changed:
                self._caller.tell(writer.finish(needed))
            else:
                writer.discard()
        except BaseException:
            writer.discard()
            raise
        self._report.bytes_left += writer.size

    def _copy(self, group: Sequence[Source], batches: BatchFilter, writer: CleanedWriter) -> bool:
        """Whether anything is not as it was."""
        changed = False
        for source in group:
            for header, batch, ends_source in self._batches(source):
                self._report.bytes_read += header.size
                self._report.records_read += header.count
                is_last = ends_source and source is group[-1]
                try:
                    kept = batches.kept(header, batch, is_last=is_last)
                except DecodeError as error:
                    raise self._unreadable(header, error) from error
                changed = changed or kept is not batch
                if kept is not None:
                    writer.add(kept)
                    self._throttle.spend(len(kept))
        return changed

    def _batches(self, source: Source) -> SegmentReader:
        path = self._plan.path(source.base_offset, names.LOG)
        buffer_bytes = self._plan.limits.buffer_bytes // 2
        return SegmentReader(self._files, path, source, buffer_bytes, self._spend)

    def _spend(self, size: int) -> None:
        self._caller.check()
        self._throttle.spend(size)

    def _unreadable(self, header: BatchHeader, error: DecodeError) -> CleaningFailedError:
        return CleaningFailedError(
            f"the batch at offset {header.base_offset} in {self._plan.directory} can not be read: "
            f"{error}"
        )


def grouped(files: Files, plan: CleanPlan, sources: Sequence[Source]) -> list[list[Source]]:
    """Neighbours that fit into one segment, its indexes and its range of offsets.

    Otherwise segments would get smaller and smaller. Those without any bytes are left alone.
    """
    groups: list[list[Source]] = []
    size = index_bytes = time_bytes = 0
    for source in sources:
        its_index = _size_of(files, plan.path(source.base_offset, names.OFFSET_INDEX))
        its_times = _size_of(files, plan.path(source.base_offset, names.TIME_INDEX))
        fits = (
            bool(groups)
            and size + source.size <= plan.segment_bytes
            and index_bytes + its_index <= plan.segment_index_bytes
            and time_bytes + its_times <= plan.segment_index_bytes
            and source.end_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if fits:
            groups[-1].append(source)
            size, index_bytes, time_bytes = (
                size + source.size, index_bytes + its_index, time_bytes + its_times,
            )  # fmt: skip
        else:
            groups.append([source])
            size, index_bytes, time_bytes = source.size, its_index, its_times
    return [group for group in groups if any(source.size for source in group)]


def _size_of(files: Files, path: str) -> int:
    return files.size_of(path) if files.exists(path) else 0


def _map_bytes(plan: CleanPlan) -> int:
    """No more than there can be keys for, and never more than is allowed."""
    offsets = plan.up_to - plan.first_dirty
    return min(plan.limits.dedupe_bytes, (int(offsets / plan.limits.load_factor) + 2) * SLOT_BYTES)


def _peak_memory_bytes() -> int:
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
