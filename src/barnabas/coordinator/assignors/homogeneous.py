"""Equal shares for members that all subscribe to the same topics.

With P partitions and M members each gets P // M, and P % M of them one more. A member keeps what
it has up to its share, so a partition moves only off a member that has too many.
"""

from collections.abc import Collection
from itertools import islice

from barnabas.coordinator.assignors.claims import TopicPartitionId, claim
from barnabas.coordinator.assignors.order import topic_order
from barnabas.coordinator.assignors.spec import Assignment, GroupSpec, TopicId
from barnabas.model.check import require


def assign_homogeneous(spec: GroupSpec, subscribed: Collection[TopicId]) -> dict[str, Assignment]:
    """Give every member its share: first what it already has, then what nobody has."""
    topics = sorted((topic for topic in subscribed if topic in spec.partitions), key=topic_order)
    kept, free = claim(spec, topics)
    members = sorted(spec.members)
    total = sum(spec.partitions[topic] for topic in topics)
    shares = _shares([kept[member] for member in members], total)

    waiting: list[TopicPartitionId] = [
        (topic, partition) for topic in topics for partition in sorted(free[topic])
    ]
    for member, share in zip(members, shares, strict=True):
        if share < _size(kept[member]):
            kept[member], revoked = _split(kept[member], share)
            waiting += revoked

    source = iter(waiting)
    for member, share in zip(members, shares, strict=True):
        room = share - _size(kept[member])
        if room:
            _add(kept[member], list(islice(source, room)))
    require(next(source, None) is None, "the shares add up to the number of partitions")
    return kept


def _size(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


def _shares(kept: list[Assignment], total: int) -> list[int]:
    """How many partitions each member is to have.

    The larger shares go to members that already have that many; the last members get those that
    nobody claimed.
    """
    least, larger = divmod(total, len(kept))
    shares = []
    for place, assignment in enumerate(kept):
        must_take = len(kept) - place <= larger
        takes = larger > 0 and (must_take or _size(assignment) > least)
        larger -= takes
        shares.append(least + takes)
    return shares


def _split(assignment: Assignment, share: int) -> tuple[Assignment, list[TopicPartitionId]]:
    """The first `share` partitions by topic and number, and the others."""
    owned = [
        (topic, partition)
        for topic in sorted(assignment, key=topic_order)
        for partition in sorted(assignment[topic])
    ]
    first: Assignment = {}
    _add(first, owned[:share])
    return first, owned[share:]


def _add(assignment: Assignment, partitions: list[TopicPartitionId]) -> None:
    grouped: dict[TopicId, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    for topic, numbers in grouped.items():
        assignment[topic] = assignment.get(topic, frozenset()).union(numbers)
