"""The states of a classic group, and which may follow which."""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class State(Enum):
    """Kafka's names, as clients see them."""

    EMPTY = "Empty"
    """Nobody is a member; offsets may still be kept."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are awaited: their JoinGroup is answered when all are there, or time is over."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation has begun; its members wait for the leader's assignments."""
    STABLE = "Stable"
    """Everybody can have its assignment."""
    DEAD = "Dead"
    """The group was removed; only those who still hold it see it."""


_LIVING: Final = frozenset(state for state in State if state is not State.DEAD)

FOLLOWS: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE}),
    State.PREPARING_REBALANCE: frozenset(
        {State.EMPTY, State.COMPLETING_REBALANCE, State.STABLE},
    ),
    State.COMPLETING_REBALANCE: frozenset({State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.COMPLETING_REBALANCE}),
    State.DEAD: _LIVING,
}
"""By each state, those that it may follow. Anything else is a defect."""
