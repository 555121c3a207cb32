"""Server-side assignors: who of a group's members reads which partition, as pure functions.

Knows subscriptions, partition counts and the last target assignment; knows no epochs, no
heartbeats and no records.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from barnabas.coordinator.assignors.range import RangeAssignor
from barnabas.coordinator.assignors.spec import (
    Assignment,
    Assignor,
    GroupSpec,
    MemberSpec,
    Partitions,
    TopicId,
)
from barnabas.coordinator.assignors.uniform import UniformAssignor

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "Assignor",
    "GroupSpec",
    "MemberSpec",
    "Partitions",
    "TopicId",
]

_KNOWN: Final[tuple[Assignor, ...]] = (UniformAssignor(), RangeAssignor())

ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({each.name: each for each in _KNOWN})
"""By name, the default first, as in Kafka's `group.consumer.assignors`."""
