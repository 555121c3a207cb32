"""Readings of sensors: the records that are fed, and what must come of them."""

import datetime
import json
import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from confluent_kafka import Message

SENSORS: Final = 12
WINDOW_S: Final = 10
STEP_MS: Final = 5
"""From one reading to the next."""
BEGINNING: Final = datetime.datetime(2026, 11, 16, 6, 0, tzinfo=datetime.UTC)
CLOSING: Final = BEGINNING + datetime.timedelta(days=2)
_LATE_MS_MAX: Final = 3_000
_POISON_EVERY: Final = 200
_NUMBER: Final = re.compile(rb'"number": (\d+)')
"""Poison has it, too."""


def value_of(number: int) -> bytes:
    """A record of the input; one in two hundred is poison, of one kind or another."""
    chance = random.Random(number)
    at = BEGINNING + datetime.timedelta(
        milliseconds=number * STEP_MS - chance.randint(0, _LATE_MS_MAX)
    )
    good: dict[str, Any] = {
        "number": number, "sensor": f"s{number % SENSORS}", "value": chance.randint(-50, 50),
        "at": at.isoformat(timespec="milliseconds"),
    }  # fmt: skip
    if number % _POISON_EVERY:
        return json.dumps(good).encode()
    kinds = (
        json.dumps(good).encode()[:-5],
        json.dumps(good | {"value": "much"}).encode(),
        b"\xc3\x28" + json.dumps(good).encode(),
        json.dumps(good | {"at": "soon"}).encode(),
    )
    return kinds[number // _POISON_EVERY % len(kinds)]


def closing_value() -> bytes:
    """One that is so late that every window before it is over."""
    return json.dumps({"number": -1, "sensor": "", "value": 0, "at": CLOSING.isoformat()}).encode()


def next_number(messages: Iterable[Message]) -> int:
    """The one after the highest in the input: none is used twice, for it would come too late."""
    found = (_NUMBER.search(message.value() or b"") for message in messages)
    return max((int(each[1]) for each in found if each is not None), default=-1) + 1


class Record(NamedTuple):
    """A record of the input, and its place."""

    partition: int
    offset: int
    value: bytes


@dataclass
class Wanted:
    """What a batch computation over the input gives, in plain Python."""

    windows: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """By sensor and start: how many, and their sum."""
    rows: dict[tuple[int, int], tuple[int, str, int]] = field(default_factory=dict)
    """By partition and offset: number, sensor, value."""
    dead: Counter[tuple[int, int, bytes]] = field(default_factory=Counter)
    """Partition, offset and bytes of what can not be read."""


def wanted(records: Iterable[Record]) -> Wanted:
    """The outputs that this input must have."""
    all_of_it = Wanted()
    for record in records:
        try:
            document = json.loads(record.value)
            number, sensor, value = document["number"], document["sensor"], document["value"]
            at = datetime.datetime.fromisoformat(document["at"])
            if type(value) is not int:
                raise ValueError(value)
        except ValueError:
            all_of_it.dead[record] += 1
            continue
        all_of_it.rows[record.partition, record.offset] = number, sensor, value
        if at < CLOSING:
            seconds = int(at.timestamp()) // WINDOW_S * WINDOW_S
            start = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
            place = sensor, start.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            count, total = all_of_it.windows.get(place, (0, 0))
            all_of_it.windows[place] = count + 1, total + value
    return all_of_it
