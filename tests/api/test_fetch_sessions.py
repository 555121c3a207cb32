"""Fetch sessions (KIP-227): what is remembered for a consumer, and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.api.hot_path import (
    Row,
    StillClock,
    batch,
    fetch,
    fetch_rows,
    produce,
    stored,
    wanted,
)

from barnabas.api.fetch_sessions import FetchSessions, Resolved
from barnabas.model import limits
from barnabas.model.errors import KafkaError
from barnabas.sim.entropy import SimEntropy
from barnabas.wire.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

if TYPE_CHECKING:
    from tests.api.conftest import House

ONE = batch(b"one")
SESSION_VERSIONS = range(7, 19)
EVICTABLE_S = 120.0


def _said(answer: Row) -> dict[int, tuple[str, bytes]]:
    return {
        row["partition_index"]: (row["error_code"], row["records"]) for row in fetch_rows(answer)
    }


class Reader:
    """A consumer with a session."""

    def __init__(self, house: House, version: int, *parts: Row, topic: str = "t") -> None:
        self._house, self.version, self._topic = house, version, topic
        self.opened = fetch(house, version, (topic, parts), session_epoch=0)
        self.id, self.epoch = self.opened["session_id"], 1

    def ask(self, *parts: Row, **options: Any) -> Row:
        """The next request of the session, naming only these partitions."""
        topics = [(self._topic, parts)] if parts else []
        answer = fetch(
            self._house,
            self.version,
            *topics,
            session_id=self.id,
            session_epoch=self.epoch,
            **options,
        )
        self.epoch += 1
        return answer


# --- what is told -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_first_everything_then_what_changed(house: House, version: int) -> None:
    house.topic("t", 3)
    produce(house, 12, ("t", 0, ONE))
    reader = Reader(house, version, *(wanted(index) for index in range(3)))
    assert reader.id > 0
    assert _said(reader.opened) == {0: ("none", stored(ONE, 0)), 1: ("none", b""), 2: ("none", b"")}
    # The offset did not move, so the same records come again.
    assert _said(reader.ask()) == {0: ("none", stored(ONE, 0))}
    assert _said(reader.ask(wanted(0, 1))) == {}
    produce(house, 12, ("t", 2, ONE))
    assert _said(reader.ask()) == {2: ("none", stored(ONE, 0))}
    answer = reader.ask(wanted(2, 1))
    assert (_said(answer), answer["session_id"]) == ({}, reader.id)
    assert len(house.services.sessions) == 1


def test_a_moved_watermark_or_log_start_is_news(house: House) -> None:
    house.topic("t", 2)
    for index in range(2):
        produce(house, 12, ("t", index, ONE))
    reader = Reader(house, 12, wanted(0, 1), wanted(1, 1))
    assert _said(reader.ask()) == {}
    house.partition("t", 1).log.advance_start(1)
    assert _said(reader.ask()) == {1: ("none", b"")}
    assert _said(reader.ask()) == {}
    house.partition("t", 0).high_watermark = 0
    assert _said(reader.ask()) == {0: ("none", b"")}
    assert _said(reader.ask()) == {}


def test_an_error_is_told_every_time_and_its_end_once(house: House) -> None:
    house.topic("t", 2)
    reader = Reader(house, 13, wanted(0), wanted(1, 7))
    bad = ("offset_out_of_range", b"")
    assert _said(reader.opened)[1] == bad
    assert [_said(reader.ask()) for _ in range(2)] == [{1: bad}] * 2
    assert _said(reader.ask(wanted(1, 0))) == {1: ("none", b"")}
    assert _said(reader.ask()) == {}


def test_a_parting_of_logs_is_told_every_time(house: House) -> None:
    house.topic("t")
    for epoch in (0, 2):
        house.partition("t").leader_epoch = epoch
        produce(house, 12, ("t", 0, ONE))
    reader = Reader(house, 12, wanted(0, 2, last_fetched_epoch=1))
    for answer in (reader.opened, reader.ask(), reader.ask()):
        (row,) = fetch_rows(answer)
        assert row["diverging_epoch"] == {"epoch": 0, "end_offset": 1}


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_partitions_come_and_go(house: House, version: int) -> None:
    house.topic("t", 3)
    for index in range(3):
        produce(house, 12, ("t", index, ONE))
    reader = Reader(house, version, wanted(0))
    assert _said(reader.ask(wanted(1))).keys() == {0, 1}
    assert _said(reader.ask(forgotten=[("t", [0])])).keys() == {1}
    assert _said(reader.ask(wanted(2), forgotten=[("t", [1])])).keys() == {2}
    assert _said(reader.ask(forgotten=[("t", [0, 1, 99])])).keys() == {2}


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_a_session_without_partitions_ends(house: House, version: int) -> None:
    house.topic("t", 2)
    reader = Reader(house, version, wanted(0), wanted(1))
    answer = reader.ask(forgotten=[("t", [0, 1])])
    assert (answer["error_code"], answer["session_id"], answer["responses"]) == ("none", 0, [])
    assert len(house.services.sessions) == 0
    assert reader.ask()["error_code"] == "fetch_session_id_not_found"


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_a_session_is_closed_by_its_last_request(house: House, version: int) -> None:
    house.topic("t")
    reader = Reader(house, version, wanted())
    answer = fetch(house, version, session_id=reader.id, session_epoch=-1)
    assert (answer["error_code"], answer["session_id"], answer["responses"]) == ("none", 0, [])
    assert reader.ask()["error_code"] == "fetch_session_id_not_found"


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_a_full_request_replaces_the_session(house: House, version: int) -> None:
    house.topic("t", 2)
    reader = Reader(house, version, wanted(0))
    answer = fetch(
        house, version, ("t", [wanted(0), wanted(1)]), session_id=reader.id, session_epoch=0
    )
    assert answer["session_id"] not in (0, reader.id)
    assert _said(answer).keys() == {0, 1}
    assert reader.ask()["error_code"] == "fetch_session_id_not_found"
    assert len(house.services.sessions) == 1


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_a_request_out_of_step(house: House, version: int) -> None:
    house.topic("t")
    produce(house, 12, ("t", 0, ONE))
    reader = Reader(house, version, wanted())
    for number, epoch, error in [
        (reader.id, 9, "invalid_fetch_session_epoch"),
        (reader.id, 2, "invalid_fetch_session_epoch"),
        (reader.id, -2, "invalid_fetch_session_epoch"),
        (reader.id ^ 1, 1, "fetch_session_id_not_found"),
        (0, 1, "fetch_session_id_not_found"),
    ]:
        answer = fetch(house, version, session_id=number, session_epoch=epoch)
        assert (answer["error_code"], answer["session_id"]) == (error, 0)
        assert answer["responses"] == []
    # The session itself has not noticed.
    assert _said(reader.ask()) == {0: ("none", stored(ONE, 0))}


@pytest.mark.parametrize(("first", "then"), [(12, 13), (13, 12), (7, 18), (18, 7)])
def test_names_and_ids_do_not_mix(house: House, first: int, then: int) -> None:
    house.topic("t")
    reader = Reader(house, first, wanted())
    answer = fetch(house, then, session_id=reader.id, session_epoch=1)
    assert (answer["error_code"], answer["session_id"]) == ("fetch_session_topic_id_error", 0)
    assert reader.ask()["error_code"] == "none"


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_without_a_session_nothing_is_remembered(house: House, version: int) -> None:
    house.topic("t")
    for epoch, topics in [(-1, [("t", [wanted()])]), (0, [])]:
        answer = fetch(house, version, *topics, session_id=0, session_epoch=epoch)
        assert (answer["error_code"], answer["session_id"]) == ("none", 0)
    assert len(house.services.sessions) == 0


def test_a_partition_named_twice_is_remembered_once(house: House) -> None:
    house.topic("t")
    produce(house, 12, ("t", 0, ONE))
    reader = Reader(house, 12, wanted(0, 0), wanted(0, 1))
    assert _said(reader.opened) == {0: ("none", b"")}
    assert len(fetch_rows(reader.opened)) == 1
    assert _said(reader.ask(wanted(0, 1), wanted(0, 0))) == {0: ("none", stored(ONE, 0))}


def test_everybody_gets_a_turn(house: House) -> None:
    house.topic("t", 4)
    for index in range(4):
        for _ in range(3):
            produce(house, 12, ("t", index, ONE))
    reader = Reader(house, 12, *(wanted(index, partition_max_bytes=1) for index in range(4)))

    def served(answer: Row) -> list[int]:
        return [row["partition_index"] for row in fetch_rows(answer) if row["records"]]

    # Room for one batch in each answer: the partition that got it goes to the end.
    turns = [served(reader.opened)] + [served(reader.ask(max_bytes=1)) for _ in range(8)]
    assert turns[0] == [0]
    assert turns == [[n % 4] for n in range(9)]


def test_a_topic_that_goes_away_and_comes_back(house: House) -> None:
    house.topic("t")
    by_name, by_id = Reader(house, 12, wanted()), Reader(house, 13, wanted())
    house.run(house.cluster.delete_topics(["t"]))
    assert _said(by_name.ask()) == {0: ("unknown_topic_or_partition", b"")}
    assert _said(by_id.ask()) == {0: ("unknown_topic_id", b"")}
    house.topic("t")
    assert _said(by_name.ask()) == {0: ("none", b"")}
    assert _said(by_id.ask()) == {0: ("unknown_topic_id", b"")}


# --- what is remembered -------------------------------------------------------------------------


def _request(
    session_id: int,
    epoch: int,
    asked: Iterable[tuple[str, int, int]] = (),
    forgotten: Iterable[tuple[str, int]] = (),
) -> FetchRequest:
    """`asked`: topic, partition and offset."""
    topics = [
        FetchTopic(name, None, [FetchPartition(index, -1, offset, -1, -1, 100)])
        for name, index, offset in asked
    ]
    gone = [ForgottenTopic(name, None, [index]) for name, index in forgotten]
    return FetchRequest(-1, -1, 0, 1, 100, 0, session_id, epoch, topics, gone)


def _sessions(slots: int = 1000) -> tuple[FetchSessions, StillClock]:
    clock = StillClock()
    return FetchSessions(clock, SimEntropy("sessions"), slots), clock


def _open(sessions: FetchSessions, *asked: tuple[str, int, int]) -> int:
    session = sessions.resolve(12, _request(0, 0, asked)).session
    return 0 if session is None else session.id


def _error(resolve: Callable[[], Resolved]) -> str:
    with pytest.raises(KafkaError) as caught:
        resolve()
    return caught.value.code.name


def test_a_full_house_serves_without_sessions_until_one_is_old() -> None:
    sessions, clock = _sessions(slots=2)
    first, second = _open(sessions, ("t", 0, 0)), _open(sessions, ("t", 1, 0))
    assert 0 not in (first, second)
    clock.now_s += EVICTABLE_S - 1
    assert _open(sessions, ("t", 2, 0)) == 0
    sessions.resolve(12, _request(first, 1))
    clock.now_s += 1
    # The second has not been used for so long; the first has.
    assert _open(sessions, ("t", 2, 0)) != 0
    assert len(sessions) == 2
    assert _error(lambda: sessions.resolve(12, _request(second, 1))) == "fetch_session_id_not_found"
    assert sessions.resolve(12, _request(first, 2)).incremental


def test_without_slots_there_are_no_sessions() -> None:
    sessions, _ = _sessions(slots=0)
    resolved = sessions.resolve(12, _request(0, 0, [("t", 0, 0)]))
    assert (len(resolved.wanted), resolved.session, len(sessions)) == (1, None, 0)


def test_sessions_do_not_hoard_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FETCH_SESSION_PARTITIONS_MAX", 5)
    sessions, clock = _sessions()
    parts = [("t", index, 0) for index in range(6)]
    assert _open(sessions, *parts) == 0
    three, two = _open(sessions, *parts[:3]), _open(sessions, *parts[:2])
    assert 0 not in (three, two)
    assert _open(sessions, parts[0]) == 0
    # One more than there is room for ends the session, so that nothing is forgotten in silence.
    more = _request(two, 1, parts[2:3])
    assert _error(lambda: sessions.resolve(12, more)) == "fetch_session_id_not_found"
    assert len(sessions) == 1
    # What was given back can be used again: by forgetting, by closing, by age.
    sessions.resolve(12, _request(three, 1, forgotten=[("t", 0)]))
    assert _open(sessions, *parts[:3]) != 0
    sessions.resolve(12, _request(three, -1))
    assert _open(sessions, *parts[:2]) != 0
    assert _open(sessions, parts[0]) == 0
    clock.now_s += EVICTABLE_S
    assert _open(sessions, *parts[:5]) != 0
    assert len(sessions) == 1


def test_epochs_begin_again_after_the_last() -> None:
    sessions, _ = _sessions()
    number = _open(sessions, ("t", 0, 0))
    session = sessions.resolve(12, _request(number, 1)).session
    assert session is not None
    session.epoch = 2**31 - 1
    sessions.resolve(12, _request(number, 2**31 - 1))
    assert sessions.resolve(12, _request(number, 1)).session is session


_parts = st.lists(
    st.tuples(st.sampled_from("tu"), st.integers(0, 3), st.integers(0, 99)), max_size=5
)
_names = st.lists(st.tuples(st.sampled_from("tu"), st.integers(0, 3)), max_size=4)


class SessionMachine(RuleBasedStateMachine):
    """Sessions against a plain account of what each consumer has said."""

    SLOTS = 3

    def __init__(self) -> None:
        super().__init__()
        self.sessions, self.clock = _sessions(self.SLOTS)
        self.known: dict[int, dict[tuple[str, int], int]] = {}
        """What each session wants, least recently used first."""
        self.epochs: dict[int, int] = {}
        self.used: dict[int, float] = {}
        self.gone: set[int] = {0}

    def _forget(self, number: int) -> None:
        if number in self.known:
            for each in (self.known, self.epochs, self.used):
                del each[number]
            self.gone.add(number)

    def _pick(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.known)))

    @rule(parts=_parts, data=st.data())
    def opens(self, parts: list[Any], data: st.DataObject) -> None:
        replaced = data.draw(st.sampled_from([*sorted(self.known), *sorted(self.gone)]))
        resolved = self.sessions.resolve(12, _request(replaced, 0, parts))
        self._forget(replaced)
        asked = {(name, index): offset for name, index, offset in parts}
        assert not resolved.incremental
        assert _plain(resolved) == list(asked.items())
        oldest = next(iter(self.known), None)
        full = len(self.known) >= self.SLOTS
        old = oldest is not None and self.clock.now_s - self.used[oldest] >= EVICTABLE_S
        if not asked or (full and not old):
            assert resolved.session is None
            return
        if full and oldest is not None:
            self._forget(oldest)
        assert resolved.session is not None
        number = resolved.session.id
        assert number not in self.known
        assert number not in self.gone
        self.known[number], self.epochs[number] = asked, 1
        self.used[number] = self.clock.now_s

    @precondition(lambda self: self.known)
    @rule(parts=_parts, forgotten=_names, data=st.data())
    def goes_on(self, parts: list[Any], forgotten: list[Any], data: st.DataObject) -> None:
        number = self._pick(data)
        asked = self.known[number]
        for name, index, offset in parts:
            asked[name, index] = offset
        for name, index in forgotten:
            asked.pop((name, index), None)
        request = _request(number, self.epochs[number], parts, forgotten)
        resolved = self.sessions.resolve(12, request)
        assert _plain(resolved) == list(asked.items())
        if not asked:
            assert resolved.session is None
            self._forget(number)
            return
        assert resolved.incremental
        assert resolved.session is not None
        assert resolved.session.id == number
        self.epochs[number] += 1
        self.used[number] = self.clock.now_s
        self.known[number] = self.known.pop(number)

    @precondition(lambda self: self.known)
    @rule(epoch=st.integers(-3, 20).filter(lambda epoch: epoch not in (0, -1)), data=st.data())
    def is_out_of_step(self, epoch: int, data: st.DataObject) -> None:
        number = self._pick(data)
        if epoch == self.epochs[number]:
            epoch += 1
        error = _error(lambda: self.sessions.resolve(12, _request(number, epoch)))
        assert error == "invalid_fetch_session_epoch"

    @rule(epoch=st.integers(1, 5), parts=_parts, data=st.data())
    def is_long_gone(self, epoch: int, parts: list[Any], data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.gone)))
        error = _error(lambda: self.sessions.resolve(12, _request(number, epoch, parts)))
        assert error == "fetch_session_id_not_found"

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def speaks_of_ids_instead_of_names(self, data: st.DataObject) -> None:
        number = self._pick(data)
        request = _request(number, self.epochs[number])
        assert _error(lambda: self.sessions.resolve(13, request)) == "fetch_session_topic_id_error"

    @precondition(lambda self: self.known)
    @rule(parts=_parts, data=st.data())
    def closes(self, parts: list[Any], data: st.DataObject) -> None:
        number = self._pick(data)
        resolved = self.sessions.resolve(12, _request(number, -1, parts))
        assert resolved.session is None
        self._forget(number)

    @rule(seconds=st.sampled_from([1.0, 60.0, EVICTABLE_S]))
    def time_goes_by(self, seconds: float) -> None:
        self.clock.now_s += seconds

    @invariant()
    def nobody_else_is_remembered(self) -> None:
        assert len(self.sessions) == len(self.known) <= self.SLOTS


def _plain(resolved: Resolved) -> list[tuple[tuple[str | None, int], int]]:
    return [
        ((each.topic.name, each.partition.index), each.partition.fetch_offset)
        for each in resolved.wanted
    ]


SessionMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
TestSessions = SessionMachine.TestCase
