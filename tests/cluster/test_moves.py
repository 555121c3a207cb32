"""Partitions are moved: what holds of every state on the way, and single cases with reasons."""

from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster import layout
from barnabas.cluster.elections import elect, needed, trusted, with_isr
from barnabas.cluster.image import NO_LEADER, PartitionState
from barnabas.cluster.moves import begun, completed, taken_back
from barnabas.model.errors import ErrorCode, KafkaError

BROKERS = range(6)
TARGETS = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True).map(tuple)


def at(*replicas: int, isr: Collection[int] = (), leader: int | None = None) -> PartitionState:
    members = tuple(isr) or replicas
    return PartitionState(members[0] if leader is None else leader, 5, replicas, members, 7)


def step(state: PartitionState | None) -> PartitionState:
    assert state is not None
    return state


def test_new_replicas_are_added_before_the_old_ones_go() -> None:
    moving = step(begun(at(1, 2, 3), (4, 5, 1), BROKERS, 1))
    assert moving.replicas == (4, 5, 1, 2, 3)
    assert (moving.adding, moving.removing, moving.original) == ((4, 5), (2, 3), (1, 2, 3))
    assert (moving.leader, moving.leader_epoch, set(moving.isr)) == (1, 5, {1, 2, 3})
    assert moving.partition_epoch == 8
    assert completed(moving, BROKERS) is None
    nearly = with_isr(moving, (1, 2, 3, 4), 2)
    assert completed(nearly, BROKERS) is None
    there = step(completed(with_isr(nearly, (1, 3, 4, 5), 2), BROKERS))
    assert (there.replicas, there.isr, there.leader) == ((4, 5, 1), (4, 5, 1), 1)
    assert not there.is_moving
    assert there.leader_epoch == 6, "whoever went must not be believed if it comes back"


def test_a_leader_that_goes_hands_over_in_the_same_write() -> None:
    moving = with_isr(step(begun(at(1), (2,), BROKERS, 1)), (1, 2), 1)
    there = step(completed(moving, BROKERS))
    assert (there.leader, there.leader_epoch, there.replicas, there.isr) == (2, 6, (2,), (2,))
    assert there.partition_epoch == moving.partition_epoch + 1


def test_nothing_is_completed_that_nobody_could_lead() -> None:
    moving = with_isr(step(begun(at(1), (2,), BROKERS, 1)), (1, 2), 1)
    assert completed(moving, {1, 3}) is None
    assert completed(replace(moving, leader=NO_LEADER, isr=(2,)), {1}) is None


def test_who_lost_everything_is_given_no_lead_by_a_move() -> None:
    gone = replace(at(1, 2, isr=(1,), leader=NO_LEADER), emptied=(1,))
    moving = step(begun(gone, (1, 3), BROKERS, 1))
    assert (moving.leader, moving.isr, moving.emptied) == (NO_LEADER, (1,), (1,))
    assert step(elect(moving, BROKERS, unclean=True, min_isr=1)).leader == 2
    alone = step(begun(gone, (1,), BROKERS, 1))
    assert (alone.leader, alone.replicas, alone.emptied) == (NO_LEADER, (1, 2), (1,))
    assert completed(alone, BROKERS) is None


def test_fewer_replicas_and_another_order_take_one_write() -> None:
    fewer = step(begun(at(1, 2, 3), (2, 1), BROKERS, 1))
    assert (fewer.replicas, fewer.isr, fewer.is_moving) == ((2, 1), (2, 1), False)
    assert (fewer.leader, fewer.leader_epoch, fewer.partition_epoch) == (1, 6, 8)
    turned = step(begun(at(1, 2, 3), (3, 2, 1), BROKERS, 1))
    assert (turned.replicas, turned.is_moving) == ((3, 2, 1), False)
    assert (turned.leader, turned.leader_epoch, turned.partition_epoch) == (1, 5, 8)
    assert begun(at(1, 2, 3), (1, 2, 3), BROKERS, 1) is None


def test_a_move_that_is_aimed_elsewhere_lets_go_of_whom_it_had_begun_to_add() -> None:
    moving = with_isr(step(begun(at(1, 2), (3, 4), BROKERS, 1)), (1, 2, 3), 1)
    other = step(begun(moving, (4, 5), BROKERS, 1))
    assert (other.replicas, other.adding, other.removing) == ((4, 5, 1, 2), (4, 5), (1, 2))
    assert (set(other.isr), other.original) == ({1, 2}, (1, 2))
    assert other.leader_epoch == moving.leader_epoch + 1


def test_a_move_is_taken_back_to_the_order_there_was() -> None:
    moving = step(begun(at(1, 2, 3), (3, 4), BROKERS, 1))
    back = step(taken_back(moving, BROKERS, 1))
    assert (back.replicas, back.isr, back.is_moving) == ((1, 2, 3), (1, 2, 3), False)
    assert taken_back(back, BROKERS, 1) is None


def test_a_move_is_not_taken_back_to_those_who_lack_what_is_committed() -> None:
    moving = replace(step(begun(at(1), (2,), BROKERS, 1)), isr=(2,), leader=2)
    with pytest.raises(KafkaError) as refused:
        taken_back(moving, BROKERS, 1)
    assert refused.value.code is ErrorCode.invalid_replica_assignment
    # One who left an ISR that had become too small has everything,
    eligible = replace(moving, replicas=(2, 1, 3), isr=(2,), eligible=(1, 3), original=(1, 3))
    back = step(taken_back(eligible, BROKERS, 2))
    assert (back.leader, back.isr, back.eligible, back.leader_epoch) == (1, (1, 3), (), 6)
    # unless it is large enough since, as less is asked for.
    with pytest.raises(KafkaError, match="there would be only 0"):
        taken_back(eligible, BROKERS, 1)


