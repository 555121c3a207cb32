"""A log with transactions against a simple model, in any order of events and across restarts."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.log.conftest import NOW_MS, PLACE, append, batch, open_log, sync
from tests.log.txn_log import aborted, aborted_entries, end, read_committed, stable, write

from barnabas.config.topic_config import TopicConfig
from barnabas.log.dump import StoredPartition
from barnabas.log.reading import batches
from barnabas.log.truncation import truncate_to
from barnabas.log.verify import Tally, verify_partition
from barnabas.world.memory import MemoryFiles

_PRODUCERS = st.sampled_from([11, 22, 33])
_COUNTS = st.integers(1, 3)
_HOME = "data/events-0"


@dataclass(slots=True)
class Row:
    """A record of the log: whose, and in which transaction (its number)."""

    value: bytes | None
    transaction: int | None = None


@dataclass(slots=True)
class Told:
    """A transaction: who, from where on, and how it ended, if it has."""

    producer: int
    first: int
    last: int | None = None
    committed: bool = False


@dataclass(slots=True)
class Writer:
    epoch: int = 0
    sequence: int = 0
    open: int | None = None


@dataclass(slots=True)
class Model:
    """All that was ever written, and by whom."""

    rows: list[Row] = field(default_factory=list)
    transactions: list[Told] = field(default_factory=list)
    writers: dict[int, Writer] = field(default_factory=dict)

    def stable(self, high_watermark: int) -> int:
        undecided = (
            t.first for t in self.transactions if t.last is None or t.last >= high_watermark
        )
        return min(high_watermark, *undecided, len(self.rows))

    def visible(self, start: int, up_to: int) -> list[tuple[int, bytes | None]]:
        kept: list[tuple[int, bytes | None]] = []
        for offset, row in enumerate(self.rows[:up_to]):
            told = None if row.transaction is None else self.transactions[row.transaction]
            if offset >= start and row.value is not None and (told is None or told.committed):
                kept.append((offset, row.value))
        return kept

    def aborted(self, first: int, up_to: int) -> set[tuple[int, int]]:
        """What a reader of that range must be told of."""
        return {
            (t.producer, t.first)
            for t in self.transactions
            if t.last is not None and not t.committed and t.last >= first and t.first < up_to
        }


class LogAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFiles()
        self.files.make_dirs(_HOME)
        self.config = TopicConfig(segment_bytes=500, index_interval_bytes=100)
        self.log = open_log(self.files, config=self.config)
        self.model = Model()
        self.point = 0
        self.high_watermark = 0
        self.counter = 0

    def _values(self, count: int) -> list[bytes]:
        self.counter += count
        return [b"%d" % (self.counter - each) for each in range(count)]

    @rule(count=_COUNTS)
    def write_plainly(self, count: int) -> None:
        values = self._values(count)
        assert append(self.log, batch(*values)) == len(self.model.rows)
        self.model.rows += [Row(value) for value in values]

    @rule(producer=_PRODUCERS, count=_COUNTS)
    def write_in_a_transaction(self, producer: int, count: int) -> None:
        writer = self.model.writers.setdefault(producer, Writer())
        values = self._values(count)
        at = len(self.model.rows)
        appended = write(self.log, (producer, writer.epoch, writer.sequence), *values)
        assert (appended.first_offset, appended.repeated) == (at, False)
        if writer.open is None:
            writer.open = len(self.model.transactions)
            self.model.transactions.append(Told(producer, at))
        writer.sequence += count
        self.model.rows += [Row(value, writer.open) for value in values]

    @rule(producer=_PRODUCERS, committed=st.booleans(), bumping=st.booleans())
    def send_a_marker(self, producer: int, committed: bool, bumping: bool) -> None:
        self._end(producer, committed=committed, bumping=bumping)

    def _end(self, producer: int, *, committed: bool, bumping: bool) -> None:
        writer = self.model.writers.setdefault(producer, Writer())
        if bumping:
            writer.epoch += 1
            writer.sequence = 0
        at = end(self.log, producer, writer.epoch, committed=committed, version=2 * bumping)
        assert at == len(self.model.rows)
        self.model.rows.append(Row(None))
        if writer.open is not None:
            told = self.model.transactions[writer.open]
            told.last, told.committed = at, committed
            writer.open = None

    @precondition(lambda self: self.log.producers.transactions.ongoing)
    @rule(which=st.integers(0, 2), committed=st.booleans())
    def end_one_that_is_open(self, which: int, committed: bool) -> None:
        ongoing = list(self.log.producers.transactions.ongoing)
        self._end(ongoing[which % len(ongoing)], committed=committed, bumping=False)

    @rule(back=st.integers(0, 2))
    def commit(self, back: int) -> None:
        """All but the last few batches."""
        ends = [0]
        for segment in self.log.segments:
            ends += [each.last_offset + 1 for _, each in batches(segment, 0, segment.size)]
        self.high_watermark = max(self.high_watermark, ends[max(0, len(ends) - 1 - back)])

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule()
    def sync(self) -> None:
        self.point = sync(self.log)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            self.point = sync(self.log)
        start = self.log.start_offset
        self.log.close(clean=clean)
        self.log = open_log(
            self.files,
            clean=clean,
            recovery_point=self.point,
            start_offset=start,
            config=self.config,
        )
        self.high_watermark = self.log.end_offset

    @rule(count=st.integers(1, 9), delete=st.booleans())
    def delete_records(self, count: int, delete: bool) -> None:
        start = self.log.start_offset + count
        if start > self.high_watermark:
            return
        self.log.advance_start(start)
        if delete:
            self._let_old_segments_go()

    def _let_old_segments_go(self) -> None:
        sync(self.log)
        gone = self.log.expired(NOW_MS, self.log.end_offset)
        if gone:
            self.log.drop(gone)
            for segment in gone:
                segment.close()
                segment.remove_files()
            self.log.remove_snapshots_below(self.log.segments[0].base_offset)

    @precondition(lambda self: self.log.end_offset > self.high_watermark)
    @rule(back=st.integers(1, 6))
    def truncate(self, back: int) -> None:
        target = max(self.high_watermark, self.log.end_offset - back)
        truncate_to(self.log, target, NOW_MS)
        self._forget_from(self.log.end_offset)
        self.point = min(self.point, self.log.end_offset)
        self.high_watermark = min(self.high_watermark, self.log.end_offset)

    def _forget_from(self, offset: int) -> None:
        """What was written there has never happened, and everybody's numbers go back."""
        model = self.model
        del model.rows[offset:]
        model.transactions = [each for each in model.transactions if each.first < offset]
        model.writers = {}
        for number, told in enumerate(model.transactions):
            if told.last is not None and told.last >= offset:
                told.last, told.committed = None, False
            if told.last is None:
                model.writers[told.producer] = Writer(open=number)
        for producer, known in self.log.producers:
            writer = model.writers.setdefault(producer, Writer())
            writer.epoch, writer.sequence = known.epoch, known.last_sequence + 1

    @property
    def edge(self) -> int:
        return stable(self.log, self.high_watermark)

    @invariant()
    def the_same_is_stable(self) -> None:
        assert self.log.end_offset == len(self.model.rows)
        assert self.edge == max(
            self.model.stable(self.high_watermark), min(self.log.start_offset, self.high_watermark)
        )

    @invariant()
    def the_same_was_aborted(self) -> None:
        start, edge = self.log.start_offset, self.edge
        for first in range(start, edge):
            up_to = min(first + 1 + first % 5, edge)
            told = set(aborted(self.log, first, up_to))
            assert told >= self.model.aborted(first, up_to)
            assert told <= self.model.aborted(first, edge)

    @invariant()
    def entries_rise(self) -> None:
        told = aborted_entries(self.log, self.log.start_offset, self.log.end_offset)
        assert [each.last_offset for each in told] == sorted({each.last_offset for each in told})
        assert [each.last_stable_offset for each in told] == sorted(
            each.last_stable_offset for each in told
        )

    @invariant()
    def readers_see_what_was_committed(self) -> None:
        seen = read_committed(self.log, self.edge)
        assert seen == self.model.visible(self.log.start_offset, self.edge)

    def teardown(self) -> None:
        self.log.close(clean=True)
        place = StoredPartition(_HOME, PLACE)
        problems = list(verify_partition(self.files, place, Tally(lambda _: None)))
        assert problems == [], problems


TestLogAgainstModel = LogAgainstModel.TestCase
TestLogAgainstModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
