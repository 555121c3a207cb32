"""Which replica of each partition comes first, so that every broker leads its share."""

from collections.abc import Collection

from barnabas.operating.plan import Layout
from barnabas.operating.snapshot import Place

_Led = dict[int, dict[Place, None]]
_Path = list[tuple[Place, int, int]]


def even_leaders(layout: Layout, brokers: Collection[int]) -> Layout:
    """The same replicas in another order where one broker would lead two more than another.

    A partition whose first replica is none of `brokers` stays as it is: whoever leads it now is
    there instead of a broker that may come back.
    """
    after = dict(layout)
    # Ordered, unlike sets: the same cluster gives the same answer.
    led: _Led = {each: {} for each in sorted(brokers)}
    for place, replicas in sorted(layout.items()):
        if replicas and replicas[0] in led:
            led[replicas[0]][place] = None
    while (path := _uneven_path(after, led)) is not None:
        for place, leader, other in path:
            after[place] = _first(after[place], other)
            del led[leader][place]
            led[other][place] = None
    return after


def _first(replicas: tuple[int, ...], leader: int) -> tuple[int, ...]:
    return (leader, *(each for each in replicas if each != leader))


def _uneven_path(layout: Layout, led: _Led) -> _Path | None:
    """Partitions to hand on from a broker that leads too many, over others, to one with too few."""
    most_first = sorted(led, key=lambda each: (-len(led[each]), each))
    for source in most_first:
        came = _reachable(layout, led, source)
        least = min(came, key=lambda each: (len(led[each]), len(came[each]), each))
        if len(led[source]) - len(led[least]) >= 2:
            return came[least]
    return None


def _reachable(layout: Layout, led: _Led, source: int) -> dict[int, _Path]:
    """Every broker that can be handed leadership from here, by the shortest way."""
    came: dict[int, _Path] = {source: []}
    waiting = [source]
    while waiting:
        here = waiting.pop(0)
        for place in led[here]:
            if len(came) == len(led):
                return came
            for there in layout[place]:
                if there in led and there not in came:
                    came[there] = [*came[here], (place, here, there)]
                    waiting.append(there)
    return came
