"""The `range` assignor: of every topic, each subscriber gets one run of neighbouring partitions.

Members stand in the same order for every topic, so topics with the same subscribers and the same
partition count are co-partitioned: partition 3 of each goes to the same member, which can join
them. Static members stand first, by instance id: after a restart under a new member id each is
given what it had before. The last assignment plays no part.
"""

from collections.abc import Iterator

from barnabas.coordinator.assignors.order import text_order
from barnabas.coordinator.assignors.spec import Assignment, GroupSpec, MemberSpec, TopicId


class RangeAssignor:
    """Kafka's server-side `range`."""

    name = "range"

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Cut every topic into one run per subscriber, the longer ones first."""
        assignment: dict[str, Assignment] = {member: {} for member in spec.members}
        for topic, subscribers in _subscribers(spec).items():
            runs = _runs(spec.partitions[topic], len(subscribers))
            for member, run in zip(subscribers, runs, strict=True):
                if run:
                    assignment[member][topic] = frozenset(run)
        return assignment


def _subscribers(spec: GroupSpec) -> dict[TopicId, list[str]]:
    """The subscribers of every topic that exists, in the members' order."""
    subscribers: dict[TopicId, list[str]] = {}
    for member_id, member in sorted(spec.members.items(), key=_place):
        for topic in member.topics:
            if topic in spec.partitions:
                subscribers.setdefault(topic, []).append(member_id)
    return subscribers


def _place(entry: tuple[str, MemberSpec]) -> tuple[bool, bytes]:
    member_id, member = entry
    if member.instance_id is None:
        return True, text_order(member_id)
    return False, text_order(member.instance_id)


def _runs(partitions: int, members: int) -> Iterator[range]:
    """One run of partitions for each of `members`; the first ones take what is left over."""
    least, longer = divmod(partitions, members)
    end = 0
    for place in range(members):
        start, end = end, end + least + (place < longer)
        yield range(start, end)
