"""Lines that are events, and lines that are not: every one of them gets its sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.model.topics import TopicPartition
from barnabas.verify import parsing
from barnabas.verify.checker import check
from barnabas.verify.history import (
    CommittedOffset,
    Event,
    EventType,
    Function,
    HistoryError,
    Isolation,
    Poll,
    Send,
    Start,
)
from barnabas.verify.parsing import parse_line, parse_lines, read_histories

T0 = TopicPartition("t", 0)


def _line(**fields: Any) -> bytes:
    event = {"process": "p", "type": "invoke", "f": "txn", "time": 1, **fields}
    return json.dumps({key: each for key, each in event.items() if each is not ...}).encode()


def test_every_field() -> None:
    event = parse_line(
        _line(
            value=[["send", "t", 0, "a"], ["send", "t", 0, "b", 3, "k"],
                   ["poll", "t", 0, [[1, "c"]], 2], ["poll", "t", 0], ["offset", "g", "t", 0, 9]],
            isolation="read_uncommitted", idempotent=False, rebalanced=True,
        ),
        "h:7",
    )  # fmt: skip
    assert event == Event(
        "p", EventType.INVOKE, Function.TXN, 1,
        (Send(T0, "a"), Send(T0, "b", 3, "k"), Poll(T0, ((1, "c"),), 2), Poll(T0, ()),
         CommittedOffset("g", T0, 9)),
        Isolation.READ_UNCOMMITTED, False, True, "h:7",
    )  # fmt: skip


def test_a_number_is_a_name_too() -> None:
    assert parse_line(_line(process=5)).process == "5"


def test_assignments_and_subscriptions() -> None:
    event = parse_line(_line(type="ok", f="assign", value=[["t", 0, 5], ["t", 0]]))
    assert event.steps == (Start(T0, 5), Start(T0, None))
    assert parse_line(_line(type="ok", f="subscribe", value=["t"])).steps == (Start(T0, None),)
    assert parse_line(_line(type="info", f="crash")).steps == ()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"process": ...}, "process is a text, not None"),
        ({"process": ""}, "process is a text"),
        ({"process": True}, "process is a text"),
        ({"type": "done"}, "type is one of invoke, commit, ok, fail, info, not 'done'"),
        ({"type": ["ok"]}, "type is one of"),
        ({"f": "write"}, "f is one of send, poll"),
        ({"f": ...}, "f is one of"),
        ({"time": 1.5}, "time is a number from 0 on, not 1.5"),
        ({"time": -1}, "time is a number"),
        ({"time": 1 << 63}, "time is a number"),
        ({"color": "red"}, "there is no field 'color'"),
        ({"value": {}}, "value is a list"),
        ({"value": ["send"]}, "'send' is no step of txn"),
        ({"value": [[]]}, r"\[\] is no step of txn"),
        ({"value": [["fly", "t", 0]]}, "is no step of txn"),
        ({"value": [[["send"], "t", 0, "v"]]}, "is no step of txn"),
        ({"value": [["send", "t", 0]]}, "has 3 parts, not 4 to 6"),
        ({"value": [["send", "t", "0", "v"]]}, "a partition is a number"),
        ({"value": [["send", "t", 0, 7]]}, "a value is a text, not 7"),
        ({"value": [["send", "t", 0, "v", -1]]}, "an offset is a number"),
        ({"value": [["send", "t", 0, "v", 1, 1]]}, "a key is a text"),
        ({"value": [["poll", "t", 0, {}]]}, "the records of a poll are a list"),
        ({"value": [["poll", "t", 0, [[1]]]]}, r"\[1\] is no \[offset, value\]"),
        ({"value": [["poll", "t", 0, [[1, "v"]], 1]]}, "position 1 is not behind"),
        ({"value": [["offset", "", "t", 0, 1]]}, "a group is a text"),
        ({"f": "poll", "value": [["send", "t", 0, "v"]]}, "is no step of poll"),
        ({"f": "send", "value": [["offset", "g", "t", 0, 1]]}, "is no step of send"),
        ({"f": "assign"}, "assign has one line, of type ok"),
        ({"f": "assign", "type": "ok", "value": ["t"]}, "is no"),
        ({"f": "crash", "type": "ok"}, "crash has one line, of type info"),
        ({"f": "send", "type": "commit"}, "only a txn is asked to commit"),
        ({"isolation": "serializable"}, "isolation is one of"),
        ({"idempotent": 1}, "idempotent is true or false"),
        ({"rebalanced": None}, "rebalanced is true or false"),
    ],
)
def test_what_is_no_event(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(HistoryError, match=f"^h:3: .*{problem}.*\\.$"):
        parse_line(_line(**fields), "h:3")


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000, b"1" * 5000])
def test_what_is_no_line(line: bytes) -> None:
    with pytest.raises(HistoryError):
        parse_line(line)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_event_or_an_error(line: bytes) -> None:
    _parse(line)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["send", "poll", "offset", "t"]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)  # fmt: skip


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "process": st.just("p") | _JSON,
            "type": st.sampled_from(["invoke", "commit", "ok", "fail", "info"]) | _JSON,
            "f": st.sampled_from([each.value for each in Function]) | _JSON,
            "time": st.integers(0, 9) | _JSON,
            "value": _JSON | st.lists(st.lists(_JSON, max_size=6), max_size=3),
            "isolation": _JSON,
            "idempotent": st.booleans() | _JSON,
        },
    )
)
def test_any_object_is_an_event_or_an_error(fields: dict[str, Any]) -> None:
    _parse(json.dumps(fields).encode())


@given(st.data())
def test_a_line_with_changed_bytes_is_an_event_or_an_error(data: st.DataObject) -> None:
    line = bytearray(_line(type="ok", f="poll", value=[["poll", "t", 0, [[1, "c"], [2, "d"]], 9]]))
    for _ in range(data.draw(st.integers(1, 4))):
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    _parse(bytes(line))


def _parse(line: bytes) -> None:
    try:
        event: object = parse_line(line)
    except HistoryError as error:
        event = error
    assert isinstance(event, Event) or str(event).startswith("history: ")


# --- lines together ----------------------------------------------------------------------------


def test_time_does_not_go_back() -> None:
    with pytest.raises(HistoryError, match=r"^history:2: time goes back, from 5 to 4"):
        list(parse_lines([_line(time=5) + b"\n", _line(time=4) + b"\n"]))


def test_a_line_that_was_cut_off_is_left_out() -> None:
    whole = _line() + b"\n"
    assert len(list(parse_lines([whole, _line(time=2)]))) == 2
    assert len(list(parse_lines([whole, _line(time=2)[:-5]]))) == 1
    with pytest.raises(HistoryError):
        list(parse_lines([_line()[:-5] + b"\n", whole]))


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([{}, {}], "p begins txn before its last operation has ended"),
        ([{"type": "ok"}], "p has not begun the txn"),
        ([{"type": "commit"}], "p has not begun the txn that this is the commit of"),
        ([{}, {"type": "ok", "f": "send"}], "p has not begun the send"),
        ([{}, {"type": "ok"}], "has committed without having been asked"),
        ([{"value": [["send", "t", 0, "a"], ["send", "t", 0, "a"]]}], "values must be unique"),
        ([{"f": "send", "value": [["send", "t", 0, "a"]]},
          {"f": "send", "type": "ok", "value": [["send", "t", 0, "b", 1]]}], "not those it began"),
    ],
)  # fmt: skip
def test_what_is_no_history(lines: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(HistoryError, match=f"^history:{len(lines)}: .*{problem}"):
        check(parse_lines([_line(**fields) + b"\n" for fields in lines]))


def test_files_of_one_run_are_put_in_order(tmp_path: Path) -> None:
    for number in (1, 2):
        path = tmp_path / f"{number}.jsonl"
        lines = [_line(process=number, time=number + 2 * each) for each in range(3)]
        path.write_bytes(b"\n".join(lines) + b"\n")
    events = list(read_histories(sorted(tmp_path.iterdir())))
    assert [event.time for event in events] == [1, 2, 3, 4, 5, 6]
    assert events[3].source == "2.jsonl:2"


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "LINE_BYTES_MAX", 100)
    path = tmp_path / "long.jsonl"
    path.write_bytes(b" " * 101)
    with pytest.raises(HistoryError, match="longer than 100 bytes"):
        list(read_histories([path]))
