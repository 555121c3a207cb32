"""What happens between the question to the coordinator and the append."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.group_talk import frame
from tests.api.hot_path import answer_of, produce_frame, produce_rows, settle
from tests.api.txn_talk import (
    BUMPED,
    CLASSIC,
    SETTINGS,
    Identity,
    add,
    answers,
    coordinate,
    end,
    finish,
    init,
    send,
    values,
)

from barnabas.cluster.topics import NewTopic
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.transactions import Marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.api.conftest import House

    from barnabas.coordinator.txn.asks import AddPartitions

pytestmark = pytest.mark.parametrize("house", [SETTINGS], indirect=True)


class SlowWord:
    """The coordinator's real answers, given only when they are let go."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[AddPartitions] = []
        self._gate = asyncio.Event()
        self._coordinator = house.services.transactions
        for name in ("add_partitions", "verify_partitions"):
            real = getattr(self._coordinator, name)
            monkeypatch.setattr(self._coordinator, name, self._slowed(real))

    def _slowed(self, real: Callable[[AddPartitions], Any]) -> Callable[[AddPartitions], Any]:
        def slowed(ask: AddPartitions) -> asyncio.Future[Any]:
            self.asked.append(ask)
            return asyncio.ensure_future(self._later(real, ask))

        return slowed

    async def _later(self, real: Callable[[AddPartitions], Any], ask: AddPartitions) -> Any:
        answer = real(ask)
        answer = await answer if isinstance(answer, asyncio.Future) else answer
        await self._gate.wait()
        return answer

    async def held(self, count: int = 1) -> None:
        """Until the coordinator has been asked so often."""
        while len(self.asked) < count:
            await asyncio.sleep(0)
        await settle()

    def let_go(self) -> None:
        """Answer all that was asked, and what will be."""
        self._gate.set()

    def hold(self) -> None:
        """Keep answers back again."""
        self._gate.clear()


@pytest.fixture
def slow(house: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowWord]:
    coordinate(house)
    house.topic("t", 2)
    yield SlowWord(house, monkeypatch)
    assert house.services.verifying == {}, "nobody is waited for in vain"


def _frame(
    house: House, producer: Identity, *values: bytes, sequence: int = 0, **more: Any
) -> bytes:
    version, index = more.pop("version", BUMPED), more.pop("index", 0)
    data = producer.batch(*values, sequence=sequence)
    return produce_frame(house, version, ("t", index, data), transactional_id=producer.name, **more)


def _codes(house: House, told: list[bytes], version: int = BUMPED) -> list[tuple[str, int]]:
    rows = [row for each in told for row in produce_rows(house, version, each)]
    return [(row["error_code"], row["base_offset"]) for row in rows]


def test_what_the_same_producer_sends_meanwhile_queues_behind(house: House, slow: SlowWord) -> None:
    producer = init(house)

    async def send_all() -> list[bytes]:
        frames = [_frame(house, producer, b"v%d" % n, sequence=n) for n in range(5)]
        waiting = asyncio.ensure_future(answers(house, *frames))
        await slow.held()
        assert house.partition("t").log.end_offset == 0
        slow.let_go()
        return await waiting

    assert _codes(house, house.run(send_all())) == [("none", offset) for offset in range(5)]
    assert len(slow.asked) == 1, "once the transaction is open nobody has to be asked"
    finish(house, producer, committed=True, version=5)
    assert values(house) == [b"v0", b"v1", b"v2", b"v3", b"v4"]


def test_nobody_else_waits(house: House, slow: SlowWord) -> None:
    producer, other = init(house), init(house, "other")

    async def send_all() -> tuple[list[bytes], bytes | None]:
        waiting = asyncio.ensure_future(answers(house, _frame(house, producer, b"slow")))
        await slow.held()
        plain = produce_frame(house, BUMPED, ("t", 0, other.batch(b"x", transactional=False)))
        quick = await answer_of(house, plain)
        slow.let_go()
        return await waiting, quick

    late, quick = house.run(send_all())
    assert quick is not None
    assert _codes(house, [quick]) == [("none", 0)]
    assert _codes(house, late) == [("none", 1)]


