"""How results look: tables for people, JSON for programs, bytes as text where they are text."""

import base64
import datetime
import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as they need to be; numbers to the right, everything else to the left."""
    cells = [list(titles), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(titles))]
    to_right = [
        bool(rows) and all(isinstance(row[column], int | float | None) for row in rows)
        for column in range(len(titles))
    ]
    return "\n".join(
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, to_right, strict=True)
        ).rstrip()
        for line in cells
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return str(value)


def print_table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; nothing but its head when there are no rows."""
    print(table(titles, rows))


def print_json(value: object) -> None:
    """One line of JSON."""
    print(json.dumps(value, ensure_ascii=False))


def note(text: str) -> None:
    """A word to the person, on stderr, where it does not disturb a pipe."""
    print(text, file=sys.stderr, flush=True)


def readable_size(size: int) -> str:
    """`1.5 MiB`."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def readable_time(timestamp_ms: int) -> str:
    """ISO 8601 in UTC; `-` for no timestamp, the number itself when no calendar has it."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_bytes(data: bytes | None) -> str | dict[str, str] | None:
    """Text as text; other bytes as base64, so that nothing is lost."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def record_object(
    *,
    topic: str,
    partition: int,
    offset: int,
    timestamp: int,
    timestamp_type: str,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> dict[str, Any]:
    """One record, as `consume --json` and `log dump --json` print it and `produce` reads it."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp,
        "timestamp_type": timestamp_type,
        "key": json_bytes(key),
        "value": json_bytes(value),
        "headers": [
            [json_bytes(name.encode("utf-8", "surrogateescape")), json_bytes(content)]
            for name, content in headers
        ],
    }
