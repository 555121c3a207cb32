"""Where Barnabas answers group scenarios otherwise than Apache Kafka, and why.

Each pattern is matched against a line of the group differential: scene, step, field, both answers.
"""

import re
from collections.abc import Iterable
from typing import Final

KNOWN: Final[tuple[tuple[str, str], ...]] = (
    # Not served yet.
    (r"^A live (classic|consumer) group", "groups do not move between the protocols live yet"),
    (r"^Classic groups that .*: before the leader synced", "nor while they rebalance"),
    # Another design.
    (r"\.unknown_tagged_fields", "why it last rebalanced, in a field that clients step over"),
    (r": FindCoordinator, the first", "the topic of offsets is made before the answer"),
    (r"^FindCoordinator: v6, a transactional id", "and so is that of transactions"),
    (r": CreateTopics, validate only: .*\.config_source", "KRaft's dynamic min.insync.replicas"),
    # Kafka fails by accident, or never answers, where a reasoned answer is possible.
    (r"'UNKNOWN_SERVER_ERROR', Barnabas", "an exception that escaped in Kafka"),
    (r"^JoinGroup with one protocol twice", "Kafka never answers this one"),
    (
        r"^One member joins on two connections: the first",
        "Kafka forgets the first and never answers",
    ),
    # Ours is the stricter or the surer reading.
    (
        r"^A static member returns with a shorter session timeout and is silent",
        "the timeout it asks for counts from its return on, in Kafka from its next heartbeat on",
    ),
    (
        r"^Classic groups that .*: with only an id given",
        "whoever was just told to come back with an id finds its group as it was",
    ),
    (
        r"^Offsets of a consumer group: fetch, empty member, epoch -1",
        "nobody in particular may ask, whether named by null or by nothing",
    ),
    (r"^FindCoordinator: v6, share key that is none", "an error says what is wrong"),
    (
        r"^The topic of offsets: CreatePartitions",
        "groups would be looked for in other partitions, without their offsets",
    ),
    # Kafka is laxer, to no client's gain.
    (
        r"^Group ids that are no strings: invalid UTF-8",
        "Kafka replaces such bytes, and mixes ids up",
    ),
)


Table = tuple[tuple[str, str], ...]


def unexplained(lines: Iterable[str], known: Table = KNOWN) -> list[str]:
    """The differences that no row of the table explains."""
    return [line for line in lines if not any(re.search(row[0], line) for row in known)]


def unneeded(lines: Iterable[str], known: Table = KNOWN) -> list[tuple[str, str]]:
    """The rows of the table that no difference needs."""
    found = list(lines)
    return [row for row in known if not any(re.search(row[0], line) for line in found)]
