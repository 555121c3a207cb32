"""What holds for every assignor and every group, however stale its last assignment is."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.coordinator.assignors.groups import (
    FEW,
    after,
    groups,
    member,
    pairs,
    sizes,
    topic,
    wanted,
)

from barnabas.coordinator.assignors import ASSIGNORS, GroupSpec

every_assignor = pytest.mark.parametrize("name", list(ASSIGNORS))


def test_names_and_the_default_first() -> None:
    assert list(ASSIGNORS) == ["uniform", "range"]
    assert all(assignor.name == name for name, assignor in ASSIGNORS.items())


@every_assignor
@FEW
@given(spec=groups())
def test_every_wanted_partition_has_one_owner(name: str, spec: GroupSpec) -> None:
    assignment = ASSIGNORS[name].assign(spec)
    assert assignment.keys() == spec.members.keys()
    given_out = [pair for each in assignment.values() for pair in pairs(each)]
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == wanted(spec)


@every_assignor
@FEW
@given(spec=groups())
def test_nobody_gets_what_it_did_not_ask_for(name: str, spec: GroupSpec) -> None:
    for member_id, each in ASSIGNORS[name].assign(spec).items():
        assert each.keys() <= spec.members[member_id].topics
        assert all(each.values()), "a topic without partitions is left out"


@every_assignor
@FEW
@given(spec=groups(), order=st.randoms(use_true_random=False))
def test_the_order_of_the_question_does_not_matter(
    name: str, spec: GroupSpec, order: Random
) -> None:
    members = list(spec.members.items())
    counts = list(spec.partitions.items())
    order.shuffle(members)
    order.shuffle(counts)
    same = GroupSpec(dict(members), dict(counts))
    assert ASSIGNORS[name].assign(same) == ASSIGNORS[name].assign(spec)


@every_assignor
@FEW
@given(spec=groups())
def test_nothing_changes_when_nothing_has_changed(name: str, spec: GroupSpec) -> None:
    first = ASSIGNORS[name].assign(spec)
    assert ASSIGNORS[name].assign(after(spec, first)) == first


@every_assignor
def test_nobody_and_nothing(name: str) -> None:
    assign = ASSIGNORS[name].assign
    assert assign(GroupSpec({}, {topic(1): 3})) == {}
    assert assign(GroupSpec({"a": member([])}, {topic(1): 3})) == {"a": {}}
    assert assign(GroupSpec({"a": member([topic(1)])}, {topic(1): 0})) == {"a": {}}
    assert assign(GroupSpec({"a": member([topic(1)])}, {})) == {"a": {}}


@every_assignor
def test_more_members_than_partitions(name: str) -> None:
    spec = GroupSpec({f"m{n}": member([topic(1)]) for n in range(5)}, {topic(1): 2})
    assert sorted(sizes(ASSIGNORS[name].assign(spec)).values()) == [0, 0, 0, 1, 1]


@every_assignor
@pytest.mark.parametrize("topics", [1, 100])
@pytest.mark.parametrize("kinds", [1, 3])
def test_a_wide_group(name: str, topics: int, kinds: int) -> None:
    names = [topic(number) for number in range(1, topics + 1)]
    subscriptions = [frozenset(names[kind:] or names) for kind in range(kinds)]
    members = {f"m{n:04}": member(subscriptions[n % kinds]) for n in range(1_000)}
    spec = GroupSpec(members, dict.fromkeys(names, 10_000 // topics))
    assignment = ASSIGNORS[name].assign(spec)
    assert sum(sizes(assignment).values()) == 10_000
    assert ASSIGNORS[name].assign(after(spec, assignment)) == assignment
