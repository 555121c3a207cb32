"""Compaction against a model that says, record by record, what must be left."""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.log.cleaner_scenes import clean, compacting, put, stored, stored_batches
from tests.log.conftest import NOW_MS, PLACE, open_log
from tests.log.txn_log import end, read_committed, stable

from barnabas.log.dump import StoredPartition
from barnabas.log.verify import Tally, verify_partition
from barnabas.wire.records import _codec_py
from barnabas.wire.records.record import Record
from barnabas.world.memory import MemoryFiles

HOME = "data/events-0"
RETENTION_MS = 1_000
PLAIN, IDEMPOTENT, TRANSACTIONAL = (-1,), (1, 2), (11, 12, 13)

keys = st.sampled_from([b"a", b"b", b"a key of many bytes, so that hashing has a tail"])
values = st.sampled_from([None, b"", b"one", b"x" * 150])
pairs = st.lists(st.tuples(keys, values), min_size=1, max_size=3)
codecs = st.sampled_from([0, 0, 1, 2, 3, 4])


@dataclass(slots=True)
class Row:
    """A record that was written, and whether it must still be there."""

    record: Record
    batch: int
    transaction: int | None
    there: bool = True


@dataclass(slots=True)
class Told:
    producer: int
    committed: bool | None = None


@dataclass(slots=True)
class Model:
    rows: list[Row] = field(default_factory=list)
    transactions: list[Told] = field(default_factory=list)
    horizons: dict[int, int] = field(default_factory=dict)
    """By a batch's first offset: until when its tombstones stay."""

    def is_aborted(self, row: Row) -> bool:
        return row.transaction is not None and self.transactions[row.transaction].committed is False

    def clean(self, first_dirty: int, latest: int, end_of_cleaned: int, now_ms: int) -> None:
        """As the cleaner must: `latest` is how far it knows keys."""
        last: dict[bytes, int] = {}
        for row in self.rows:
            offset, key = row.record.offset, row.record.key
            known = row.there and first_dirty <= offset <= latest and not self.is_aborted(row)
            if known and key is not None:
                last[key] = offset
        marked: dict[int, int] = {}
        for row in self.rows:
            if not row.there or row.record.offset >= end_of_cleaned:
                continue
            row.there = self._stays(row, last, latest, now_ms)
            if row.there and row.record.value is None:
                marked[row.batch] = now_ms + RETENTION_MS
        self.horizons = marked | self.horizons

    def _stays(self, row: Row, last: dict[bytes, int], latest: int, now_ms: int) -> bool:
        offset, key = row.record.offset, row.record.key
        if self.is_aborted(row):
            return False
        if offset > latest:
            return True
        if key is None or last.get(key, -1) > offset:
            return False
        return row.record.value is not None or now_ms < self.horizons.get(row.batch, 2**63)

    def visible(self, below: int) -> list[tuple[int, bytes | None]]:
        return [
            (row.record.offset, row.record.value)
            for row in self.rows
            if row.there and row.record.offset < below and not self.is_aborted(row)
        ]


