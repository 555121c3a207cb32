"""Which replicas to move so that every broker has its share: as few as that needs.

In this order, and over again until nothing is left to do: no two replicas of a partition on one
rack while there are racks enough; as many replicas on each broker as on the others; as many
bytes, where the brokers hold very different amounts. Then leaders, which copies nothing.
The same cluster gives the same plan.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Final

from barnabas.operating.leading import even_leaders
from barnabas.operating.plan import Change, Layout, plan_of
from barnabas.operating.snapshot import Place
from barnabas.operating.table import Table

BYTES_APART: Final = 0.2
"""Brokers whose bytes differ by less than this part of the mean are even enough: what is copied
to make them alike costs more than it brings, and tomorrow they differ again."""
BYTES_APART_MIN: Final = 64 * 1024 * 1024
_CANDIDATES: Final = 8
"""Partitions looked at for each side of a swap around the size that would fit best."""


def plan_balance(
    layout: Layout,
    racks: Mapping[int, str | None],
    sizes: Mapping[Place, int],
    *,
    leaders_only: bool = False,
) -> list[Change]:
    """From who holds what to what to change. `racks` are the brokers that may hold replicas.

    Replicas on other brokers stay where they are.
    """
    table = Table(layout, racks, sizes)
    if not leaders_only:
        while _spread_over_racks(table) or _even_counts(table) or _even_bytes(table):
            pass
    return plan_of(layout, even_leaders(table.layout, racks), sizes)


def _spread_over_racks(table: Table) -> bool:
    """Take replicas apart that share a rack; whether anything was moved."""
    moved = False
    for place in sorted(table.layout):
        while table.shared_racks(place):
            best = min(
                (
                    (table.shared_after(place, source, target), table.count(target), target, source)
                    for source in table.layout[place]
                    if source in table.held
                    for target in table.brokers
                    if target not in table.layout[place]
                ),
                default=None,
            )
            if best is None or best[0] >= table.shared_racks(place):
                break
            table.move(place, best[3], best[2])
            moved = True
    return moved


def _even_counts(table: Table) -> bool:
    """One move at a time from who has most to who has least; whether anything was moved."""
    moved = False
    while _move_one(table) or _move_along(table):
        moved = True
    return moved


def _uneven_pairs(table: Table) -> Iterator[tuple[int, int]]:
    """Brokers of which the first has at least two replicas more, the most uneven ones first."""
    pairs = [
        (table.count(target) - table.count(source), source, target)
        for source, target in permutations(table.brokers, 2)
        if table.count(source) - table.count(target) >= 2
    ]
    for _, source, target in sorted(pairs):
        yield source, target


def _move_one(table: Table) -> bool:
    for source, target in _uneven_pairs(table):
        place = _best(table, source, target)
        if place is not None:
            table.move(place, source, target)
            return True
    return False


def _best(table: Table, source: int, target: int) -> Place | None:
    """What to move: the partition after which the two hold the most alike amounts of bytes."""
    half = (table.bytes[source] - table.bytes[target]) / 2
    return min(
        (each for each in table.held[source] if table.may_move(each, source, target)),
        key=lambda each: (abs(table.size(each) - half), each),
        default=None,
    )


def _move_along(table: Table) -> bool:
    """Where racks forbid the direct way: over others, each passing another partition on."""
    for source, target in _uneven_pairs(table):
        path = _path(table, source, target)
        if path is not None:
            for place, one, other in path:
                table.move(place, one, other)
            return True
    return False


def _path(table: Table, source: int, target: int) -> list[tuple[Place, int, int]] | None:
    """The shortest way on which every partition moves once."""
    came: dict[int, list[tuple[Place, int, int]]] = {source: []}
    waiting = [source]
    while waiting:
        here = waiting.pop(0)
        for there in table.brokers:
            if there in came:
                continue
            used = {place for place, _, _ in came[here]}
            passed = (
                each
                for each in sorted(table.held[here] - used)
                if table.may_move(each, here, there)
            )
            place = next(passed, None)
            if place is None:
                continue
            came[there] = [*came[here], (place, here, there)]
            if there == target:
                return came[there]
            waiting.append(there)
    return None


def _even_bytes(table: Table) -> bool:
    """Swap a large replica for a small one while brokers are far apart; whether any was."""
    moved = False
    while table.brokers and _swap_one(table):
        moved = True
    return moved


def _swap_one(table: Table) -> bool:
    apart = max(BYTES_APART * sum(table.bytes.values()) / len(table.brokers), BYTES_APART_MIN)
    pairs = sorted(
        (table.bytes[small] - table.bytes[large], large, small)
        for large, small in permutations(table.brokers, 2)
        if table.bytes[large] - table.bytes[small] > apart
    )
    for difference, large, small in pairs:
        swap = _best_swap(table, large, small, -difference, apart)
        if swap is not None:
            table.move(swap[0], large, small)
            table.move(swap[1], small, large)
            return True
    return False


def _best_swap(
    table: Table, large: int, small: int, difference: int, apart: float
) -> tuple[Place, Place] | None:
    """The swap that brings the two closest; it must bring them closer by a quarter of `apart`."""
    back = sorted((table.size(each), each) for each in table.held[small])
    best: tuple[float, Place, Place] | None = None
    for place in sorted(table.held[large]):
        if not table.may_move(place, large, small):
            continue
        at = bisect_left(back, (table.size(place) - difference // 2, Place("", 0)))
        for size, other in back[max(at - _CANDIDATES, 0) : at + _CANDIDATES]:
            if not table.may_move(other, small, large):
                continue
            after = abs(difference - 2 * (table.size(place) - size))
            found = (after, place, other)
            if after <= difference - apart / 4 and (best is None or found < best):
                best = found
    return None if best is None else best[1:]
