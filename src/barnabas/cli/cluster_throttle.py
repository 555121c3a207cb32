"""How fast replicas are copied while they are moved: Kafka's own keys, set and taken away again."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final

from barnabas.cli.brokers import NoAnswerError
from barnabas.cli.cluster_link import BROKER, TOPIC, ClusterLink
from barnabas.cli.cluster_orders import configure
from barnabas.operating.plan import Change
from barnabas.operating.snapshot import Snapshot

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
_CHARS_MAX: Final = 32_767
"""Brokers, and Kafka's too, take no longer value of a setting."""
_DYNAMIC: Final = (1, 2)
"""Where a value comes from, by the protocol's numbers: set for this topic, or this broker."""


def throttle(
    link: ClusterLink, changes: Collection[Change], brokers: Iterable[int], rate: int
) -> None:
    """So many bytes a second at the most, in and out of each broker, for these moves alone."""
    leaders: dict[str, list[str]] = defaultdict(list)
    followers: dict[str, list[str]] = defaultdict(list)
    for change in changes:
        topic, number = change.place
        leaders[topic] += [f"{number}:{each}" for each in change.before]
        followers[topic] += [f"{number}:{each}" for each in change.adding]
    configure(
        link,
        {
            (TOPIC, topic): {
                REPLICAS[0]: listed(leaders[topic]),
                REPLICAS[1]: listed(followers[topic]),
            }
            for topic in leaders
            if followers[topic]
        },
    )
    # Last: when a list is refused, nobody is left with a rate.
    configure(link, {(BROKER, str(each)): dict.fromkeys(RATES, str(rate)) for each in brokers})


def listed(replicas: list[str]) -> str:
    """Replicas as the keys want them; all of the topic where the list would be too long."""
    text = ",".join(replicas)
    return text if len(text) <= _CHARS_MAX else "*"


def unthrottle(link: ClusterLink, snapshot: Snapshot) -> None:
    """Take every throttle of replication away, also what an interrupted run has left."""
    found = {
        (TOPIC, name): _set(values)
        for name, values in link.settings(TOPIC, snapshot.topics, REPLICAS).items()
    }
    for number in snapshot.brokers:
        try:
            values = link.settings(BROKER, [str(number)], RATES)
        except NoAnswerError:
            continue
        found[BROKER, str(number)] = _set(values[str(number)])
    configure(link, {each: dict.fromkeys(keys) for each, keys in found.items()})


def _set(values: dict[str, tuple[str | None, int]]) -> list[str]:
    return [key for key, (_, source) in values.items() if source in _DYNAMIC]
