"""Plans of moves: even, with racks respected, and no more of them than needed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.model.errors import BarnabasError
from barnabas.operating.balancing import BYTES_APART_MIN, plan_balance
from barnabas.operating.draining import plan_drain
from barnabas.operating.leading import even_leaders
from barnabas.operating.plan import Change, Layout, layout_of, next_to_begin, under_way
from barnabas.operating.snapshot import Moving, PartitionFacts, Place, Snapshot, TopicFacts

Racks = dict[int, str | None]


@st.composite
def clusters(draw: st.DrawFn, racks: int = 0) -> tuple[Layout, Racks]:
    """Any layout over up to 6 brokers; without racks, or with up to so many."""
    count = draw(st.integers(1, 6))
    brokers = list(range(1, count + 1))
    of: Racks = {each: f"r{draw(st.integers(1, racks))}" if racks else None for each in brokers}
    layout: Layout = {}
    for topic in range(draw(st.integers(0, 3))):
        factor = draw(st.integers(1, min(3, count)))
        for number in range(draw(st.integers(1, 8))):
            order = draw(st.permutations(brokers))
            layout[Place(f"t{topic}", number)] = tuple(order[:factor])
    return layout, of


def applied(layout: Layout, plan: list[Change]) -> Layout:
    return {**layout, **{each.place: each.after for each in plan}}


def held(layout: Layout, brokers: Racks) -> dict[int, int]:
    return {each: sum(each in replicas for replicas in layout.values()) for each in brokers}


def led(layout: Layout, brokers: Racks) -> dict[int, int]:
    return {each: sum(replicas[0] == each for replicas in layout.values()) for each in brokers}


def spread(counts: dict[int, int]) -> int:
    return max(counts.values()) - min(counts.values())


def check_sound(layout: Layout, plan: list[Change], brokers: Racks) -> None:
    for change in plan:
        assert change.before == layout[change.place] != change.after
        assert len(change.after) == len(change.before)
        assert len(set(change.after)) == len(change.after)
        assert set(change.adding) <= brokers.keys()


def moves_needed(counts: dict[int, int]) -> int:
    """No plan can do with fewer: what is above the larger share, or below the smaller one."""
    low, rest = divmod(sum(counts.values()), len(counts))
    high = low + (rest > 0)
    return max(
        sum(max(each - high, 0) for each in counts.values()),
        sum(max(low - each, 0) for each in counts.values()),
    )


@given(clusters())
@settings(max_examples=150, deadline=None)
def test_without_racks_all_is_even_by_as_few_moves_as_can_be(cluster: tuple[Layout, Racks]) -> None:
    layout, brokers = cluster
    plan = plan_balance(layout, brokers, {})
    check_sound(layout, plan, brokers)
    after = applied(layout, plan)
    assert spread(held(after, brokers)) <= 1
    assert sum(len(each.adding) for each in plan) == moves_needed(held(layout, brokers))
    assert plan_balance(after, brokers, {}) == []
    assert plan_balance(layout, brokers, {}) == plan


def racks_short(layout: Layout, racks: Racks) -> int:
    there = len(set(racks.values()))
    return sum(
        min(len(replicas), there) - len({racks[each] for each in replicas})
        for replicas in layout.values()
    )


@given(clusters(racks=3))
@settings(max_examples=150, deadline=None)
def test_replicas_are_on_as_many_racks_as_there_are(cluster: tuple[Layout, Racks]) -> None:
    layout, racks = cluster
    plan = plan_balance(layout, racks, {})
    check_sound(layout, plan, racks)
    after = applied(layout, plan)
    assert racks_short(after, racks) == 0
    assert plan_balance(after, racks, {}) == []
    if racks_short(layout, racks) == 0:
        # Evening them never makes it more uneven, whatever the racks allow.
        assert spread(held(after, racks)) <= max(spread(held(layout, racks)), 1)


@given(clusters(racks=2), st.data())
@settings(max_examples=150, deadline=None)
def test_bytes_do_not_make_the_counts_uneven(
    cluster: tuple[Layout, Racks], data: st.DataObject
) -> None:
    layout, racks = cluster
    sizes = {place: data.draw(st.integers(0, 20 * BYTES_APART_MIN)) for place in sorted(layout)}
    brokers: Racks = dict.fromkeys(racks)
    plan = plan_balance(layout, brokers, sizes)
    check_sound(layout, plan, brokers)
    after = applied(layout, plan)
    assert spread(held(after, brokers)) <= 1
    assert plan_balance(after, brokers, sizes) == []
    with_racks = plan_balance(layout, racks, sizes)
    assert plan_balance(applied(layout, with_racks), racks, sizes) == []


def test_large_ones_are_swapped_for_small_ones() -> None:
    large, small = 100 * BYTES_APART_MIN, 1000
    layout: Layout = {Place("t", number): (1,) if number < 4 else (2,) for number in range(8)}
    sizes = {place: large if replicas == (1,) else small for place, replicas in layout.items()}
    plan = plan_balance(layout, {1: None, 2: None}, sizes)
    after = applied(layout, plan)
    assert held(after, {1: None, 2: None}) == {1: 4, 2: 4}
    assert sorted(sizes[each.place] for each in plan) == [small, small, large, large]


def test_a_new_broker_gets_its_share_and_nobody_else_anything() -> None:
    layout: Layout = {
        Place("t", number): (1 + number % 3, 1 + (number + 1) % 3) for number in range(12)
    }
    brokers: Racks = dict.fromkeys([1, 2, 3, 4])
    plan = plan_balance(layout, brokers, {})
    assert {each.adding for each in plan if each.adding} == {(4,)}
    assert sum(len(each.adding) for each in plan) == 6
    assert led(applied(layout, plan), brokers) == {1: 3, 2: 3, 3: 3, 4: 3}


def test_racks_are_respected_over_others_where_the_direct_way_is_barred() -> None:
    # Broker 3 shares its rack with 2, which has a replica of everything that 1 has too many of.
    racks: Racks = {1: "a", 2: "b", 3: "b"}
    layout: Layout = {Place("t", number): (1, 2) for number in range(4)}
    after = applied(layout, plan_balance(layout, racks, {}))
    assert held(after, racks) == {1: 4, 2: 2, 3: 2}


def test_replicas_of_a_dead_broker_stay() -> None:
    layout: Layout = {Place("t", number): (9, 1 + number % 2) for number in range(6)}
    plan = plan_balance(layout, {1: None, 2: None}, {})
    assert all(9 in each.after for each in plan)


@given(clusters())
@settings(max_examples=150, deadline=None)
def test_leaders_are_even_where_replicas_allow_it_and_nothing_is_copied(
    cluster: tuple[Layout, Racks],
) -> None:
    layout, brokers = cluster
    plan = plan_balance(layout, brokers, {}, leaders_only=True)
    after = applied(layout, plan)
    assert all(set(each.before) == set(each.after) for each in plan)
    assert even_leaders(after, brokers) == after
    counts = led(after, brokers)
    # Whoever leads two more than another has nothing that the other could lead.
    for place, replicas in after.items():
        assert all(counts[replicas[0]] - counts[each] <= 1 for each in replicas), place


@given(clusters(racks=3), st.data())
@settings(max_examples=150, deadline=None)
def test_a_drained_broker_holds_nothing(cluster: tuple[Layout, Racks], data: st.DataObject) -> None:
    layout, racks = cluster
    broker = data.draw(st.sampled_from(sorted(racks)))
    others = racks.keys() - {broker}
    try:
        plan = plan_drain(layout, broker, racks, {})
    except BarnabasError:
        assert any(others <= set(replicas) for replicas in layout.values() if broker in replicas)
        return
    check_sound(layout, plan, racks)
    after = applied(layout, plan)
    assert all(broker not in replicas for replicas in after.values())
    assert {each.place for each in plan} == {p for p, held in layout.items() if broker in held}
    for change in plan:
        assert change.removing == (broker,)
        assert change.after.index(change.adding[0]) == change.before.index(broker)


def test_a_drain_respects_racks() -> None:
    racks: Racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    layout: Layout = {Place("t", number): (1, 3) for number in range(4)}
    assert {each.adding for each in plan_drain(layout, 1, racks, {})} == {(2,)}


def test_a_drain_that_leaves_too_few_brokers_is_refused_with_the_partition() -> None:
    with pytest.raises(BarnabasError, match="t-0 has 3 replicas, and without broker 2"):
        plan_drain({Place("t", 0): (1, 2, 3)}, 2, dict.fromkeys([1, 2, 3]), {})


def test_a_dead_broker_can_be_drained() -> None:
    (change,) = plan_drain({Place("t", 0): (9, 2)}, 9, dict.fromkeys([1, 2]), {})
    assert change.after == (1, 2)


def test_a_broker_takes_in_so_many_replicas_at_a_time() -> None:
    plan = [Change(Place("t", number), (1,), (2,), 10) for number in range(5)]
    reordered = Change(Place("u", 0), (1, 2), (2, 1), 10)
    first = next_to_begin([*plan, reordered], [], 2)
    assert first == [*plan[:2], reordered]
    assert reordered.bytes == 0
    assert next_to_begin(plan[2:], plan[:2], 2) == []
    assert next_to_begin(plan[2:], plan[1:2], 2) == plan[2:3]


def test_a_move_that_was_begun_is_taken_for_done_by_plans() -> None:
    facts = PartitionFacts(1, 0, (3, 2, 1), (1, 2))
    place = Place("t", 0)
    snapshot = Snapshot(
        cluster_id="c",
        controller=1,
        brokers={},
        topics={"t": TopicFacts("x", {0: facts})},
        moving={place: Moving((3,), (1,))},
    )
    assert layout_of(snapshot) == {place: (3, 2)}
    assert under_way(snapshot, {place: 7}) == [Change(place, (2, 1), (3, 2), 7)]
