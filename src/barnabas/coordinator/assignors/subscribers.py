"""Who subscribes to what, for groups of many members and many topics."""

from collections.abc import Sequence
from itertools import chain
from typing import TypeAlias

from barnabas.coordinator.assignors.spec import GroupSpec, TopicId

Audience: TypeAlias = tuple[int, ...]
"""Which of the group's distinct subscriptions hold a topic; topics with equal ones share them."""


def audiences(
    spec: GroupSpec, members: Sequence[str]
) -> tuple[dict[TopicId, Audience], dict[Audience, list[int]]]:
    """The audience of each topic that exists, and who is in each audience.

    Members go by their place in `members`, and are listed in that order. Distinct subscriptions
    are few where members are many: a list for each topic would cost members times topics.
    """
    places: dict[frozenset[TopicId], list[int]] = {}
    for place, member in enumerate(members):
        places.setdefault(spec.members[member].topics, []).append(place)
    holders: dict[TopicId, list[int]] = {}
    for subscription, topics in enumerate(places):
        for topic in sorted(topics & spec.partitions.keys()):
            holders.setdefault(topic, []).append(subscription)
    of_topic = {topic: tuple(subscriptions) for topic, subscriptions in holders.items()}
    by_subscription = list(places.values())
    return of_topic, {
        audience: sorted(chain.from_iterable(by_subscription[each] for each in audience))
        for audience in dict.fromkeys(of_topic.values())
    }
