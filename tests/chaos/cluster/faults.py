"""What is broken, on whom and for how long: one endless list for each seed."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """How something is broken."""

    KILL = "kill -9"
    PAUSE = "pause"
    CUT = "partition"
    QUORUM = "quorum loss"
    ROLL = "rolling restart"
    DISK = "full disk"
    SLOW = "slow link"
    HIJACK = "hijack"


LEADER: Final = "leader"
FOLLOWER: Final = "follower"
CONTROLLER: Final = "controller"
ZOOKEEPER: Final = "zookeeper"
ZOOKEEPER_LEADER: Final = "zookeeper leader"
BROKERS: Final = "all brokers"
EVERYTHING: Final = "everything"
FROM_ALL: Final = "broker from all"
SAYS_NOTHING: Final = "one way, broker is not heard"
HEARS_NOTHING: Final = "one way, broker hears nobody"
FROM_ZOOKEEPER: Final = "broker from zookeeper"
FROM_FOLLOWERS: Final = "leader from followers"
CONTROLLER_ALONE: Final = "controller from all"
SERVER_ALONE: Final = "zookeeper server from all"

Deck = Sequence[tuple[Kind, str, int]]
"""How often each comes before all come again."""

_DECK: Final[Deck] = (
    (Kind.KILL, LEADER, 5),
    (Kind.KILL, FOLLOWER, 2),
    (Kind.KILL, CONTROLLER, 2),
    (Kind.KILL, ZOOKEEPER, 1),
    (Kind.KILL, ZOOKEEPER_LEADER, 1),
    (Kind.KILL, BROKERS, 1),
    (Kind.KILL, EVERYTHING, 1),
    (Kind.PAUSE, LEADER, 4),
    (Kind.PAUSE, FOLLOWER, 1),
    (Kind.PAUSE, CONTROLLER, 2),
    (Kind.PAUSE, ZOOKEEPER_LEADER, 1),
    (Kind.PAUSE, BROKERS, 1),
    (Kind.PAUSE, EVERYTHING, 1),
    (Kind.CUT, FROM_ALL, 2),
    (Kind.CUT, SAYS_NOTHING, 1),
    (Kind.CUT, HEARS_NOTHING, 1),
    (Kind.CUT, FROM_ZOOKEEPER, 2),
    (Kind.CUT, FROM_FOLLOWERS, 2),
    (Kind.CUT, CONTROLLER_ALONE, 1),
    (Kind.CUT, SERVER_ALONE, 1),
    (Kind.QUORUM, ZOOKEEPER, 1),
    (Kind.ROLL, BROKERS, 1),
    (Kind.DISK, "broker with a small disk", 1),
    (Kind.SLOW, LEADER, 2),
    (Kind.HIJACK, "transactional id", 3),
)

_HOLDS_S: Final[Mapping[Kind, tuple[float, float]]] = {
    Kind.KILL: (0.2, 8.0),
    Kind.PAUSE: (1.0, 12.0),
    Kind.CUT: (2.0, 12.0),
    Kind.QUORUM: (8.0, 14.0),
    Kind.ROLL: (0.0, 0.0),
    Kind.DISK: (3.0, 10.0),
    Kind.SLOW: (4.0, 12.0),
    Kind.HIJACK: (0.0, 0.0),
}
_QUIET_S: Final = (0.5, 3.0)
_LONG_QUIET_S: Final = (8.0, 12.0)
_LONG_QUIET_SHARE: Final = 0.05


@dataclass(frozen=True)
class Fault:
    """One of them."""

    number: int
    kind: Kind
    target: str
    hold_s: float
    """For how long it stays broken."""
    quiet_s: float
    """How long nothing happens once everybody has got over it."""
    draw: int
    """Chooses among those whom the target may mean."""


def faults(
    seed: int, first: int = 0, deck_of: Deck = _DECK,
    holds_s: Mapping[Kind, tuple[float, float]] = _HOLDS_S,
) -> Iterator[Fault]:  # fmt: skip
    """All faults of a seed, from the one with number `first` on."""
    deck = [(kind, target) for kind, target, count in deck_of for _ in range(count)]
    number = 0
    while True:
        chance = random.Random(f"{seed}/{number}")
        chance.shuffle(deck)
        for kind, target in deck:
            long = chance.random() < _LONG_QUIET_SHARE
            fault = Fault(
                number, kind, target,
                round(chance.uniform(*holds_s[kind]), 2),
                round(chance.uniform(*(_LONG_QUIET_S if long else _QUIET_S)), 2),
                chance.randrange(1 << 30),
            )  # fmt: skip
            if number >= first:
                yield fault
            number += 1
        deck.sort()
