"""ProducerStates against a model that remembers everything, in any order of events."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.log.producers import ProducerStates
from barnabas.log.snapshots import decode_snapshot, encode_snapshot
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.records.batch import BatchHeader

_WRAP = 2**31
_PRODUCERS = st.sampled_from([5, 6])
_COUNTS = st.integers(1, 3)


def header(producer: int, epoch: int, sequence: int, count: int, at: int) -> BatchHeader:
    return BatchHeader(
        0, 0, 0, 2, 0, 0, count - 1, at, at, producer, epoch, sequence % _WRAP, count
    )  # fmt: skip


class _History:
    """One producer: its epoch and every batch of it, as (sequence, count, offset, time)."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[tuple[int, int, int, int]] = []
        self.seen = 0

    @property
    def next_sequence(self) -> int:
        sequence, count, _, _ = self.batches[-1]
        return (sequence + count) % _WRAP


class ProducersAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.states = ProducerStates()
        self.model: dict[int, _History] = {}
        self.offset = 0
        self.time = 1_000

    def _verdict(self, batch: BatchHeader) -> Any:
        try:
            return self.states.check(batch)
        except KafkaError as error:
            return error.code

    def _store(self, batch: BatchHeader) -> None:
        self.states.record(batch, self.offset, self.time)
        known = self.model.get(batch.producer_id)
        if known is None or known.epoch != batch.producer_epoch:
            known = self.model[batch.producer_id] = _History(batch.producer_epoch)
        known.batches.append((batch.base_sequence, batch.count, self.offset, self.time))
        known.seen = self.time
        self.offset += batch.count
        self.time += 1

    @rule(producer=_PRODUCERS, count=_COUNTS, start=st.sampled_from([0, 7, _WRAP - 4]))
    def send_the_next(self, producer: int, count: int, start: int) -> None:
        known = self.model.get(producer)
        sequence = known.next_sequence if known else start
        batch = header(producer, known.epoch if known else 0, sequence, count, self.time)
        assert self._verdict(batch) is None
        self._store(batch)

    @rule(producer=_PRODUCERS, back=st.integers(0, 9), longer=st.integers(0, 1))
    def repeat_an_earlier_one(self, producer: int, back: int, longer: int) -> None:
        known = self.model.get(producer)
        if known is None or back >= len(known.batches):
            return
        sequence, count, offset, at = known.batches[-1 - back]
        verdict = self._verdict(header(producer, known.epoch, sequence, count + longer, at))
        if back < 5 and not longer:
            assert (verdict.first_offset, verdict.timestamp) == (offset, at)
        else:
            assert verdict is ErrorCode.out_of_order_sequence_number

    @rule(producer=_PRODUCERS, gap=st.integers(1, 5), count=_COUNTS)
    def leave_a_gap(self, producer: int, gap: int, count: int) -> None:
        known = self.model.get(producer)
        if known is not None:
            batch = header(producer, known.epoch, known.next_sequence + gap, count, self.time)
            assert self._verdict(batch) is ErrorCode.out_of_order_sequence_number

    @rule(producer=_PRODUCERS, sequence=st.integers(0, 2), count=_COUNTS)
    def begin_another_epoch(self, producer: int, sequence: int, count: int) -> None:
        known = self.model.get(producer)
        if known is None:
            return
        batch = header(producer, known.epoch + 1, sequence, count, self.time)
        if sequence:
            assert self._verdict(batch) is ErrorCode.out_of_order_sequence_number
        else:
            assert self._verdict(batch) is None
            self._store(batch)

    @rule(producer=_PRODUCERS, count=_COUNTS)
    def send_under_an_old_epoch(self, producer: int, count: int) -> None:
        known = self.model.get(producer)
        if known is not None and known.epoch > 0:
            batch = header(producer, known.epoch - 1, known.next_sequence, count, self.time)
            assert self._verdict(batch) is ErrorCode.invalid_producer_epoch

    @rule(age=st.integers(0, 20))
    def forget_the_silent(self, age: int) -> None:
        self.states.expire(self.time - age)
        self.model = {
            producer: known
            for producer, known in self.model.items()
            if known.seen >= self.time - age
        }

    @rule()
    def restart(self) -> None:
        states = ProducerStates()
        states.restore(decode_snapshot(encode_snapshot(self.states), 0).items())
        self.states = states

    @invariant()
    def the_same_producers_are_known(self) -> None:
        assert {producer for producer, _ in self.states} == self.model.keys()
        for producer, state in self.states:
            known = self.model[producer]
            assert state.epoch == known.epoch
            assert [batch.first_offset for batch in state.batches] == [
                offset for _, _, offset, _ in known.batches[-5:]
            ]


TestProducersAgainstModel = ProducersAgainstModel.TestCase
TestProducersAgainstModel.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
