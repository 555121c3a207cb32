"""A shard on a log that takes nothing, with records that do not fit, or with a defect."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.coordinator.runtime.loose_log import LooseLog
from tests.coordinator.runtime.register import Entry, Register
from tests.coordinator.runtime.test_seat import Office, run

from barnabas.coordinator.runtime.turn import Turn, Waiter
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.sim.loop import SimLoop
from barnabas.wire.records.record import NewRecord, encode_batch

NOT_LOADED = ErrorCode.coordinator_load_in_progress


class Mending(Register):
    """Has something to write as soon as it is loaded; or fails before that."""

    broken = False

    def loaded(self, turn: Turn[Entry]) -> None:
        super().loaded(turn)
        if Mending.broken:
            raise RuntimeError("a defect")
        turn.write(Entry("mended", self.loads))


class MendingOffice(Office):
    def _new(self) -> Register:
        self.shards.append(Mending())
        return self.shards[-1]


def mend(story: Callable[[MendingOffice], Coroutine[Any, Any, None]], log: LooseLog) -> None:
    async def whole() -> None:
        office = MendingOffice(log)
        await story(office)
        office.runtime.close()

    with asyncio.Runner(loop_factory=lambda: SimLoop(seed=1)) as runner:
        runner.run(whole())


def test_a_log_that_takes_nothing_is_not_tried_without_rest() -> None:
    log = LooseLog()
    log.refuses = True

    async def story(office: MendingOffice) -> None:
        await asyncio.sleep(60)
        assert 2 < len(office.shards) < 10
        log.refuses = False
        await office.loaded()
        assert office.get("mended") == 1

    mend(story, log)


def test_a_defect_while_loading_is_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Mending, "broken", True)

    async def story(office: MendingOffice) -> None:
        await asyncio.sleep(10)
        with pytest.raises(KafkaError) as refused:
            office.get("a")
        assert refused.value.code is NOT_LOADED
        assert "a defect while register-0 is loaded" in caplog.text
        monkeypatch.setattr(Mending, "broken", False)
        await office.loaded()
        assert office.get("mended") == 1

    mend(story, LooseLog())


def test_what_can_not_be_written_down_is_not_remembered_and_nobody_is_left_waiting() -> None:
    async def story(office: Office) -> None:
        await office.loaded()
        office.put("a", 1)
        parked = office.meet()
        # A lone half of a pair has no bytes.
        with pytest.raises(KafkaError) as refused:
            office.put("\ud800", 2)
        assert refused.value.code is ErrorCode.not_coordinator
        with pytest.raises(KafkaError):
            await parked
        await office.loaded()
        assert (office.get("a"), office.get("\ud800")) == (1, None)

    run(story)


def test_a_full_disk_keeps_no_log_from_being_loaded() -> None:
    log = LooseLog()
    records: list[NewRecord] = [(0, b"a", b"1" + b"0" * 3000, [])]
    for _ in range(500):
        log.append(encode_batch(records), 0)
    log.refuses = True

    async def story(office: Office) -> None:
        await office.loaded()
        assert office.get("a") == 10**3000
        assert log.start_offset == 0

    run(story, log)


def test_nobody_complains_of_a_failure_that_nobody_waits_for() -> None:
    complaints: list[dict[str, Any]] = []

    async def story(office: Office) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        await office.loaded()
        office.meet()
        office.runtime.close()
        office.shards.clear()
        gc.collect()

    run(story)
    assert complaints == []


def test_what_is_to_be_done_after_loading_waits_until_it_is_written_down() -> None:
    done: list[int] = []

    class Sending(Register):
        def loaded(self, turn: Turn[Entry]) -> None:
            turn.write(Entry("sending", turn.leader_epoch))
            outbox = Waiter()
            outbox.answer = done.append
            turn.reply(outbox, turn.leader_epoch)

    class SendingOffice(Office):
        def _new(self) -> Register:
            return Sending()

    log = LooseLog()
    log.leader_epoch = 7
    log.hold = True

    async def story() -> None:
        office = SendingOffice(log)
        await asyncio.sleep(5)
        assert log.records() == 1
        assert done == []
        log.release()
        await asyncio.sleep(0)
        assert done == [7]
        office.runtime.close()

    with asyncio.Runner(loop_factory=lambda: SimLoop(seed=1)) as runner:
        runner.run(story())
