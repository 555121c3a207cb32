"""Lines of JSON to events: strict, with errors that name the line; bounded by the longest line."""

import heapq
import json
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from barnabas.model.topics import TopicPartition
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
    Step,
)

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A poll of a whole partition is one line; more than this is no history."""
_NUMBER_MAX: Final = (1 << 63) - 1
_FIELDS: Final = frozenset(
    {"process", "type", "f", "time", "value", "isolation", "idempotent", "rebalanced"}
)
_TYPES: Final = {each.value: each for each in EventType}
_FUNCTIONS: Final = {each.value: each for each in Function}
_ISOLATIONS: Final = {each.value: each for each in Isolation}
_STEPS: Final[dict[Function, frozenset[str]]] = {
    Function.SEND: frozenset({"send"}),
    Function.POLL: frozenset({"poll"}),
    Function.TXN: frozenset({"send", "poll", "offset"}),
    Function.ASSIGN: frozenset(),
    Function.SUBSCRIBE: frozenset(),
    Function.CRASH: frozenset(),
    Function.OFFSET_COMMIT: frozenset({"offset"}),
    Function.OFFSET_FETCH: frozenset({"offset"}),
}
"""Which steps an operation may be made of."""
_ALONE: Final = {
    Function.ASSIGN: EventType.OK,
    Function.SUBSCRIBE: EventType.OK,
    Function.CRASH: EventType.INFO,
}
"""What is told in one line, of this type."""


class _WrongError(Exception):
    """What is wrong with a line, as the end of a sentence."""


def read_histories(paths: Iterable[Path]) -> Iterator[Event]:
    """The events of several files of one run, in the order of their time."""
    return heapq.merge(*(read_history(path) for path in paths), key=attrgetter("time"))


def read_history(path: Path) -> Iterator[Event]:
    """The events of one file. HistoryError where a line makes no sense, OSError."""
    with path.open("rb") as file:
        yield from parse_lines(_bounded(file, path.name), path.name)


def _bounded(file: Any, name: str) -> Iterator[bytes]:
    while line := file.readline(LINE_BYTES_MAX + 1):
        if len(line) > LINE_BYTES_MAX:
            raise HistoryError(f"{name}: a line is longer than {LINE_BYTES_MAX} bytes.")
        yield line


def parse_lines(lines: Iterable[bytes], name: str = "history") -> Iterator[Event]:
    """Events out of lines whose time does not go back.

    A last line without its newline is left out unless it is whole: whoever recorded it was killed
    while it wrote.
    """
    latest = 0
    for number, line in enumerate(lines, 1):
        source = f"{name}:{number}"
        try:
            event = parse_line(line, source)
        except HistoryError:
            if not line.endswith(b"\n"):
                return
            raise
        if event.time < latest:
            raise HistoryError(f"{source}: time goes back, from {latest} to {event.time}.")
        latest = event.time
        yield event


def parse_line(line: bytes, source: str = "history") -> Event:
    """One event. HistoryError unless it is one, to the last field."""
    try:
        fields = json.loads(line)
        return _event(fields, source)
    except (ValueError, RecursionError) as error:
        raise HistoryError(f"{source}: this is no line of JSON: {error}.") from error
    except _WrongError as wrong:
        raise HistoryError(f"{source}: {wrong}.") from wrong


def _event(fields: Any, source: str) -> Event:
    if type(fields) is not dict:
        raise _WrongError("a line is an object, like {...}")
    unknown = fields.keys() - _FIELDS
    if unknown:
        raise _WrongError(f"there is no field {_shown(min(unknown))}")
    kind: EventType = _one_of(fields, "type", _TYPES)
    function: Function = _one_of(fields, "f", _FUNCTIONS)
    alone = _ALONE.get(function)
    if alone is not None and kind is not alone:
        raise _WrongError(f"{function} has one line, of type {alone}")
    if kind is EventType.COMMIT and function is not Function.TXN:
        raise _WrongError("only a txn is asked to commit")
    return Event(
        process=_process(fields.get("process")),
        type=kind,
        f=function,
        time=_number(fields.get("time"), "time"),
        steps=_steps(function, fields.get("value")),
        isolation=_one_of(fields, "isolation", _ISOLATIONS, Isolation.READ_COMMITTED),
        idempotent=_flag(fields, "idempotent", True),
        rebalanced=_flag(fields, "rebalanced", False),
        source=source,
    )


def _steps(function: Function, value: Any) -> tuple[Step, ...]:
    if value is None:
        return ()
    if type(value) is not list:
        raise _WrongError("value is a list of steps")
    if function is Function.ASSIGN:
        return tuple(_start(each) for each in value)
    if function is Function.SUBSCRIBE:
        return tuple(Start(TopicPartition(_text(each, "a topic"), 0), None) for each in value)
    allowed = _STEPS[function]
    steps: list[Step] = []
    for step in value:
        name = step[0] if type(step) is list and step else None
        if type(name) is not str or name not in allowed:
            raise _WrongError(f"{_shown(step)} is no step of {function}")
        steps.append(_READERS[name](step))
    return tuple(steps)


def _send(step: list[Any]) -> Send:
    """["send", topic, partition, value, offset, key]: offset and key may be missing or null."""
    _, topic, partition, value, offset, key = _padded(step, 4, 6)
    return Send(
        _place(topic, partition),
        _text(value, "a value"),
        None if offset is None else _number(offset, "an offset"),
        None if key is None else _text(key, "a key"),
    )


def _poll(step: list[Any]) -> Poll:
    """["poll", topic, partition, [[offset, value], ...], position]: records, position optional."""
    _, topic, partition, records, position = _padded(step, 3, 5)
    if records is None:
        records = []
    if type(records) is not list:
        raise _WrongError("the records of a poll are a list")
    found = tuple([_record(each) for each in records])
    if position is not None and found and _number(position, "a position") <= found[-1][0]:
        raise _WrongError(f"position {position} is not behind the last record, {found[-1][0]}")
    return Poll(
        _place(topic, partition),
        found,
        None if position is None else _number(position, "a position"),
    )


def _record(record: Any) -> tuple[int, str]:
    if type(record) is not list or len(record) != 2:
        raise _WrongError(f"{_shown(record)} is no [offset, value]")
    offset, value = record
    return _number(offset, "an offset"), _text(value, "a value")


def _offset(step: list[Any]) -> CommittedOffset:
    """["offset", group, topic, partition, offset]: null where nothing is committed."""
    _, group, topic, partition, offset = _padded(step, 4, 5)
    return CommittedOffset(
        _text(group, "a group"),
        _place(topic, partition),
        None if offset is None else _number(offset, "an offset"),
    )


def _start(step: Any) -> Start:
    """[topic, partition, offset]: the offset may be missing or null."""
    if type(step) is not list:
        raise _WrongError(f"{_shown(step)} is no [topic, partition, offset]")
    topic, partition, offset = _padded(step, 2, 3)
    return Start(_place(topic, partition), None if offset is None else _number(offset, "an offset"))


_READERS: Final[dict[str, Any]] = {"send": _send, "poll": _poll, "offset": _offset}


def _padded(step: list[Any], least: int, most: int) -> list[Any]:
    if not least <= len(step) <= most:
        raise _WrongError(f"{_shown(step)} has {len(step)} parts, not {least} to {most}")
    return step + [None] * (most - len(step))


def _place(topic: Any, partition: Any) -> TopicPartition:
    return TopicPartition(_text(topic, "a topic"), _number(partition, "a partition"))


def _process(value: Any) -> str:
    if type(value) is int:
        return str(value)
    return _text(value, "process")


def _text(value: Any, what: str) -> str:
    if type(value) is not str or not value:
        raise _WrongError(f"{what} is a text, not {_shown(value)}")
    return value


def _number(value: Any, what: str) -> int:
    if type(value) is not int or not 0 <= value <= _NUMBER_MAX:
        raise _WrongError(f"{what} is a number from 0 on, not {_shown(value)}")
    return value


def _flag(fields: dict[str, Any], name: str, default: bool) -> bool:
    value = fields.get(name, default)
    if type(value) is not bool:
        raise _WrongError(f"{name} is true or false, not {_shown(value)}")
    return value


def _one_of(fields: dict[str, Any], name: str, known: dict[str, Any], default: Any = None) -> Any:
    if default is not None and name not in fields:
        return default
    value = fields.get(name)
    if type(value) is not str or value not in known:
        raise _WrongError(f"{name} is one of {', '.join(known)}, not {_shown(value)}")
    return known[value]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
