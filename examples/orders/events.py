"""A morning in a shop: orders of customers in five countries, some of them not fit to be read."""

import datetime
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

OPENING: Final = datetime.datetime(2026, 11, 16, 9, 0, tzinfo=datetime.UTC)
COUNTRIES: Final = ("AT", "CZ", "DE", "FR", "PL")
_LATEST_S: Final = 20


@dataclass(frozen=True, slots=True)
class Order:
    """One record of the topic, and what it means; `country` is None for a poison record."""

    key: bytes
    value: bytes
    minute: datetime.datetime | None
    country: str | None
    amount: Decimal


def customers(count: int = 60) -> dict[str, str]:
    """Their names and countries."""
    chance = random.Random(1)
    return {
        f"c{number:03}": chance.choices(COUNTRIES, (2, 5, 9, 6, 4))[0] for number in range(count)
    }


def orders(minutes: int, a_minute: int, seed: int = 7) -> Iterator[list[Order]]:
    """The orders of each minute: more towards noon, one in fifty is poison."""
    chance = random.Random(seed)
    known = customers()
    number = 0
    for minute in range(minutes):
        some = []
        for _ in range(chance.randint(a_minute // 2, a_minute) * (minutes + minute) // minutes):
            number += 1
            if chance.random() < 0.02:
                some.append(_poison(number, chance))
            else:
                some.append(_order(number, minute, chance, known))
        yield some


def closing() -> Order:
    """An order of the afternoon: when it is seen, no window of the morning stays open."""
    at = OPENING + datetime.timedelta(hours=6)
    document = {"order_id": 0, "customer": "c000", "amount": "0.01", "at": at.isoformat()}
    return Order(b"c000", json.dumps(document).encode(), None, None, Decimal(0))


def _order(number: int, minute: int, chance: random.Random, known: dict[str, str]) -> Order:
    customer = chance.choice(sorted(known))
    # Some come a little late: their own time is before that of those already sent.
    second = chance.randint(0, 59) - (_LATEST_S if chance.random() < 0.1 else 0)
    at = max(OPENING, OPENING + datetime.timedelta(minutes=minute, seconds=second))
    amount = Decimal(round(chance.lognormvariate(3.5, 0.8) * 100)) / 100
    document = {
        "order_id": number, "customer": customer, "amount": f"{amount:.2f}", "at": at.isoformat(),
    }  # fmt: skip
    value = json.dumps(document).encode()
    return Order(customer.encode(), value, at.replace(second=0), known[customer], amount)


def _poison(number: int, chance: random.Random) -> Order:
    """What real topics have, too."""
    good = {"order_id": number, "customer": "c001", "amount": "9.90", "at": OPENING.isoformat()}
    value = chance.choice(
        (
            json.dumps(good).encode()[:-9],
            json.dumps(good | {"amount": "free"}).encode(),
            json.dumps(good | {"amount": "-3.00"}).encode(),
            json.dumps(good | {"at": "yesterday"}).encode(),
            b"\xff\xfe" + json.dumps(good).encode(),
        )
    )
    return Order(b"c001", value, None, None, Decimal(0))
