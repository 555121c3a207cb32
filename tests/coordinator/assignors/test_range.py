"""The `range` assignor: neighbouring partitions, co-partitioned topics, static members first."""

from dataclasses import replace
from itertools import combinations

from hypothesis import given
from tests.coordinator.assignors.groups import FEW, groups, member, topic

from barnabas.coordinator.assignors import ASSIGNORS, GroupSpec
from barnabas.coordinator.assignors.order import text_order, topic_order

assign = ASSIGNORS["range"].assign

ONE, TWO = topic(1), topic(2)


@FEW
@given(groups())
def test_every_share_is_a_run_of_neighbours(spec: GroupSpec) -> None:
    for given_out in assign(spec).values():
        for numbers in given_out.values():
            assert max(numbers) - min(numbers) + 1 == len(numbers)


@FEW
@given(groups())
def test_shares_of_one_topic_differ_by_at_most_one(spec: GroupSpec) -> None:
    assignment = assign(spec)
    for name in spec.partitions:
        readers = [m for m, each in spec.members.items() if name in each.topics]
        shares = [len(assignment[reader].get(name, ())) for reader in readers]
        assert not shares or max(shares) - min(shares) <= 1


@FEW
@given(groups())
def test_topics_with_the_same_readers_and_counts_are_co_partitioned(spec: GroupSpec) -> None:
    assignment = assign(spec)
    readers = {
        name: {m for m, each in spec.members.items() if name in each.topics}
        for name in spec.partitions
    }
    for one, other in combinations(spec.partitions, 2):
        if readers[one] == readers[other] and spec.partitions[one] == spec.partitions[other]:
            assert all(given.get(one) == given.get(other) for given in assignment.values())


@FEW
@given(groups())
def test_the_last_assignment_plays_no_part(spec: GroupSpec) -> None:
    fresh = {name: replace(each, assigned={}) for name, each in spec.members.items()}
    assert assign(spec) == assign(replace(spec, members=fresh))


def test_the_first_members_have_the_longer_runs() -> None:
    spec = GroupSpec({name: member([ONE, TWO]) for name in "cab"}, {ONE: 5, TWO: 3})
    assert assign(spec) == {
        "a": {ONE: {0, 1}, TWO: {0}},
        "b": {ONE: {2, 3}, TWO: {1}},
        "c": {ONE: {4}, TWO: {2}},
    }


def test_only_subscribers_share_a_topic() -> None:
    members = {"a": member([ONE]), "b": member([ONE, TWO]), "c": member([TWO])}
    assert assign(GroupSpec(members, {ONE: 3, TWO: 3})) == {
        "a": {ONE: {0, 1}},
        "b": {ONE: {2}, TWO: {0, 1}},
        "c": {TWO: {2}},
    }


def test_static_members_stand_first_in_the_order_of_their_instances() -> None:
    members = {
        "a": member([ONE]),
        "b": member([ONE], instance_id="z"),
        "c": member([ONE], instance_id="y"),
    }
    assignment = assign(GroupSpec(members, {ONE: 3}))
    assert assignment == {"c": {ONE: {0}}, "b": {ONE: {1}}, "a": {ONE: {2}}}


def test_a_static_member_has_the_same_under_a_new_member_id() -> None:
    before = {"k": member([ONE], instance_id="i0"), "j": member([ONE], instance_id="i1")}
    bounced = {"b": member([ONE], instance_id="i0"), "c": member([ONE], instance_id="i1")}
    first, second = assign(GroupSpec(before, {ONE: 5})), assign(GroupSpec(bounced, {ONE: 5}))
    assert (first["k"], first["j"]) == (second["b"], second["c"])


def test_ids_are_ordered_as_java_orders_them() -> None:
    low, high = b"\x00" * 15 + b"\x01", b"\x80" + b"\x00" * 15
    assert sorted([low, high], key=topic_order) == [high, low]
    rare, common = "\U0001f600", "\uff5e"
    assert sorted([common, rare], key=text_order) == [rare, common]
