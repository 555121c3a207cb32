"""A shard in office: when it answers, what it survives, how it comes back."""

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from tests.coordinator.runtime.loose_log import LooseLog
from tests.coordinator.runtime.register import Entry, EntryCodec, Register

from barnabas.coordinator.runtime.runtime import Runtime
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.sim.loop import SimLoop
from barnabas.wire.records.record import NewRecord, encode_batch


class LoopClock:
    """Whatever the loop says."""

    def wall_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class Office:
    """A runtime with one shard."""

    def __init__(self, log: LooseLog) -> None:
        self.log = log
        self.shards: list[Register] = []
        image: Any = SimpleNamespace(topics={})
        self.runtime: Runtime[Entry, Register] = Runtime(
            "register", self._new, EntryCodec(), LoopClock(), lambda: image
        )
        self.runtime.elect(0, log)

    def _new(self) -> Register:
        self.shards.append(Register())
        return self.shards[-1]

    def put(self, name: str, number: int | None) -> Any:
        return self.runtime.ask(0, lambda shard, turn, _: shard.put(turn, name, number))

    def get(self, name: str) -> Any:
        return self.runtime.ask(0, lambda shard, *_: shard.get(name))

    def meet(self, patience_ms: int = 60_000) -> Any:
        return self.runtime.ask(0, lambda shard, turn, who: shard.meet(turn, who, patience_ms))

    async def loaded(self) -> None:
        for _ in range(1000):
            try:
                self.get("")
            except KafkaError as error:
                if error.code is not ErrorCode.coordinator_load_in_progress:
                    raise
                await asyncio.sleep(0.1)
            else:
                return
        raise AssertionError("it is never loaded")


def run(story: Callable[[Office], Coroutine[Any, Any, None]], log: LooseLog | None = None) -> None:
    """The story, in virtual time."""

    async def whole() -> None:
        office = Office(log or LooseLog())
        await story(office)
        office.runtime.close()

    with asyncio.Runner(loop_factory=lambda: SimLoop(seed=1)) as runner:
        runner.run(whole())


def test_says_that_it_is_loading() -> None:
    async def story(office: Office) -> None:
        with pytest.raises(KafkaError) as refused:
            office.get("a")
        assert refused.value.code is ErrorCode.coordinator_load_in_progress
        await office.loaded()
        assert office.get("a") is None

    run(story)


def test_answers_at_once_what_is_committed_at_once() -> None:
    async def story(office: Office) -> None:
        await office.loaded()
        assert office.put("a", 1) == 1
        assert office.get("a") == 1
        assert office.log.records() == 1

    run(story)


def test_parks_a_reply_until_its_records_are_committed() -> None:
    async def story(office: Office) -> None:
        await office.loaded()
        office.log.hold = True
        answer = office.put("a", 1)
        await asyncio.sleep(5)
        assert not answer.done()
        office.log.release()
        assert await answer == 1

    run(story)


def test_nobody_reads_what_is_not_committed() -> None:
    async def story(office: Office) -> None:
        await office.loaded()
        office.log.hold = True
        office.put("a", 1)
        seen = office.get("a")
        await asyncio.sleep(5)
        assert not seen.done()
        office.log.release()
        assert await seen == 1

    run(story)


def test_a_failed_append_drops_the_shard_and_replays_it() -> None:
    async def story(office: Office) -> None:
        await office.loaded()
        office.put("a", 1)
        parked = office.meet()
        office.log.refuses = True
        with pytest.raises(KafkaError) as refused:
            office.put("a", 2)
        assert refused.value.code is ErrorCode.not_coordinator
        with pytest.raises(KafkaError) as told:
            await parked
        assert told.value.code is ErrorCode.not_coordinator
        office.log.refuses = False
        await office.loaded()
        assert office.get("a") == 1
        assert len(office.shards) == 2

    run(story)


def test_a_commit_that_never_comes_drops_the_shard_and_replays_it() -> None:
    async def story(office: Office) -> None:
        await office.loaded()
        office.put("a", 1)
        office.log.hold = True
        answers = [office.put("a", 2), office.get("a")]
        office.log.lose()
        for answer in answers:
            with pytest.raises(KafkaError) as told:
                await answer
            assert told.value.code is ErrorCode.not_coordinator
        office.log.hold = False
        await office.loaded()
        assert office.get("a") == 1

    run(story)


def test_does_not_take_office_before_the_end_of_its_log_is_committed() -> None:
    log = LooseLog()

    async def first(office: Office) -> None:
        await office.loaded()
        log.hold = True
        office.put("a", 1)

    async def second(office: Office) -> None:
        await asyncio.sleep(5)
        with pytest.raises(KafkaError) as refused:
            office.get("a")
        assert refused.value.code is ErrorCode.coordinator_load_in_progress
        log.committed = log.end_offset
        await office.loaded()
        assert office.get("a") == 1

    run(first, log)
    run(second, log)


def test_waiters_are_answered_by_a_later_turn() -> None:
    async def story(office: Office) -> None:
        await office.loaded()
        first = office.meet()
        second = office.meet()
        assert [await first, await second] == [0, 1]

    run(story)


def test_somebody_who_went_away_harms_nobody() -> None:
    async def story(office: Office) -> None:
        await office.loaded()
        first = office.meet()
        first.cancel()
        assert await office.meet() == 1

    run(story)


