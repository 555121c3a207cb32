"""Groups for the assignors' tests: written shortly, or drawn by hypothesis."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st

from barnabas.coordinator.assignors import Assignment, GroupSpec, MemberSpec, TopicId

Owners = dict[tuple[TopicId, int], str]


def topic(number: int) -> TopicId:
    return number.to_bytes(16, "big")


def member(
    topics: Iterable[TopicId],
    assigned: Mapping[TopicId, Iterable[int]] | None = None,
    instance_id: str | None = None,
) -> MemberSpec:
    given = {name: frozenset(numbers) for name, numbers in (assigned or {}).items()}
    return MemberSpec(instance_id, None, frozenset(topics), given)


def after(spec: GroupSpec, assignment: Mapping[str, Assignment]) -> GroupSpec:
    """The same group, with `assignment` as its last target assignment."""
    members = {name: replace(m, assigned=assignment[name]) for name, m in spec.members.items()}
    return replace(spec, members=members)


def wanted(spec: GroupSpec) -> set[tuple[TopicId, int]]:
    """Every partition that somebody subscribes to."""
    subscribed = {name for m in spec.members.values() for name in m.topics}
    return {
        (name, number)
        for name, count in spec.partitions.items()
        if name in subscribed
        for number in range(count)
    }


def sizes(assignment: Mapping[str, Assignment]) -> dict[str, int]:
    return {name: sum(map(len, given.values())) for name, given in assignment.items()}


def pairs(given: Mapping[TopicId, frozenset[int]]) -> set[tuple[TopicId, int]]:
    return {(name, number) for name, numbers in given.items() for number in numbers}


def owners(assignment: Mapping[str, Assignment]) -> Owners:
    return {pair: name for name, given in assignment.items() for pair in pairs(given)}


FEW: Final = settings(max_examples=30, deadline=None)
"""A group takes long to draw, and each property is tried on other groups in every run."""

TOPICS: Final = tuple(topic(number) for number in range(1, 6))
_NAMES: Final = st.sampled_from([f"m{number * 7919 % 100:02}" for number in range(20)])
_SUBSCRIPTIONS: Final = st.integers(0, 2 ** len(TOPICS) - 1).map(
    lambda bits: frozenset(name for place, name in enumerate(TOPICS) if bits >> place & 1)
)
_STALE: Final = st.dictionaries(
    st.sampled_from(TOPICS),
    st.integers(0, 2**12 - 1).map(lambda bits: frozenset(n for n in range(12) if bits >> n & 1)),
    max_size=5,
)


@st.composite
def groups(draw: st.DrawFn, *, homogeneous: bool = False, fresh: bool = False) -> GroupSpec:
    """A small group. Unless it is `fresh`, its last assignment may be stale in every way."""
    counts = dict(zip(TOPICS, draw(st.lists(st.integers(0, 9), max_size=5)), strict=False))
    everything = draw(_SUBSCRIPTIONS)
    one = st.tuples(
        st.just(everything) if homogeneous else _SUBSCRIPTIONS,
        st.just({}) if fresh else _STALE,
        st.booleans(),
    )
    drawn = draw(st.dictionaries(_NAMES, one, max_size=7))
    return GroupSpec(
        {
            name: member(subscribed, assigned, f"i-{name[::-1]}" if static else None)
            for name, (subscribed, assigned, static) in drawn.items()
        },
        counts,
    )
