"""How `barnabas consume` prints a message: its value, a line of one's own making, or JSON."""

import json
from collections.abc import Callable
from string import Formatter
from typing import TYPE_CHECKING, Final

from barnabas.cli.output import readable_time, record_object
from barnabas.model.errors import BarnabasError

if TYPE_CHECKING:
    from confluent_kafka import Message

Shape = Callable[["Message"], bytes]
Headers = list[tuple[str, bytes | None]]

_ESCAPES: Final = {r"\n": "\n", r"\t": "\t", r"\0": "\0"}
_TIMESTAMP_TYPES: Final = {1: "CreateTime", 2: "LogAppendTime"}
_NO_TIMESTAMP: Final = -1


def value_shape(null: bytes) -> Shape:
    """The value and a newline."""

    def shape(message: "Message") -> bytes:
        value = message.value()
        return (null if value is None else _bytes(value)) + b"\n"

    return shape


def json_shape(message: "Message") -> bytes:
    """One JSON object and a newline."""
    described = record_object(
        topic=message.topic() or "",
        partition=_number(message.partition()),
        offset=_number(message.offset()),
        timestamp=_timestamp(message),
        timestamp_type=_TIMESTAMP_TYPES.get(message.timestamp()[0], "NoTimestampType"),
        key=_optional(message.key()),
        value=_optional(message.value()),
        headers=_headers(message),
    )
    return json.dumps(described, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def format_shape(template: str, null: bytes) -> Shape:
    """`{partition}:{offset} {key} {value}` and a newline; bytes go out as they are."""
    for written, meant in _ESCAPES.items():
        template = template.replace(written, meant)
    pieces: list[bytes | Callable[[Message], bytes]] = []
    try:
        for literal, field, spec, conversion in Formatter().parse(template):
            pieces.append(literal.encode("utf-8", "surrogateescape"))
            if field is not None:
                if field not in _FIELDS or spec or conversion:
                    raise ValueError(f"there is no {{{field}}}")
                pieces.append(_field(field, null))
    except ValueError as error:
        raise BarnabasError(
            f"--format: {error}; the fields are {', '.join(f'{{{name}}}' for name in _FIELDS)}."
        ) from error

    def shape(message: "Message") -> bytes:
        return b"".join(p if isinstance(p, bytes) else p(message) for p in pieces) + b"\n"

    return shape


def _field(name: str, null: bytes) -> Callable[["Message"], bytes]:
    read = _FIELDS[name]

    def get(message: "Message") -> bytes:
        found = read(message)
        return null if found is None else found

    return get


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _optional(data: str | bytes | None) -> bytes | None:
    return None if data is None else _bytes(data)


def _number(number: int | None) -> int:
    return -1 if number is None else number


def _timestamp(message: "Message") -> int:
    kind, timestamp = message.timestamp()
    return timestamp if kind in _TIMESTAMP_TYPES else _NO_TIMESTAMP


def _headers(message: "Message") -> Headers:
    found = message.headers() or []
    entries = found.items() if isinstance(found, dict) else found
    return [(name, _optional(value)) for name, value in entries]


def _header_text(message: "Message") -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in _headers(message))


_FIELDS: Final[dict[str, Callable[["Message"], bytes | None]]] = {
    "topic": lambda message: (message.topic() or "").encode(),
    "partition": lambda message: str(message.partition()).encode(),
    "offset": lambda message: str(message.offset()).encode(),
    "key": lambda message: _optional(message.key()),
    "value": lambda message: _optional(message.value()),
    "timestamp": lambda message: str(_timestamp(message)).encode(),
    "time": lambda message: readable_time(_timestamp(message)).encode(),
    "headers": _header_text,
}