def test_one_question_for_all_partitions_of_a_request(house: House, slow: SlowWord) -> None:
    producer = init(house)
    slow.let_go()
    sent = [("t", index, producer.batch(b"v")) for index in range(2)]
    frame = produce_frame(house, BUMPED, *sent, transactional_id="t")
    assert _codes(house, [house.send(frame)]) == [("none", 0), ("none", 0)]
    assert [ask.partitions for ask in slow.asked] == [(("t", 0), ("t", 1))]


def test_processes_that_share_a_producer_do_not_wait_for_each_other(
    house: House, slow: SlowWord
) -> None:
    producer = init(house)

    async def send_all() -> list[bytes]:
        frames = [_frame(house, producer, b"v", index=index) for index in range(2)]
        waiting = asyncio.ensure_future(answers(house, *frames))
        await slow.held(2)
        slow.let_go()
        return await waiting

    assert _codes(house, house.run(send_all())) == [("none", 0), ("none", 0)]


def test_a_marker_in_between_closes_the_door(house: House, slow: SlowWord) -> None:
    producer = init(house)
    slow.let_go()
    add(house, producer, ("t", 0), ("t", 1))
    slow.hold()
    marker = Marker(producer_id=producer.producer_id, epoch=0, coordinator_epoch=0, committed=False)

    async def send_late() -> list[bytes]:
        waiting = asyncio.ensure_future(
            answers(house, _frame(house, producer, b"late", version=CLASSIC))
        )
        await slow.held(2)
        partition = house.partition("t")
        partition.append_marker(marker, house.services.clock.wall_ms())
        slow.let_go()
        return await waiting

    assert _codes(house, house.run(send_late()), CLASSIC) == [("invalid_txn_state", -1)]
    assert house.partition("t").log.end_offset == 1, "the marker alone"
    assert house.partition("t").last_stable_offset == 1, "no transaction is left hanging"


def test_so_does_one_of_the_epoch_that_comes_after(house: House, slow: SlowWord) -> None:
    zombie = init(house)

    async def send_late() -> list[bytes]:
        waiting = asyncio.ensure_future(answers(house, _frame(house, zombie, b"late")))
        await slow.held()
        marker = Marker(
            producer_id=zombie.producer_id,
            epoch=1,
            coordinator_epoch=0,
            committed=False,
            transaction_version=2,
        )
        house.partition("t").append_marker(marker, house.services.clock.wall_ms())
        slow.let_go()
        return await waiting

    assert _codes(house, house.run(send_late())) == [("invalid_producer_epoch", -1)]


def test_so_does_an_end_of_the_older_generation(house: House, slow: SlowWord) -> None:
    """One process writes as newer clients do, another that shares its producer ends as older ones
    do: the epoch stays, so the marker has that of the batch."""
    producer = init(house)

    async def send_late() -> list[bytes]:
        waiting = asyncio.ensure_future(answers(house, _frame(house, producer, b"late")))
        await slow.held()
        body = {**producer.body, "committed": True}
        ended = await answer_of(house, frame(house, "end_txn", 4, **body))
        assert ended is not None
        while house.partition("t").log.end_offset == 0:
            await asyncio.sleep(0)
        slow.let_go()
        return await waiting

    assert _codes(house, house.run(send_late())) == [("invalid_txn_state", -1)]
    assert house.partition("t").last_stable_offset == 1, "no transaction is left hanging"


@pytest.mark.parametrize("made_again", [False, True])
def test_a_topic_that_is_deleted_meanwhile(house: House, slow: SlowWord, made_again: bool) -> None:
    producer = init(house)

    async def send_late() -> list[bytes]:
        waiting = asyncio.ensure_future(answers(house, _frame(house, producer, b"late")))
        await slow.held()
        await house.cluster.delete_topics(["t"])
        if made_again:
            await house.cluster.create_topics([NewTopic("t", 2, 1, (), {})])
        slow.let_go()
        return await waiting

    told = house.run(send_late())
    assert _codes(house, told) == [("unknown_topic_or_partition", -1)]
    if made_again:
        assert house.partition("t").log.end_offset == 0


