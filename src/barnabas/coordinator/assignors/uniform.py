"""The `uniform` assignor, the default: equal shares first, and then as few moves as possible.

Members with the same subscriptions are dealt with exactly (`homogeneous`); when subscriptions
differ, shares are evened out topic by topic (`heterogeneous`).
"""

from barnabas.coordinator.assignors.heterogeneous import assign_heterogeneous
from barnabas.coordinator.assignors.homogeneous import assign_homogeneous
from barnabas.coordinator.assignors.spec import Assignment, GroupSpec


class UniformAssignor:
    """Kafka's server-side `uniform`."""

    name = "uniform"

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Even out the members' shares, keeping what they have where that allows it."""
        subscriptions = {member.topics for member in spec.members.values()}
        if len(subscriptions) == 1:
            return assign_homogeneous(spec, subscriptions.pop())
        return assign_heterogeneous(spec)
