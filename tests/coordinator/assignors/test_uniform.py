"""The `uniform` assignor: even shares, and no partition moves without need."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.coordinator.assignors.groups import (
    FEW,
    after,
    groups,
    member,
    owners,
    pairs,
    sizes,
    topic,
    wanted,
)

from barnabas.coordinator.assignors import ASSIGNORS, Assignment, GroupSpec

uniform = ASSIGNORS["uniform"].assign

ONE, TWO = topic(1), topic(2)


def still_held(spec: GroupSpec) -> dict[str, int]:
    """How many partitions each member could keep: what exists, is wanted and has one claimant."""
    taken: set[tuple[bytes, int]] = set()
    held = {}
    for name in sorted(spec.members):
        claimed = pairs(spec.members[name].assigned) & wanted(spec)
        mine = {pair for pair in claimed if pair[0] in spec.members[name].topics} - taken
        taken |= mine
        held[name] = len(mine)
    return held


def kept(spec: GroupSpec, assignment: dict[str, Assignment]) -> dict[str, int]:
    return {
        name: len(pairs(m.assigned) & pairs(assignment[name])) for name, m in spec.members.items()
    }


def settled(spec: GroupSpec) -> GroupSpec:
    return after(spec, uniform(spec))


@FEW
@given(groups(homogeneous=True))
def test_same_subscriptions_same_shares(spec: GroupSpec) -> None:
    shares = sizes(uniform(spec)).values()
    assert not shares or max(shares) - min(shares) <= 1


@FEW
@given(groups(homogeneous=True))
def test_as_much_is_kept_as_equal_shares_allow(spec: GroupSpec) -> None:
    assume(spec.members)
    assignment = uniform(spec)
    held = still_held(spec)
    least, larger = divmod(len(wanted(spec)), len(spec.members))
    most = sum(min(count, least) for count in held.values())
    most += min(larger, sum(count > least for count in held.values()))
    claimed_twice = sum(len(pairs(m.assigned)) for m in spec.members.values()) - len(
        {pair for m in spec.members.values() for pair in pairs(m.assigned)}
    )
    assert most <= sum(kept(spec, assignment).values()) <= most + claimed_twice


@FEW
@given(groups(homogeneous=True, fresh=True), st.data())
def test_when_a_member_leaves_the_others_lose_nothing(spec: GroupSpec, data: st.DataObject) -> None:
    assume(len(spec.members) > 1)
    before = settled(spec)
    leaver = data.draw(st.sampled_from(sorted(before.members)))
    rest = {name: m for name, m in before.members.items() if name != leaver}
    assignment = uniform(replace(before, members=rest))
    for name, m in rest.items():
        assert pairs(m.assigned) <= pairs(assignment[name])


@FEW
@given(groups(homogeneous=True, fresh=True), st.text("abcxyz", min_size=4, max_size=4))
def test_what_moves_when_a_member_joins_goes_to_it(spec: GroupSpec, newcomer: str) -> None:
    assume(spec.members)
    before = settled(spec)
    everything = next(iter(before.members.values())).topics
    assignment = uniform(replace(before, members={**before.members, newcomer: member(everything)}))
    for name, m in before.members.items():
        assert pairs(assignment[name]) <= pairs(m.assigned)


@FEW
@given(groups(homogeneous=True, fresh=True), st.data())
def test_when_topics_grow_nobody_loses_anything(spec: GroupSpec, data: st.DataObject) -> None:
    before = settled(spec)
    grown = {name: count + data.draw(st.integers(0, 9)) for name, count in spec.partitions.items()}
    assignment = uniform(replace(before, partitions=grown))
    for name, m in before.members.items():
        assert pairs(m.assigned) <= pairs(assignment[name])


@FEW
@given(groups(homogeneous=True, fresh=True), st.data())
def test_when_a_topic_goes_nobody_swaps(spec: GroupSpec, data: st.DataObject) -> None:
    assume(spec.partitions)
    before = settled(spec)
    gone = data.draw(st.sampled_from(sorted(spec.partitions)))
    left = {name: count for name, count in spec.partitions.items() if name != gone}
    smaller = replace(before, partitions=left)
    assignment = uniform(smaller)
    held = still_held(smaller)
    for name, count in kept(smaller, assignment).items():
        assert count == min(held[name], sizes(assignment)[name])


@FEW
@given(groups())
def test_no_single_move_would_make_different_subscriptions_evener(spec: GroupSpec) -> None:
    assignment = uniform(spec)
    load = sizes(assignment)
    for (name, _), owner in owners(assignment).items():
        for other, m in spec.members.items():
            assert name not in m.topics or load[owner] - load[other] <= 1


@FEW
@given(groups(fresh=True), st.data())
def test_with_different_subscriptions_only_overload_moves_a_partition(
    spec: GroupSpec, data: st.DataObject
) -> None:
    assume(len(spec.members) > 1)
    before = settled(spec)
    leaver = data.draw(st.sampled_from(sorted(before.members)))
    rest = replace(before, members={n: m for n, m in before.members.items() if n != leaver})
    assignment = uniform(rest)
    orphans = len(pairs(before.members[leaver].assigned))
    moved = sum(
        len(pairs(m.assigned) - pairs(assignment[name])) for name, m in rest.members.items()
    )
    # Each orphan can push one partition along a chain of at most every other member.
    assert moved <= orphans * len(rest.members)


def test_only_the_first_of_two_claimants_has_a_partition() -> None:
    spec = GroupSpec(
        {"a": member([ONE], {ONE: [0, 1]}), "b": member([ONE], {ONE: [1, 2]})}, {ONE: 4}
    )
    assert uniform(spec) == {"a": {ONE: {0, 1}}, "b": {ONE: {2, 3}}}


def test_partitions_that_are_gone_are_dropped() -> None:
    spec = GroupSpec({"a": member([ONE], {ONE: [0, 7], TWO: [0]})}, {ONE: 2})
    assert uniform(spec) == {"a": {ONE: {0, 1}}}


def test_the_larger_shares_stay_where_they_are() -> None:
    assigned = {"a": [0], "b": [1, 2], "c": [3, 4]}
    spec = GroupSpec({n: member([ONE], {ONE: p}) for n, p in assigned.items()}, {ONE: 5})
    assert uniform(spec) == {name: {ONE: set(p)} for name, p in assigned.items()}


@pytest.mark.parametrize("only_two", ["a", "b", "c"])
def test_whoever_can_take_little_else_takes_it(only_two: str) -> None:
    members = {name: member([TWO] if name == only_two else [ONE, TWO]) for name in "abc"}
    assignment = uniform(GroupSpec(members, {ONE: 4, TWO: 2}))
    assert sizes(assignment) == {"a": 2, "b": 2, "c": 2}
    assert assignment[only_two] == {TWO: {0, 1}}
