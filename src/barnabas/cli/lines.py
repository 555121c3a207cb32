"""Lines into messages: what `barnabas produce` reads."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from barnabas.model.errors import BarnabasError

Header = tuple[str, bytes | None]


class NewMessage(NamedTuple):
    """What is to be sent; None for a partition or timestamp means: not said."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]
    partition: int | None
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class LineRules:
    """How a line becomes a message."""

    key: bytes | None = None
    key_separator: bytes | None = None
    headers: list[Header] = field(default_factory=list)
    partition: int | None = None
    timestamp: int | None = None
    null_value: bytes | None = None
    from_json: bool = False


_FIELDS: Final = (
    "key", "value", "headers", "partition", "timestamp", "timestamp_type", "topic", "offset",
)  # fmt: skip
"""The last three are what `consume --json` adds; they are not asked for."""


def messages(lines: Iterable[bytes], rules: LineRules) -> Iterator[NewMessage]:
    """A message a line. Raises BarnabasError with the line's number when one makes no sense."""
    for number, line in enumerate(lines, 1):
        text = line.removesuffix(b"\n")
        try:
            yield _from_json(text, rules) if rules.from_json else _from_text(text, rules)
        except ValueError as error:
            raise BarnabasError(f"Line {number} {error}.") from error


def _from_text(line: bytes, rules: LineRules) -> NewMessage:
    key, value = rules.key, line
    if rules.key_separator is not None:
        key, found, value = line.partition(rules.key_separator)
        if not found:
            raise ValueError(f"has no {rules.key_separator.decode(errors='replace')!r} in it")
    is_null = rules.null_value is not None and value == rules.null_value
    return NewMessage(
        key, None if is_null else value, rules.headers, rules.partition, rules.timestamp
    )


def _from_json(line: bytes, rules: LineRules) -> NewMessage:
    try:
        parsed = json.loads(line)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise ValueError('is not a JSON object such as {"key": "k", "value": "v"}')
    unknown = parsed.keys() - _FIELDS
    if unknown:
        raise ValueError(f"has {', '.join(sorted(unknown))} in it; known are {', '.join(_FIELDS)}")
    if "value" not in parsed:
        raise ValueError('has no "value" (null is written as null)')
    return NewMessage(
        _bytes_of(parsed, "key") if "key" in parsed else rules.key,
        _bytes_of(parsed, "value"),
        [*rules.headers, *_headers_of(parsed)],
        _integer_of(parsed, "partition", rules.partition),
        _integer_of(parsed, "timestamp", rules.timestamp),
    )


def _bytes_of(parsed: dict[str, Any], name: str) -> bytes | None:
    return _bytes(parsed.get(name), name)


def _bytes(value: object, name: str) -> bytes | None:
    """Text as UTF-8, `{"base64": …}` as those bytes, other JSON as its own text."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, dict) and set(value) == {"base64"} and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"has a {name} whose base64 can not be read: {error}") from error
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _headers_of(parsed: dict[str, Any]) -> list[Header]:
    given = parsed.get("headers") or []
    entries = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(entries, list):
        raise ValueError("has headers that are neither a list of [name, value] nor an object")
    headers = []
    for entry in entries:
        if not isinstance(entry, list | tuple) or len(entry) != 2:
            raise ValueError("has a header that is not [name, value]")
        name = _bytes(entry[0], "header name")
        if name is None:
            raise ValueError("has a header without a name")
        headers.append((name.decode("utf-8", "surrogateescape"), _bytes(entry[1], "header")))
    return headers


def _integer_of(parsed: dict[str, Any], name: str, otherwise: int | None) -> int | None:
    value = parsed.get(name)
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"has a {name} that is no whole number")
    return value
