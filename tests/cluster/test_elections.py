"""What holds of every state a partition can get into, and single cases with their reasons."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.elections import (
    begun_anew,
    elect,
    emptied,
    found,
    prefer_first,
    with_isr,
    without,
)
from barnabas.cluster.image import NO_LEADER, PartitionState

BROKERS = range(5)
SOME = st.frozensets(st.sampled_from(BROKERS))


@st.composite
def states(draw: st.DrawFn) -> tuple[PartitionState, int]:
    """A state that can be, and the minimum of in-sync replicas under which it came to be."""
    replicas = tuple(draw(st.permutations(BROKERS))[: draw(st.integers(1, 5))])
    min_isr = draw(st.integers(1, 4))
    isr = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    eligible: list[int] = []
    outside = [each for each in replicas if each not in isr]
    if outside and len(isr) < min(min_isr, len(replicas)):
        eligible = draw(st.lists(st.sampled_from(outside), unique=True))
    state = PartitionState(
        draw(st.sampled_from([NO_LEADER, *isr])),
        draw(st.integers(0, 9)),
        replicas,
        tuple(each for each in replicas if each in isr),
        draw(st.integers(0, 99)),
        tuple(each for each in replicas if each in eligible),
    )
    if state.leader == NO_LEADER:
        may = [each for each in outside if each not in eligible]
        may += isr if len(isr) == 1 and not eligible else []
        gone = draw(st.frozensets(st.sampled_from(may))) if may else ()
        state = replace(state, emptied=tuple(each for each in replicas if each in gone))
    return state, min_isr


def check(before: PartitionState, after: PartitionState, min_isr: int) -> None:
    """What holds of every step."""
    assert after.isr
    assert set(after.isr) <= set(after.replicas) == set(before.replicas)
    assert after.leader == NO_LEADER or after.leader in after.isr
    assert not set(after.eligible) & set(after.isr)
    assert set(after.eligible) <= set(after.replicas)
    assert set(after.emptied) <= set(after.replicas)
    assert not (after.emptied and after.leader != NO_LEADER)
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch - before.leader_epoch in (0, 1)
    if after.leader != before.leader:
        assert after.leader_epoch == before.leader_epoch + 1
    if after.leader != NO_LEADER and len(after.isr) >= min(min_isr, len(after.replicas)):
        assert not after.eligible


@given(given_state=states(), alive=SOME, leaving=SOME, unclean=st.booleans())
def test_elections_keep_what_must_hold(
    given_state: tuple[PartitionState, int],
    alive: frozenset[int],
    leaving: frozenset[int],
    unclean: bool,
) -> None:
    state, min_isr = given_state
    after = elect(state, alive, unclean=unclean, min_isr=min_isr, leaving=leaving)
    now = after or state
    if after is not None:
        check(state, after, min_isr)
        assert elect(after, alive, unclean=unclean, min_isr=min_isr, leaving=leaving) is None
        if after.leader == state.leader:
            assert after.leader_epoch == state.leader_epoch
    trusted = {*state.isr, *state.eligible} - set(state.emptied)
    if now.leader in state.emptied:
        assert set(state.emptied) == set(state.replicas)
    if not unclean:
        assert now.leader in {NO_LEADER, *trusted}, "an unclean election"
        assert set(now.isr) <= {*trusted, *state.isr}, "somebody counts as in sync who was not"
    if now.leader == NO_LEADER:
        assert not alive & trusted
        assert not (unclean and alive & (set(state.replicas) - set(state.emptied)))
        assert (set(now.isr), set(now.eligible)) == (set(state.isr), set(state.eligible))
    else:
        assert now.leader in alive
        assert set(now.isr) <= alive
        # Who leaves is in the ISR only where it leads, and leads only where nobody else can.
        assert not (set(now.isr) & leaving) - {now.leader}
        if now.leader in leaving:
            assert not (alive & set(state.isr)) - leaving


@given(given_state=states(), alive=SOME, leaving=SOME)
def test_preferred_leaders_keep_what_must_hold(
    given_state: tuple[PartitionState, int], alive: frozenset[int], leaving: frozenset[int]
) -> None:
    state, min_isr = given_state
    after = prefer_first(state, alive, min_isr=min_isr, leaving=leaving)
    first = state.replicas[0]
    can = first in alive and first not in leaving and first in state.isr
    can = can and first not in state.emptied
    assert (after is not None) == (can and state.leader != first)
    if after is not None:
        check(state, after, min_isr)
        assert after.leader == first


@given(given_state=states(), wanted=SOME)
def test_leaders_keep_what_must_hold(
    given_state: tuple[PartitionState, int], wanted: frozenset[int]
) -> None:
    state, min_isr = given_state
    isr = wanted & set(state.replicas)
    if state.leader == NO_LEADER or state.leader not in isr:
        isr |= {state.replicas[0]}
        state = replace(state, leader=state.replicas[0], isr=tuple({state.replicas[0], *state.isr}))
        state = replace(state, eligible=tuple(e for e in state.eligible if e not in state.isr))
        state = replace(state, emptied=())
    after = with_isr(state, isr, min_isr)
    check(state, after, min_isr)
    assert (after.leader, after.leader_epoch) == (state.leader, state.leader_epoch)
    assert set(after.isr) == isr
    if len(isr) < min(min_isr, len(state.replicas)):
        assert set(after.eligible) == {*state.isr, *state.eligible} - isr


@given(given_state=states(), broker=st.sampled_from(BROKERS))
def test_who_lost_records_counts_only_where_nobody_else_does(
    given_state: tuple[PartitionState, int], broker: int
) -> None:
    state, min_isr = given_state
    after = without(state, broker, min_isr)
    if after is None:
        assert broker not in state.eligible
        assert broker not in state.isr or (state.isr == (broker,) and state.leader == NO_LEADER)
        return
    check(state, after, min_isr)
    assert broker not in after.eligible
    if {*state.isr, *state.eligible} == {broker}:
        assert (after.isr, after.leader) == ((broker,), broker)
        assert after.leader_epoch == state.leader_epoch + 1
    else:
        assert broker not in after.isr
        assert after.leader != broker
        assert set(after.isr) <= {*state.isr, *state.eligible}
        assert without(after, broker, min_isr) is None


@given(given_state=states(), broker=st.sampled_from(BROKERS))
def test_who_lost_everything_leads_nothing_and_nobody_without_data_is_elected(
    given_state: tuple[PartitionState, int], broker: int
) -> None:
    state, min_isr = given_state
    if broker not in state.replicas:
        return
    after = emptied(state, broker, min_isr)
    if after is None:
        counts = broker in state.isr or broker in state.eligible
        follows = not counts and state.leader != NO_LEADER
        assert follows or broker in state.emptied or len(state.replicas) == 1
        return
    check(state, after, min_isr)
    assert after.leader != broker
    assert broker not in after.eligible
    if {*state.isr, *state.eligible} == {broker}:
        assert (after.leader, after.isr) == (NO_LEADER, (broker,))
        assert elect(after, BROKERS, unclean=False, min_isr=min_isr) is None
        assert prefer_first(after, BROKERS, min_isr=min_isr) is None
        with_data = set(after.replicas) - set(after.emptied)
        chosen = elect(after, BROKERS, unclean=True, min_isr=min_isr)
        assert chosen is not None
        assert chosen.leader in (with_data or {broker, *after.emptied})
    else:
        assert broker not in after.isr
    if after.leader == NO_LEADER:
        there_again = found(after, broker)
        assert there_again is not None
        check(after, there_again, min_isr)
        assert broker not in there_again.emptied
        assert found(there_again, broker) is None


@given(given_state=states(), broker=st.sampled_from(BROKERS))
def test_a_restarted_leader_begins_a_new_epoch(
    given_state: tuple[PartitionState, int], broker: int
) -> None:
    state, min_isr = given_state
    after = begun_anew(state, broker)
    assert (after is not None) == (state.leader == broker)
    if after is not None:
        check(state, after, min_isr)
        assert (after.leader, after.leader_epoch) == (broker, state.leader_epoch + 1)
        assert after.isr == state.isr


def state_of(
    leader: int, isr: tuple[int, ...], eligible: tuple[int, ...] = (), epoch: int = 3
) -> PartitionState:
    return PartitionState(leader, epoch, (1, 2, 3), isr, 7, eligible)


@pytest.mark.parametrize(
    ("before", "alive", "after"),
    [
        # The leader dies: the next in the list that is in sync, and the dead one is out.
        (state_of(1, (1, 2, 3)), {2, 3}, state_of(2, (2, 3), epoch=4)),
        (state_of(1, (1, 3)), {2, 3}, state_of(3, (3,), epoch=4)),
        # A follower dies: no election.
        (state_of(1, (1, 2, 3)), {1, 2}, state_of(1, (1, 2))),
        # All die: the list stays, for whoever is back first.
        (state_of(1, (1, 2)), set(), state_of(-1, (1, 2), epoch=4)),
        (state_of(-1, (1, 2)), {2, 3}, state_of(2, (2,), epoch=4)),
        # Nobody of the list is back: nobody leads.
        (state_of(-1, (1,)), {2, 3}, None),
        # Nothing to do.
        (state_of(1, (1, 2)), {1, 2, 3}, None),
    ],
)
def test_a_leader_is_elected(
    before: PartitionState, alive: set[int], after: PartitionState | None
) -> None:
    expected = after and replace(after, partition_epoch=8)
    assert elect(before, alive, unclean=False, min_isr=1) == expected


def test_below_the_minimum_who_left_may_lead() -> None:
    shrunk = with_isr(state_of(1, (1, 2, 3)), (1,), 2)
    assert (shrunk.isr, shrunk.eligible) == ((1,), (2, 3))
    elected = elect(shrunk, {3}, unclean=False, min_isr=2)
    assert elected is not None
    assert (elected.leader, elected.isr, elected.eligible) == (3, (3,), (1, 2))


def test_a_minimum_above_the_replicas_asks_for_all_of_them() -> None:
    alone = PartitionState(1, 0, (1,), (1,))
    assert with_isr(alone, (1,), 3).eligible == ()


def test_an_unclean_leader_starts_alone() -> None:
    elected = elect(state_of(1, (1,), (2,)), {3}, unclean=True, min_isr=2)
    assert elected is not None
    assert (elected.leader, elected.isr, elected.eligible) == (3, (3,), ())


def test_who_has_data_is_elected_rather_than_who_has_none() -> None:
    gone = emptied(state_of(1, (1,)), 1, 1)
    assert gone is not None
    assert (gone.leader, gone.isr, gone.emptied, gone.leader_epoch) == (NO_LEADER, (1,), (1,), 4)
    assert elect(gone, {1, 2, 3}, unclean=False, min_isr=1) is None
    chosen = elect(gone, {1, 2, 3}, unclean=True, min_isr=1)
    assert chosen is not None
    assert (chosen.leader, chosen.isr, chosen.emptied) == (2, (2,), ())
    assert elect(gone, {1}, unclean=True, min_isr=1) is None
    nothing = replace(gone, emptied=(1, 2, 3))
    last = elect(nothing, {1}, unclean=True, min_isr=1)
    assert last is not None
    assert (last.leader, last.emptied) == (1, ())


def test_the_only_replica_begins_anew() -> None:
    assert emptied(PartitionState(1, 0, (1,), (1,)), 1, 1) is None


def test_who_leaves_is_relieved_and_followers_go_too() -> None:
    relieved = elect(state_of(1, (1, 2, 3)), {1, 2, 3}, unclean=False, min_isr=1, leaving={1})
    assert relieved is not None
    assert (relieved.leader, relieved.isr, relieved.leader_epoch) == (2, (2, 3), 4)
    gone = elect(state_of(1, (1, 2, 3)), {1, 2, 3}, unclean=False, min_isr=1, leaving={2})
    assert gone is not None
    assert (gone.leader, gone.isr, gone.leader_epoch) == (1, (1, 3), 3)
    alone = elect(state_of(1, (1,)), {1, 2, 3}, unclean=True, min_isr=1, leaving={1})
    assert alone is None