def test_timers_fire_once_and_can_be_cancelled() -> None:
    async def story(office: Office) -> None:
        await office.loaded()
        lonely = office.meet(1000)
        with pytest.raises(KafkaError) as late:
            await lonely
        assert late.value.code is ErrorCode.request_timed_out
        assert office.get("late") == 0
        await asyncio.gather(office.meet(1000), office.meet(1000))
        office.put("late", 7)
        await asyncio.sleep(10)
        assert office.get("late") == 7

    run(story)


def test_timers_of_a_dropped_shard_do_not_fire() -> None:
    async def story(office: Office) -> None:
        await office.loaded()
        parked = office.meet(1000)
        office.log.refuses = True
        with pytest.raises(KafkaError):
            office.put("a", 1)
        with pytest.raises(KafkaError):
            await parked
        office.log.refuses = False
        await asyncio.sleep(10)
        assert office.get("late") is None

    run(story)


def test_a_defect_costs_one_answer_and_a_reload() -> None:
    async def story(office: Office) -> None:
        await office.loaded()
        office.put("a", 1)

        def broken(shard: Register, *_: Any) -> None:
            shard.numbers.clear()
            raise ZeroDivisionError

        with pytest.raises(KafkaError) as told:
            office.runtime.ask(0, broken)
        assert told.value.code is ErrorCode.unknown_server_error
        await office.loaded()
        assert office.get("a") == 1

    run(story)


def test_a_refusal_after_a_write_is_a_defect() -> None:
    async def story(office: Office) -> None:
        await office.loaded()

        def broken(shard: Register, turn: Any, _: Any) -> None:
            shard.put(turn, "a", 1)
            raise KafkaError(ErrorCode.illegal_generation)

        with pytest.raises(KafkaError):
            office.runtime.ask(0, broken)
        await office.loaded()
        assert office.get("a") is None
        assert office.log.records() == 0

    run(story)


def test_a_refusal_leaves_the_shard_in_office() -> None:
    async def story(office: Office) -> None:
        await office.loaded()

        def refuse(*_: Any) -> None:
            raise KafkaError(ErrorCode.illegal_generation)

        with pytest.raises(KafkaError) as refused:
            office.runtime.ask(0, refuse)
        assert refused.value.code is ErrorCode.illegal_generation
        assert office.get("a") is None
        assert len(office.shards) == 1

    run(story)


def test_an_event_that_fails_is_told_and_survived() -> None:
    async def story(office: Office) -> None:
        await office.loaded()
        office.runtime.topics_changed([])
        topic: Any = SimpleNamespace(name="gone")
        office.runtime.topics_deleted([topic])
        await office.loaded()
        assert office.shards[-1].deleted == ["gone"]

    run(story)


def test_tries_again_when_its_log_can_not_be_read() -> None:
    log = LooseLog()
    log.append(encode_batch([(0, b"a", b"1", [])]), 0)
    log.unreadable = 3

    async def story(office: Office) -> None:
        await office.loaded()
        assert office.get("a") == 1

    run(story, log)


def test_steps_over_foreign_and_broken_records() -> None:
    log = LooseLog()
    records: list[NewRecord] = [
        (0, b"foreign", b"?", []),
        (0, b"broken", b"?", []),
        (0, b"a", b"1", []),
    ]
    log.append(encode_batch(records), 0)

    async def story(office: Office) -> None:
        await office.loaded()
        assert office.shards[-1].numbers == {"a": 1}

    run(story, log)


def test_whoever_resigns_sends_everybody_elsewhere() -> None:
    async def story(office: Office) -> None:
        await office.loaded()
        parked = office.meet()
        office.runtime.resign(0)
        with pytest.raises(KafkaError) as told:
            await parked
        assert told.value.code is ErrorCode.not_coordinator
        with pytest.raises(KafkaError) as refused:
            office.get("a")
        assert refused.value.code is ErrorCode.not_coordinator

    run(story)


def test_a_log_full_of_what_nobody_needs_is_shrunk_on_load() -> None:
    log = LooseLog()
    for number in range(100):
        log.append(encode_batch([(0, b"a", b"0" * 20_000, []), (0, b"b%d" % number, b"1", [])]), 0)
        log.append(encode_batch([(0, b"b%d" % number, None, [])]), 0)
    log.append(encode_batch([(0, b"a", b"5", []), (0, b"foreign", b"kept", [])]), 0)
    end = log.end_offset

    async def story(office: Office) -> None:
        await office.loaded()
        assert office.shards[-1].numbers == {"a": 5}

    run(story, log)
    assert log.start_offset == end
    assert log.segments == [end]
    assert log.records() == 2
    run(story, log)
    assert log.start_offset == end, "there was nothing left to shrink"


def test_a_shrunk_log_is_complete_at_every_step() -> None:
    """Interrupted between the copy and the new start, the log gives the same state."""
    log = LooseLog()
    for _ in range(60):
        log.append(encode_batch([(0, b"a", b"0" * 20_000, [])]), 0)
    log.append(encode_batch([(0, b"a", b"5", []), (0, b"gone", b"1", [])]), 0)
    log.append(encode_batch([(0, b"gone", None, [])]), 0)

    async def interrupted(offset: int) -> None:
        raise KafkaError(ErrorCode.kafka_storage_error, "the disk is full")

    whole = log.forget_below
    log.forget_below = interrupted  # type: ignore[method-assign]

    async def waits(office: Office) -> None:
        await asyncio.sleep(0.5)
        log.forget_below = whole  # type: ignore[method-assign]
        await office.loaded()
        assert office.shards[-1].numbers == {"a": 5}

    run(waits, log)