class CompactedLog(RuleBasedStateMachine):
    """Anything that writers, time, the cleaner and restarts may do, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFiles()
        self.files.make_dirs(HOME)
        self.config = compacting(segment_bytes=700, delete_retention_ms=RETENTION_MS)
        self.log = open_log(self.files, config=self.config)
        self.model = Model()
        self.sequences: dict[int, int] = {}
        self.open: dict[int, int] = {}
        self.now_ms = NOW_MS
        self.cleaned_to: int | None = None

    def _note(
        self, first: int, pairs: list[tuple[bytes | None, bytes | None]], t: int | None
    ) -> None:
        for at, (key, value) in enumerate(pairs):
            record = Record(first + at, self.now_ms + at, key, value, [("h", b"x")])
            self.model.rows.append(Row(record, first, t))

    def _producer(self, producer: int, count: int) -> tuple[int, int, int]:
        if producer < 0:
            return (-1, -1, -1)
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + count
        return (producer, 0, sequence)

    @rule(pairs=pairs, codec=codecs, producer=st.sampled_from([*PLAIN, *IDEMPOTENT]))
    def write(self, pairs: list[tuple[bytes, bytes | None]], codec: int, producer: int) -> None:
        who = self._producer(producer, len(pairs))
        first = put(self.log, *pairs, now_ms=self.now_ms, codec=codec, producer=who)
        self._note(first, list(pairs), None)

    @rule(values=st.lists(values, min_size=1, max_size=2))
    def write_without_keys(self, values: list[bytes | None]) -> None:
        """As before the topic's policy was changed."""
        keyless: list[tuple[bytes | None, bytes | None]] = [(None, value) for value in values]
        self._note(put(self.log, *keyless, now_ms=self.now_ms), keyless, None)

    @rule(pairs=pairs, codec=codecs, producer=st.sampled_from(TRANSACTIONAL))
    def write_in_transaction(
        self, pairs: list[tuple[bytes, bytes | None]], codec: int, producer: int
    ) -> None:
        who = self._producer(producer, len(pairs))
        first = put(
            self.log, *pairs, now_ms=self.now_ms, codec=codec, producer=who, transactional=True
        )
        if producer not in self.open:
            self.open[producer] = len(self.model.transactions)
            self.model.transactions.append(Told(producer))
        self._note(first, list(pairs), self.open[producer])

    @rule(producer=st.sampled_from(TRANSACTIONAL), committed=st.booleans())
    def end_transaction(self, producer: int, committed: bool) -> None:
        number = self.open.pop(producer, None)
        if number is not None:
            self.model.transactions[number].committed = committed
            end(self.log, producer, 0, committed=committed, now_ms=self.now_ms)

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule(
        room=st.sampled_from([1_000, 2]),
        passed_ms=st.sampled_from([0, RETENTION_MS - 1, RETENTION_MS]),
    )
    def clean(self, room: int, passed_ms: int) -> None:
        self.now_ms += passed_ms
        before = [segment.base_offset for segment in self.log.segments]
        report = clean(
            self.files, self.log, cleaned_to=self.cleaned_to, now_ms=self.now_ms, keys=room
        )
        latest = report.end_offset - 1
        bases = sorted({*before, *(segment.base_offset for segment in self.log.segments)})
        end_of_cleaned = next((base for base in bases if base > latest), self.log.end_offset)
        self.model.clean(report.first_dirty, latest, end_of_cleaned, self.now_ms)
        self.cleaned_to = report.end_offset

    @rule(lose_snapshots=st.booleans(), clean_stop=st.booleans())
    def restart(self, lose_snapshots: bool, clean_stop: bool) -> None:
        producers = self._producers()
        point = self.log.recovery_point
        self.log.close(clean=clean_stop)
        for name in self.files.list(HOME):
            # Without them, what is left of the batches must tell everything.
            if lose_snapshots and name.endswith(".snapshot"):
                self.files.remove(f"{HOME}/{name}")
        self.log = open_log(
            self.files,
            config=self.config,
            clean=clean_stop,
            recovery_point=self.log.end_offset if clean_stop else point,
            now_ms=self.now_ms,
        )
        assert self._producers() == producers

    def _producers(self) -> dict[int, tuple[int, int, int, int]]:
        return {
            producer_id: (
                producer.epoch,
                producer.last_sequence,
                producer.batches[-1].last_offset if producer.batches else -1,
                producer.transaction_start,
            )
            for producer_id, producer in self.log.producers
        }

    @invariant()
    def what_must_stay_is_there_and_nothing_else(self) -> None:
        expected = [row.record for row in self.model.rows if row.there]
        assert stored(self.log) == expected

    @invariant()
    def readers_of_committed_records_see_no_more_and_no_less(self) -> None:
        assert read_committed(self.log) == self.model.visible(stable(self.log))

    @invariant()
    def segments_join_and_offsets_rise(self) -> None:
        for segment, ends in self.log.spans():
            assert segment.mark == ""
            assert segment.base_offset < ends or segment is self.log.segments[-1]
        last = [header.last_offset for header, _ in stored_batches(self.log)]
        assert last == sorted(set(last))
        if last:
            assert last[-1] + 1 == self.log.end_offset

    @invariant()
    def nobody_finds_fault_with_the_files(self) -> None:
        names = self.files.list(HOME)
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
        place = StoredPartition(HOME, PLACE)
        assert list(verify_partition(self.files, place, Tally(lambda _: None))) == []


@pytest.mark.parametrize("twin", [False, True])
def test_compaction_keeps_what_it_must(twin: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if twin:
        monkeypatch.setattr("barnabas.log.cleaner.cleaning.KeyOffsets", _codec_py.KeyOffsets)
        monkeypatch.setattr("barnabas.log.cleaner.cleaning.SLOT_BYTES", _codec_py.SLOT_BYTES)
        monkeypatch.setattr("tests.log.cleaner_scenes.SLOT_BYTES", _codec_py.SLOT_BYTES)
        monkeypatch.setattr(
            "barnabas.log.cleaner.filtering.rebase_records", _codec_py.rebase_records
        )
    run_state_machine_as_test(
        CompactedLog,
        settings=settings(max_examples=20 if twin else 50, stateful_step_count=30, deadline=None),
    )
