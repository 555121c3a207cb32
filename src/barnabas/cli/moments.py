"""Points in time and places in a log, as people write them."""

import datetime
import re
import time
from dataclasses import dataclass
from typing import Final

from barnabas.model.errors import BarnabasError

_AGO: Final = re.compile(r"(-?)(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)(\s+ago)?")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_INTEGER: Final = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first record there is."""


@dataclass(frozen=True, slots=True)
class End:
    """What is written from now on."""


@dataclass(frozen=True, slots=True)
class AtOffset:
    """An offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class LastRecords:
    """So many records before the end."""

    count: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record that is not older."""

    timestamp_ms: int


Start = Beginning | End | AtOffset | LastRecords | AtTime


def parse_start(text: str) -> Start:
    """`beginning`, `end`, `42`, `-5` (the last five), `-10m` (ten minutes ago) or a date.

    Kafka's own words for the first two, `earliest` and `latest`, mean the same.
    """
    if text in ("beginning", "earliest"):
        return Beginning()
    if text in ("end", "latest"):
        return End()
    if _INTEGER.fullmatch(text):
        number = int(text)
        return AtOffset(number) if not text.startswith("-") else LastRecords(-number)
    return AtTime(parse_moment(text))


def parse_moment(text: str) -> int:
    """Milliseconds since 1970, of an ISO 8601 date (local unless it says), `-10m` or `10m ago`."""
    ago = _AGO.fullmatch(text)
    if ago and (ago[1] or ago[4]):
        # Before 1970 there is nothing, and brokers take negative times for something else.
        return max(0, int(time.time() * 1000 - float(ago[2]) * _UNIT_MS[ago[3]]))
    try:
        return max(0, int(datetime.datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError) as error:
        raise BarnabasError(
            f"{text!r} is no point in time: write 2026-08-01T12:00:00, 2026-08-01T12:00:00Z, or "
            "-10m or '10m ago' for ten minutes ago (ms, s, m, h, d)."
        ) from error


def span_ms(text: str) -> int:
    """How long, such as `30s` or `1.5h`, in milliseconds."""
    span = _AGO.fullmatch(text)
    if span is None or span[1] or span[4]:
        raise BarnabasError(f"{text!r} is no time span: write 500ms, 30s, 5m, 2h or 1d.")
    return int(float(span[2]) * _UNIT_MS[span[3]])
