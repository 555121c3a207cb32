"""One value of an answer: in a table's cell, in JSON, in CSV."""

import base64
import datetime
import decimal
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

CELL_CHARS_MAX: Final = 60
_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}
"""What would move the cursor, or worse."""


def is_number(kind: Any) -> bool:
    """Whether a column of this type of Spark's stands to the right."""
    from pyspark.sql.types import NumericType

    return isinstance(kind, NumericType)


def distinct(names: Sequence[str]) -> list[str]:
    """Names of an answer's columns, or of a struct's fields, each of them once."""
    found: dict[str, None] = {}
    for name in names:
        number, free = 1, name
        while free in found:
            number += 1
            free = f"{name}_{number}"
        found[free] = None
    return list(found)


def cell(value: object, kind: Any = None) -> str:
    """Short, and on one line."""
    text = _text(value, kind)
    shown = "NULL" if text is None else text[: CELL_CHARS_MAX + 1].translate(_CONTROL)
    return shown if len(shown) <= CELL_CHARS_MAX else f"{shown[: CELL_CHARS_MAX - 1]}…"


def csv_value(value: object, kind: Any) -> str | None:
    """Whole; None for NULL."""
    return _text(value, kind)


def json_value(value: object, kind: Any = None) -> str:
    """JSON text. Numbers stay exact, which Python's own encoder does not grant.

    `kind` is Spark's type, which tells what a text is.
    """
    match value:
        case None | bool() | int():
            return json.dumps(value)
        case str():
            if _is_json(kind):
                return value
            return json.dumps(_moment(value, kind), ensure_ascii=False)
        case float():
            return json.dumps(value if math.isfinite(value) else str(value))
        case decimal.Decimal():
            return format(value, "f")
        case bytes() | bytearray():
            return json.dumps(_bytes(bytes(value)), ensure_ascii=False)
        case datetime.datetime():
            return json.dumps(_iso(value))
        case datetime.date() | datetime.time():
            return json.dumps(value.isoformat())
        case Mapping():
            of_keys, of_values = (getattr(kind, each, None) for each in ("keyType", "valueType"))
            pairs = (
                f"{_key(key, of_keys)}: {json_value(each, of_values)}"
                for key, each in value.items()
            )
            return "{" + ", ".join(pairs) + "}"
        case tuple() if hasattr(value, "__fields__"):
            return _struct(value, kind)
        case Sequence():
            of_each = getattr(kind, "elementType", None)
            return "[" + ", ".join(json_value(each, of_each) for each in value) + "]"
    if hasattr(value, "toJson"):
        # A VARIANT within something else; on its own it comes as text.
        return str(value.toJson())
    return json.dumps(str(value), ensure_ascii=False)


def _struct(row: Any, kind: Any) -> str:
    kinds = [None] * len(row) if kind is None else [field.dataType for field in kind.fields]
    pairs = (
        f"{json.dumps(name, ensure_ascii=False)}: {json_value(each, of_each)}"
        for name, each, of_each in zip(distinct(row.__fields__), row, kinds, strict=True)
    )
    return "{" + ", ".join(pairs) + "}"


def _text(value: object, kind: Any) -> str | None:
    match value:
        case None:
            return None
        case str():
            return _moment(value, kind)
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case bytes() | bytearray():
            found = _bytes(bytes(value))
            return found if isinstance(found, str) else found["base64"]
    text = json_value(value, kind)
    return json.loads(text) if text.startswith('"') else text


def _bytes(data: bytes) -> str | dict[str, str]:
    """As the other commands have it: text as text, other bytes as base64."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _is_json(kind: Any) -> bool:
    return kind is not None and kind.typeName() == "variant"


def _moment(text: str, kind: Any) -> str:
    """Spark gives microseconds; records have only milliseconds."""
    if kind is None or not kind.typeName().startswith("timestamp"):
        return text
    head, dot, rest = text.partition(".")
    fraction, zone = rest[:6], rest[6:]
    return f"{head}{dot}{fraction[:3] if fraction.endswith('000') else fraction}{zone}"


def _iso(moment: datetime.datetime) -> str:
    """Spark hands moments over in this machine's own time."""
    if moment.tzinfo is None:
        moment = moment.astimezone(datetime.UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _key(key: object, kind: Any) -> str:
    text = _text(key, kind)
    return json.dumps("null" if text is None else text, ensure_ascii=False)
