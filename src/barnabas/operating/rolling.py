"""Restarting brokers one at a time: who is next, and whether that one may be stopped now."""

from collections.abc import Collection, Mapping

from barnabas.operating.health import has_leader, is_short, needed
from barnabas.operating.snapshot import NOBODY, Place, Snapshot


def next_broker(waiting: Collection[int], controller: int) -> int:
    """The lowest number; the controller last, so that the office moves once and not each time."""
    return min(waiting, key=lambda number: (number == controller, number))


def out_of_sync(snapshot: Snapshot) -> Place | None:
    """The first partition that has not all of its replicas in sync, or nobody who leads it."""
    for place, facts in snapshot.partitions():
        if is_short(facts, snapshot, place) or not has_leader(facts, snapshot):
            return place
    return None


def under_min_isr(snapshot: Snapshot, min_isr: Mapping[str, int]) -> Place | None:
    """The first partition that takes no records because too few replicas are in sync."""
    for place, facts in snapshot.partitions():
        if len(facts.isr) < needed(snapshot, place, facts, min_isr):
            return place
    return None


def needs(snapshot: Snapshot, broker: int, min_isr: Mapping[str, int]) -> Place | None:
    """The first partition that would take no records while this broker is away."""
    for place, facts in snapshot.partitions():
        left = set(facts.isr) - {broker}
        if broker in facts.isr and len(left) < needed(snapshot, place, facts, min_isr):
            return place
    return None


def not_preferred(snapshot: Snapshot) -> list[Place]:
    """Partitions that could be led by their first replica and are led by another."""
    return [
        place
        for place, facts in snapshot.partitions()
        if facts.leader not in (NOBODY, facts.replicas[0]) and facts.replicas[0] in facts.isr
    ]
