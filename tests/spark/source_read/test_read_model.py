"""Whatever the batches, the answers and the spans: each offset once, none that was aborted."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark.source_read.reading_world import options_for, rows_of

from barnabas.spark.places import Place
from barnabas.spark.source.portions import Portion, examine
from barnabas.spark.source.reading import Gathering
from barnabas.wire.records.batch import Buffer, parse_header, stamp
from barnabas.wire.records.control import EndTransactionMarker, marker_batch
from barnabas.wire.records.record import NewRecord, encode_batch

PLACE = Place("model", 0)
OPTIONS = options_for("127.0.0.1:1", "model")


@dataclass
class Log:
    """A partition as its leader would serve it."""

    batches: list[bytes] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """Producer, first offset, offset of the marker."""
    visible: dict[int, bytes] = field(default_factory=dict)
    end: int = 0
    open: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)

    def append(self, producer: int, values: list[bytes], codec: int, gap: int) -> None:
        self.end += gap
        records: list[NewRecord] = [(1, None, value, []) for value in values]
        batch = bytearray(
            encode_batch(
                records,
                codec=codec,
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=0 if producer >= 0 else -1,
                transactional=producer >= 0,
            )
        )
        rows = [(self.end + n, value) for n, value in enumerate(values)]
        if producer >= 0:
            self.open.setdefault(producer, []).extend(rows)
        else:
            self.visible.update(rows)
        self._put(batch, len(values))

    def end_transaction(self, producer: int, *, committed: bool) -> None:
        rows = self.open.pop(producer, [])
        if committed:
            self.visible.update(rows)
        elif rows:
            self.aborted.append((producer, rows[0][0], self.end))
        marker = EndTransactionMarker(committed, 0)
        self._put(
            bytearray(marker_batch(marker, timestamp=1, producer_id=producer, producer_epoch=0)), 1
        )

    def _put(self, batch: bytearray, count: int) -> None:
        stamp(batch, 0, self.end, 0)
        self.batches.append(bytes(batch))
        self.end += count

    def answer(self, offset: int, size: int) -> tuple[bytes, list[tuple[int, int]]]:
        """The batch that holds the offset, whole; then as many bytes as fit, cut anywhere."""
        whole = [batch for batch in self.batches if parse_header(batch).last_offset >= offset]
        if not whole:
            return b"", []
        data = b"".join(whole)[: max(size, len(whole[0]))]
        told = [(pid, first) for pid, first, marker in self.aborted if marker >= offset]
        return data, told


def portions(log: Log, start: int, end: int, sizes: list[int]) -> Iterator[Portion]:
    offset, turn = start, 0
    while offset < end:
        data, aborted = log.answer(offset, sizes[turn % len(sizes)])
        turn += 1
        if not data:
            return
        view = memoryview(data)
        examined = examine(view, offset, end)
        assert examined.damage is None
        assert examined.next_offset > offset, "an answer always leads on"
        yield Portion(PLACE, view, examined.batches, aborted, end)
        offset = examined.next_offset


VALUES = st.lists(st.binary(max_size=6), min_size=1, max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(-1, 2), VALUES, st.integers(0, 4), st.integers(0, 3)),
        st.tuples(st.integers(0, 2), st.booleans()),
    ),
    max_size=20,
)


def log_of(steps: list[tuple[object, ...]]) -> Log:
    log = Log()
    for step in steps:
        if len(step) == 2:
            log.end_transaction(step[0], committed=step[1])  # type: ignore[arg-type]
        else:
            log.append(*step)  # type: ignore[arg-type]
    for producer in list(log.open):
        log.end_transaction(producer, committed=False)
    return log


@settings(deadline=None, max_examples=300)
@given(STEPS, st.lists(st.integers(0, 60), max_size=4), st.lists(st.integers(1, 400), min_size=1))
def test_each_visible_offset_once(
    steps: list[tuple[object, ...]], cuts: list[int], sizes: list[int]
) -> None:
    log = log_of(steps)
    edges = sorted({0, log.end, *(cut for cut in cuts if cut < log.end)})
    gathering = Gathering(OPTIONS)
    batches = [
        batch
        for start, end in pairwise(edges)
        for portion in portions(log, start, end, sizes)
        for batch in gathering.add(portion)
    ]
    rows = rows_of([*batches, *gathering.rest()])
    assert [(row.offset, row.value) for row in rows] == sorted(log.visible.items())


@settings(deadline=None, max_examples=300)
@given(STEPS, st.data())
def test_damage_never_makes_a_row_of_another(
    steps: list[tuple[object, ...]], data: st.DataObject
) -> None:
    """Any bytes changed: rows that come are true and come once, and what is passed is known."""
    log = log_of(steps)
    whole: Buffer = b"".join(log.batches)
    if not whole:
        return
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        # Base offsets lie outside the checksum, and so are believed: they are left alone.
        at = data.draw(st.integers(0, len(changed) - 1))
        if not _is_base_offset(log.batches, at):
            changed[at] ^= data.draw(st.integers(1, 255))
    examined = examine(memoryview(changed), 0, log.end)
    aborted = [(pid, first) for pid, first, _ in log.aborted]
    gathering = Gathering(OPTIONS)
    portion = Portion(PLACE, memoryview(changed), examined.batches, aborted, log.end)
    rows = rows_of([*gathering.add(portion), *gathering.rest()])
    reached = examined.next_offset
    seen = [(offset, value) for offset, value in sorted(log.visible.items()) if offset < reached]
    assert [(row.offset, row.value) for row in rows] == seen


def _is_base_offset(batches: list[bytes], at: int) -> bool:
    for batch in batches:
        if at < len(batch):
            return at < 8
        at -= len(batch)
    return False


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=400), st.integers(0, 5), st.integers(0, 100))
def test_noise_is_no_batch(noise: bytes, offset: int, length: int) -> None:
    examined = examine(memoryview(noise), offset, offset + length)
    assert examined.batches == []
    assert examined.next_offset == offset