def test_a_move_is_not_taken_back_to_fewer_than_are_asked_for() -> None:
    """The one that would be left may just have lost its power, and nobody knows it yet."""
    moving = with_isr(step(begun(at(3, 2), (1, 2), BROKERS, 2)), (1, 3), 2)
    words = r"being added \(1\) there would be only 1 .* and min.insync.replicas asks for 2"
    with pytest.raises(KafkaError, match=words) as refused:
        taken_back(moving, BROKERS, 2)
    assert refused.value.code is ErrorCode.invalid_replica_assignment
    with pytest.raises(KafkaError, match=words):
        begun(moving, (4, 2), BROKERS, 2)
    with pytest.raises(KafkaError, match=words):
        taken_back(replace(moving, isr=(1,), eligible=(3,), leader=1), BROKERS, 2)
    assert step(taken_back(moving, BROKERS, 1)).isr == (3,)
    # Who was alone before is not less by it.
    assert step(taken_back(replace(moving, isr=(3,)), BROKERS, 2)).isr == (3,)


def test_who_is_added_makes_nobody_wait() -> None:
    """`min.insync.replicas` of two, one replica: it is enough until there are two."""
    moving = step(begun(at(1), (1, 2, 3), BROKERS, 1))
    assert len(moving.settled) == 1
    assert not with_isr(moving, (1,), 2).eligible


def test_an_unclean_election_prefers_those_who_had_something() -> None:
    moving = step(begun(at(1, 2, isr=[1]), (3, 1, 2), BROKERS, 1))
    after = step(elect(moving, {2, 3}, unclean=True, min_isr=1))
    assert after.leader == 2


def check(before: PartitionState, after: PartitionState) -> None:
    assert after.isr
    assert set(after.isr) <= set(after.replicas)
    assert set(after.eligible) <= set(after.replicas) - set(after.isr)
    assert after.leader == NO_LEADER or after.leader in after.isr
    assert len(set(after.replicas)) == len(after.replicas)
    assert after.partition_epoch == before.partition_epoch + 1
    gone = set(before.replicas) - set(after.replicas)
    assert after.leader_epoch - before.leader_epoch in (0, 1)
    if after.leader != before.leader or gone:
        assert after.leader_epoch == before.leader_epoch + 1
    assert set(after.isr) <= {*before.isr, *before.eligible}, "somebody counts who did not"
    assert after.is_moving == bool(after.original)
    if after.is_moving:
        assert after.replicas == (*after.target, *after.removing)
        assert set(after.adding) == set(after.target) - set(after.original)
        assert set(after.removing) == set(after.original) - set(after.target)
    data = layout.encode_state(after, 1)
    assert layout.decode_state("/s", data, (), after.partition_epoch) == after


@given(
    first=TARGETS,
    script=st.lists(
        st.tuples(
            st.sampled_from(["begin", "back", "join", "leave", "alive", "complete"]),
            TARGETS,
            st.frozensets(st.sampled_from(BROKERS)),
        ),
        max_size=25,
    ),
    min_isr=st.integers(1, 3),
)
def test_whatever_comes_in_between_a_move_ends_where_it_was_aimed(
    first: tuple[int, ...],
    script: list[tuple[str, tuple[int, ...], frozenset[int]]],
    min_isr: int,
) -> None:
    """Each step is one write, and what follows is decided from what is stored alone: so a
    controller that comes after any of them goes on as the one before it would have."""
    state, alive = at(*first), frozenset(BROKERS)
    wanted = original = first
    for kind, target, some in script:
        after: PartitionState | None = None
        try:
            if kind == "begin":
                after = begun(state, target, alive, min_isr)
                wanted = target
            elif kind == "back":
                after = taken_back(state, alive, min_isr)
                wanted = original if state.is_moving else wanted
        except KafkaError:
            kept = {*state.settled, *(target if kind == "begin" else ())}
            known = trusted(state, min_isr)
            assert len({*known.isr, *known.eligible} & kept) < needed(state, min_isr)
            wanted = state.target
        if kind in ("join", "leave") and state.leader in alive:
            members = {*state.isr} | {*some} if kind == "join" else {*state.isr} - {*some}
            members = {each for each in members if each in state.replicas} | {state.leader}
            if members != set(state.isr):
                state = with_isr(state, members, min_isr)
        elif kind == "alive":
            alive = some
            state = elect(state, alive, unclean=False, min_isr=min_isr) or state
        elif kind == "complete":
            after = completed(state, alive)
            assert after is None or after.replicas == wanted
        if after is not None:
            check(state, after)
            state = after
        assert state.target == wanted
        if not state.is_moving:
            original = state.replicas
        assert state.settled == original
    # Everybody comes back, and catches up: then it is where it was to be.
    state = elect(state, BROKERS, unclean=False, min_isr=min_isr) or state
    state = with_isr(state, state.replicas, min_isr)
    state = completed(state, BROKERS) or state
    assert (state.replicas, state.is_moving) == (wanted, False)
    assert set(state.isr) == set(wanted)
    assert state.leader in wanted