def test_a_leader_of_another_epoch(house: House, slow: SlowWord) -> None:
    producer = init(house)

    async def send_late() -> list[bytes]:
        waiting = asyncio.ensure_future(answers(house, _frame(house, producer, b"late")))
        await slow.held()
        house.partition("t").leader_epoch += 1
        slow.let_go()
        return await waiting

    assert _codes(house, house.run(send_late())) == [("not_leader_or_follower", -1)]


def test_a_client_that_goes_leaves_nothing_behind(house: House, slow: SlowWord) -> None:
    producer = init(house)

    async def send_and_go() -> None:
        waiting = [
            asyncio.ensure_future(answer_of(house, _frame(house, producer, b"v", sequence=n)))
            for n in range(3)
        ]
        await slow.held()
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
        await settle()

    house.run(send_and_go())
    assert house.services.verifying == {}
    slow.let_go()
    assert house.partition("t").log.end_offset == 0
    assert send(house, producer, producer.batch(b"v"))["error_code"] == "none"


class Busy:
    """A coordinator that is ending the last transaction for a while."""

    def __init__(
        self, house: House, monkeypatch: pytest.MonkeyPatch, times: int, error: ErrorCode
    ) -> None:
        self.times = times
        coordinator = house.services.transactions
        for name in ("add_partitions", "verify_partitions"):
            real = getattr(coordinator, name)

            def refuse(ask: AddPartitions, real: Any = real) -> Any:
                self.times -= 1
                if self.times >= 0:
                    raise KafkaError(error)
                return real(ask)

            monkeypatch.setattr(coordinator, name, refuse)


@pytest.mark.parametrize(
    ("version", "told"), [(10, "not_enough_replicas"), (CLASSIC, "not_enough_replicas")]
)
def test_older_clients_come_again_while_the_last_transaction_ends(
    house: House, monkeypatch: pytest.MonkeyPatch, version: int, told: str
) -> None:
    coordinate(house)
    house.topic("t")
    producer = init(house)
    add(house, producer, ("t", 0))
    Busy(house, monkeypatch, 1, ErrorCode.concurrent_transactions)
    assert send(house, producer, producer.batch(b"v"), version=version)["error_code"] == told
    assert send(house, producer, producer.batch(b"v"), version=version)["error_code"] == "none"


def test_for_newer_clients_it_is_waited_a_moment(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinate(house)
    house.topic("t")
    producer = init(house)
    busy = Busy(house, monkeypatch, 2, ErrorCode.concurrent_transactions)
    assert send(house, producer, producer.batch(b"v"))["error_code"] == "none"
    assert busy.times == -1, "asked three times"


def test_but_not_for_ever(
    house: House, build_house: Callable[..., House], monkeypatch: pytest.MonkeyPatch
) -> None:
    house = build_house({**SETTINGS, "add.partitions.to.txn.retry.backoff.max.ms": "50"})
    coordinate(house)
    house.topic("t")
    producer = init(house)
    Busy(house, monkeypatch, 1_000_000, ErrorCode.concurrent_transactions)
    told = send(house, producer, producer.batch(b"v"))
    assert told["error_code"] == "concurrent_transactions"
    assert house.services.verifying == {}


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.network_exception,
    ],
)
@pytest.mark.parametrize("version", [CLASSIC, BUMPED])
def test_errors_that_producers_do_not_know_here(
    house: House, monkeypatch: pytest.MonkeyPatch, version: int, error: ErrorCode
) -> None:
    coordinate(house)
    house.topic("t")
    producer = init(house)
    Busy(house, monkeypatch, 1, error)
    told = send(house, producer, producer.batch(b"v"), version=version)
    assert told["error_code"] == "not_enough_replicas"
    assert error.name.upper() in told["error_message"]


def test_a_batch_that_comes_while_the_last_transaction_ends(house: House) -> None:
    coordinate(house)
    house.topic("t", 2)
    producer = init(house)
    send(house, producer, producer.batch(b"one"))
    answer = end(house, producer, committed=False, version=5)
    successor = producer._replace(epoch=answer["producer_epoch"])
    told = send(house, successor, successor.batch(b"two"))
    assert told["error_code"] == "none"
    finish(house, successor, committed=True, version=5)
    assert values(house) == [b"two"]
