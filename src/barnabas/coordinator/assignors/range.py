"""The `range` assignor: of every topic, each subscriber gets one run of neighbouring partitions.

Members stand in the same order for every topic, so topics with the same subscribers and the same
partition count are co-partitioned: partition 3 of each goes to the same member, which can join
them. Static members stand first, by instance id: after a restart under a new member id each is
given what it had before. The last assignment plays no part.
"""

from collections.abc import Iterator

from barnabas.coordinator.assignors.order import text_order
from barnabas.coordinator.assignors.spec import Assignment, GroupSpec, MemberSpec
from barnabas.coordinator.assignors.subscribers import audiences


class RangeAssignor:
    """Kafka's server-side `range`."""

    name = "range"

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Cut every topic into one run per subscriber, the longer ones first."""
        members = [member_id for member_id, _ in sorted(spec.members.items(), key=_place)]
        shares: list[Assignment] = [{} for _ in members]
        of_topic, readers = audiences(spec, members)
        for topic, audience in of_topic.items():
            places = readers[audience]
            for place, run in zip(places, _runs(spec.partitions[topic], len(places)), strict=False):
                shares[place][topic] = run
        return dict(zip(members, shares, strict=True))


def _place(entry: tuple[str, MemberSpec]) -> tuple[bool, bytes]:
    member_id, member = entry
    if member.instance_id is None:
        return True, text_order(member_id)
    return False, text_order(member.instance_id)


def _runs(partitions: int, members: int) -> Iterator[frozenset[int]]:
    """One run of partitions for each member until none is left; the first ones are the longer."""
    least, longer = divmod(partitions, members)
    start = 0
    while start < partitions:
        end = start + least + (longer > 0)
        yield frozenset(range(start, end))
        start = end
        longer -= 1
