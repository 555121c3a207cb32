"""What the text of an option means: numbers, truth, sizes and durations, as Spark reads them.

Every function raises SparkJobError that names the option and says what it can be.
"""

import re
from typing import Final

from barnabas.spark.errors import SparkJobError

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_WITH_UNIT: Final = re.compile(r"([0-9]{1,19})\s*([a-z]*)")
_LONG_MAX: Final = 2**63 - 1

_BYTES: Final = {"": 1, "b": 1} | {
    letter + ending: 1024**power
    for power, letter in enumerate("kmgtp", start=1)
    for ending in ("", "i", "b", "ib")
}
_SECONDS: Final = {
    "us": 1e-6,
    "": 1e-3,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
"""A number without a unit is milliseconds."""


def truth(name: str, text: str) -> bool:
    """`true` or `false`, in any case of letters."""
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise SparkJobError(f"{name} is {text!r}: true or false is what it can be.")


def integer(name: str, text: str, *, least: int, most: int = _LONG_MAX) -> int:
    """A whole number between `least` and `most`."""
    stripped = text.strip()
    if not _INTEGER.fullmatch(stripped) or not least <= int(stripped) <= most:
        raise SparkJobError(f"{name} is {text!r}: give a whole number from {least} to {most}.")
    return int(stripped)


def size(name: str, text: str) -> int:
    """A number of bytes, at least one, with or without a unit: `64m`."""
    found = _WITH_UNIT.fullmatch(text.strip().lower())
    factor = _BYTES.get(found[2]) if found else None
    value = int(found[1]) * factor if found and factor else 0
    if not 1 <= value <= _LONG_MAX:
        raise SparkJobError(f"{name} is {text!r}: give a number of bytes, such as 64m.")
    return value


def seconds(name: str, text: str) -> float:
    """A duration with or without a unit: `15m`, `500ms`."""
    found = _WITH_UNIT.fullmatch(text.strip().lower())
    factor = _SECONDS.get(found[2]) if found else None
    if not found or factor is None:
        raise SparkJobError(f"{name} is {text!r}: give a duration, such as 15m, 30s or 500ms.")
    return int(found[1]) * factor


def names(text: str) -> tuple[str, ...]:
    """What stands between commas, without blanks, each once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
