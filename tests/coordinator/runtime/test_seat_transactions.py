"""Records of transactions: written, ended, refused, and read back."""

import asyncio
import struct
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from tests.coordinator.runtime.loose_log import LooseLog
from tests.coordinator.runtime.register import Entry, Register
from tests.coordinator.runtime.test_seat import Office

from barnabas.coordinator.runtime.pending import Pending
from barnabas.coordinator.runtime.turn import Turn
from barnabas.log.verification import VerificationGuard
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import Marker, ProducerIdentity
from barnabas.sim.loop import SimLoop
from barnabas.wire.records.batch import parse_header
from barnabas.wire.records.control import EndTransactionMarker, marker_batch
from barnabas.wire.records.record import encode_batch, rewrite_batch

ANN, BEN = ProducerIdentity(1, 0), ProducerIdentity(2, 0)


class Ledger(Register):
    """A register whose numbers may be written in transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: Pending[str, int] = Pending()

    def apply(self, record: Entry) -> None:
        super().apply(record)
        if record.number is None:
            self.pending.remove(record.name)
        else:
            self.pending.overtake(record.name)

    def apply_pending(self, record: Entry, producer_id: int) -> None:
        assert record.number is not None
        self.pending.write(producer_id, record.name, record.number)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.numbers.update(self.pending.end(producer_id, committed=committed))


class LedgerOffice(Office):
    def _new(self) -> Register:
        self.shards.append(Ledger())
        return self.shards[-1]

    def put_in(
        self, producer: ProducerIdentity, guard: VerificationGuard | None = None, **numbers: int
    ) -> Any:
        entries = [Entry(*each) for each in numbers.items()]

        def decide(_: Register, turn: Turn[Entry], __: Any) -> str:
            turn.write_in_transaction(producer, entries, guard)
            return "written"

        return self.runtime.ask(0, decide)

    def end(self, producer: ProducerIdentity, *, committed: bool = True) -> Any:
        return self.runtime.end_transaction(0, marker(producer, committed=committed))

    @property
    def ledger(self) -> Ledger:
        shard = self.shards[-1]
        assert isinstance(shard, Ledger)
        return shard


def marker(producer: ProducerIdentity, *, committed: bool = True) -> Marker:
    return Marker(
        producer_id=producer.producer_id,
        epoch=producer.epoch,
        coordinator_epoch=0,
        committed=committed,
    )


def tell(
    story: Callable[[LedgerOffice], Coroutine[Any, Any, None]], log: LooseLog | None = None
) -> None:
    async def whole() -> None:
        office = LedgerOffice(log or LooseLog())
        await office.loaded()
        await story(office)
        office.runtime.close()

    with asyncio.Runner(loop_factory=lambda: SimLoop(seed=1)) as runner:
        runner.run(whole())


def appended(log: LooseLog, producer: ProducerIdentity, *pairs: tuple[bytes, bytes]) -> None:
    """As somebody else wrote it, before."""
    batch = encode_batch(
        [(0, key, value, []) for key, value in pairs],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
    log.append(batch, 0)


def refusal(question: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as told:
        question()
    return told.value.code


def test_counts_once_it_is_committed() -> None:
    async def story(office: LedgerOffice) -> None:
        office.put("a", 1)
        assert office.put_in(ANN, a=2, b=3) == "written"
        assert (office.get("a"), office.get("b")) == (1, None)
        assert office.end(ANN) is None
        assert (office.get("a"), office.get("b")) == (2, 3)

    tell(story)


def test_is_forgotten_when_it_is_aborted() -> None:
    async def story(office: LedgerOffice) -> None:
        office.put("a", 1)
        office.put_in(ANN, a=2)
        office.put_in(BEN, a=3)
        office.end(ANN, committed=False)
        assert office.get("a") == 1
        office.end(BEN)
        assert office.get("a") == 3

    tell(story)


def test_is_written_as_kafkas_coordinators_write_it() -> None:
    async def story(office: LedgerOffice) -> None:
        guard = VerificationGuard()
        office.put_in(ProducerIdentity(7, 4), guard, a=2, b=3)
        ((_, batch),) = office.log.batches
        header = parse_header(batch)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 4, 0)
        assert (header.is_transactional, header.is_control, header.count) == (True, False, 2)
        assert office.log.guards == [guard]

    tell(story)


def test_what_the_log_refuses_is_refused_and_costs_nobody_else_anything() -> None:
    async def story(office: LedgerOffice) -> None:
        newer = ProducerIdentity(ANN.producer_id, 1)
        office.put_in(newer, a=1)
        parked = office.meet()
        assert refusal(partial(office.put_in, ANN, a=2)) is ErrorCode.invalid_producer_epoch
        assert refusal(partial(office.end, ANN)) is ErrorCode.invalid_producer_epoch
        assert len(office.shards) == 1
        assert not parked.done()
        office.end(newer)
        assert office.get("a") == 1

    tell(story)


def test_a_full_disk_before_anything_is_written_changes_nothing() -> None:
    async def story(office: LedgerOffice) -> None:
        office.log.refuses = True
        assert refusal(partial(office.put_in, ANN, a=2)) is ErrorCode.kafka_storage_error
        assert refusal(partial(office.end, ANN)) is ErrorCode.kafka_storage_error
        assert not office.ledger.pending

    tell(story)


def test_what_is_written_by_half_is_read_back() -> None:
    async def story(office: LedgerOffice) -> None:
        large = "a" * 600_000
        office.log.refuses_from = 1
        with pytest.raises(KafkaError) as told:
            office.put_in(ANN, None, **{large: 1}, b=2)
        assert told.value.code is ErrorCode.not_coordinator
        office.log.refuses_from = None
        await office.loaded()
        assert len(office.shards) == 2
        assert set(office.ledger.pending) == {large}

    tell(story)


def test_nobody_is_told_of_an_end_before_it_is_committed() -> None:
    async def story(office: LedgerOffice) -> None:
        office.put_in(ANN, a=1)
        office.log.hold = True
        ended, seen = office.end(ANN), office.get("a")
        await asyncio.sleep(5)
        assert not ended.done()
        assert not seen.done()
        office.log.release()
        assert await ended is None
        assert await seen == 1

    tell(story)


def test_an_end_that_is_never_committed_has_not_happened() -> None:
    async def story(office: LedgerOffice) -> None:
        office.put_in(ANN, a=1)
        office.log.hold = True
        ended = office.end(ANN)
        office.log.lose()
        with pytest.raises(KafkaError) as told:
            await ended
        assert told.value.code is ErrorCode.not_coordinator
        office.log.hold = False
        await office.loaded()
        assert office.get("a") is None
        assert set(office.ledger.pending) == {"a"}
        office.end(ANN)
        assert office.get("a") == 1

    tell(story)


def test_a_defect_after_the_marker_is_mended_by_reading_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(office: LedgerOffice) -> None:
        office.put_in(ANN, a=1)
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "end_transaction", lambda *_, **__: 1 // 0)
            with pytest.raises(KafkaError) as told:
                office.end(ANN)
            assert told.value.code is ErrorCode.not_coordinator
        await office.loaded()
        assert office.get("a") == 1

    tell(story)


def test_nobody_ends_anything_where_the_shard_is_not() -> None:
    async def story(office: LedgerOffice) -> None:
        office.runtime.resign(0)
        with pytest.raises(KafkaError) as told:
            office.end(ANN)
        assert told.value.code is ErrorCode.not_coordinator
        office.runtime.elect(0, office.log)
        with pytest.raises(KafkaError) as early:
            office.end(ANN)
        assert early.value.code is ErrorCode.coordinator_load_in_progress

    tell(story)


def test_an_open_transaction_outlives_a_restart() -> None:
    log = LooseLog()

    async def first(office: LedgerOffice) -> None:
        office.put("a", 1)
        office.put_in(ANN, a=2, b=2)
        office.put_in(BEN, a=3)
        office.put("b", 9)
        office.end(BEN, committed=False)

    async def second(office: LedgerOffice) -> None:
        assert (office.get("a"), office.get("b")) == (1, 9)
        assert set(office.ledger.pending) == {"a", "b"}
        office.end(ANN)
        assert (office.get("a"), office.get("b")) == (2, 9), "what came later stays"

    tell(first, log)
    tell(second, log)


def test_copes_with_what_compaction_leaves() -> None:
    """Gaps, markers without anything to end, emptied batches, and nothing up to the end."""
    log = LooseLog()
    appended(log, ANN, (b"a", b"1"))
    log.append_marker(marker(ANN), 0)
    log.append_marker(marker(BEN, committed=False), 0)
    appended(log, BEN, (b"b", b"1"), (b"c", b"1"))
    log.append_marker(marker(BEN), 0)
    log.append(encode_batch([(0, b"d", None, [])]), 0)
    first, end, other, data, ending, _ = log.batches
    emptied = rewrite_batch(parse_header(data[1]), [])
    nothing = rewrite_batch(parse_header(other[1]), [])
    log.batches = [first, end, (other[0], nothing), (data[0], emptied), ending]

    async def story(office: LedgerOffice) -> None:
        assert office.ledger.numbers == {"a": 1}
        assert not office.ledger.pending

    tell(story, log)


def test_steps_over_control_batches_that_end_nothing(caplog: pytest.LogCaptureFixture) -> None:
    log = LooseLog()
    appended(log, ANN, (b"a", b"1"))
    for key in (struct.pack(">hh", 0, 2), struct.pack(">hh", 0, 99), b"\0"):
        batch = encode_batch(
            [(0, key, b"", [])],
            producer_id=1,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
        log.append(batch, 0)
    ending = EndTransactionMarker(committed=True, coordinator_epoch=0)
    log.append(marker_batch(ending, timestamp=0, producer_id=2, producer_epoch=0), 0)

    async def story(office: LedgerOffice) -> None:
        assert office.ledger.numbers == {}
        assert set(office.ledger.pending) == {"a"}
        assert caplog.text.count("a control batch can not be read") == 1

    tell(story, log)


def test_a_log_is_not_shrunk_while_a_transaction_is_open() -> None:
    log = LooseLog()
    for _ in range(400):
        log.append(encode_batch([(0, b"a", b"0" * 4000, [])]), 0)
    appended(log, ANN, (b"b", b"2"))
    log.append(encode_batch([(0, b"b", None, [])]), 0)

    async def first(office: LedgerOffice) -> None:
        assert log.start_offset == 0, "although all it wrote was removed since"
        office.put_in(ANN, c=3)
        office.end(ANN)

    async def second(office: LedgerOffice) -> None:
        assert log.start_offset > 400
        assert office.ledger.numbers == {"a": 0, "c": 3}

    tell(first, log)
    tell(second, log)
