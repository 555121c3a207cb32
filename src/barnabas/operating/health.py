"""What is wrong with a cluster: partitions that can not be used, or have too few copies."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.operating.snapshot import PartitionFacts, Place, Snapshot


@dataclass(frozen=True, slots=True)
class Health:
    """Partitions by what is wrong with them; one can be in several lists."""

    dead: list[int]
    """Brokers that hold replicas and are not registered."""
    without_leader: list[Place] = field(default_factory=list)
    under_min_isr: list[Place] = field(default_factory=list)
    under_replicated: list[Place] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether there is nothing to mend."""
        return not (self.dead or self.without_leader or self.under_min_isr or self.under_replicated)


def health_of(snapshot: Snapshot, min_isr: Mapping[str, int]) -> Health:
    """`min_isr` is each topic's `min.insync.replicas`; a topic that is not in it has 1."""
    found = Health(snapshot.dead)
    for place, facts in snapshot.partitions():
        if not has_leader(facts, snapshot):
            found.without_leader.append(place)
        if len(facts.isr) < needed(snapshot, place, facts, min_isr):
            found.under_min_isr.append(place)
        if is_short(facts, snapshot, place):
            found.under_replicated.append(place)
    return found


def has_leader(facts: PartitionFacts, snapshot: Snapshot) -> bool:
    """Whether somebody leads it who is there."""
    return facts.leader in snapshot.brokers


def needed(
    snapshot: Snapshot, place: Place, facts: PartitionFacts, min_isr: Mapping[str, int]
) -> int:
    """In-sync replicas without which nothing is committed; never more than there are replicas.

    One that is being made by a move is none yet.
    """
    moving = snapshot.moving.get(place)
    there = set(facts.replicas) - set(moving.adding if moving else ())
    return min(min_isr.get(place.topic, 1), len(there))


def is_short(facts: PartitionFacts, snapshot: Snapshot, place: Place) -> bool:
    """Whether a replica is not in sync. One that is being made is not missed yet."""
    moving = snapshot.moving.get(place)
    missing = set(facts.replicas) - set(facts.isr)
    return bool(missing - set(moving.adding if moving else ()))
