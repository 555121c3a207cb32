"""The arithmetic of the ISR: what is committed, who may join, who has to go."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.cluster.image import BrokerNode, PartitionState
from barnabas.replica.in_sync import UNKNOWN, InSync

REPLICAS = (1, 2, 3, 4)
FOLLOWERS = st.sampled_from(REPLICAS[1:])


def state(isr: Sequence[int] = REPLICAS, version: int = 0) -> PartitionState:
    return PartitionState(1, 5, REPLICAS, tuple(isr), version)


def alive(*brokers: int, epoch: int = 7, leaving: bool = False) -> dict[int, BrokerNode]:
    return {each: BrokerNode(each, "h", 1, epoch=epoch, leaving=leaving) for each in brokers}


def test_a_follower_that_has_not_fetched_in_this_epoch_may_have_nothing() -> None:
    in_sync = InSync(1, state((1, 2)), 10, 0.0)
    assert in_sync.committed(10, 4, 1) == 4
    in_sync.fetched(2, 7, 8, 10, 0.0)
    assert in_sync.committed(10, 4, 1) == 8


def test_the_high_watermark_never_goes_back() -> None:
    in_sync = InSync(1, state((1, 2)), 10, 0.0)
    in_sync.fetched(2, 7, 3, 10, 0.0)
    assert in_sync.committed(10, 4, 1) == 4


def test_below_min_isr_nothing_more_is_committed() -> None:
    in_sync = InSync(1, state((1, 2)), 0, 0.0)
    in_sync.fetched(2, 7, 9, 10, 0.0)
    assert in_sync.committed(10, 4, 3) == 4
    assert in_sync.committed(10, 4, 2) == 9


def test_as_long_as_somebody_is_eligible_nothing_is_committed_without_him() -> None:
    """Whoever wrote that state knew of a higher minimum than has been heard of here."""
    in_sync = InSync(1, replace(state((1,)), eligible=(3,)), 0, 0.0)
    assert not in_sync.has_enough(1)
    assert in_sync.committed(10, 4, 1) == 4
    in_sync.update(state((1,), 1), 0.0)
    assert in_sync.committed(10, 4, 1) == 10


def test_min_isr_is_no_more_than_there_are_replicas() -> None:
    two = PartitionState(1, 5, (1, 2), (1, 2))
    in_sync = InSync(1, two, 0, 0.0)
    assert in_sync.has_enough(3)
    in_sync.update(replace(two, isr=(1,), partition_epoch=1), 0.0)
    assert not in_sync.has_enough(3)


@pytest.mark.parametrize("proposed", [(1,), (1, 2), (1, 3), (1, 2, 3)])
def test_while_a_write_is_unknown_both_isrs_count(proposed: tuple[int, ...]) -> None:
    in_sync = InSync(1, state((1, 2)), 0, 0.0)
    in_sync.fetched(2, 7, 5, 9, 0.0)
    in_sync.fetched(3, 7, 4, 9, 0.0)
    in_sync.propose(proposed)
    assert in_sync.committed(9, 0, 1) == (4 if 3 in proposed else 5)
    in_sync.update(state(proposed, 1), 0.0)
    ends = {1: 9, 2: 5, 3: 4}
    assert in_sync.committed(9, 0, 1) == min(ends[each] for each in proposed)


def test_a_refused_write_leaves_the_isr_as_it_was() -> None:
    in_sync = InSync(1, state((1, 2)), 0, 0.0)
    in_sync.propose((1,))
    in_sync.refused()
    assert in_sync.maximal == (1, 2)


def test_news_are_of_this_epoch_and_later_than_what_is_known() -> None:
    in_sync = InSync(1, state((1, 2), 3), 0, 0.0)
    assert not in_sync.is_news(state((1,), 3))
    assert in_sync.is_news(state((1,), 4))
    assert not in_sync.is_news(replace(state((1,), 4), leader_epoch=6))
    in_sync.propose((1,))
    assert not in_sync.is_news(state((1,), 4))


def test_replicas_that_come_and_go_are_followers_or_not() -> None:
    in_sync = InSync(1, PartitionState(1, 5, (1, 2), (1, 2)), 0, 0.0)
    in_sync.fetched(2, 7, 4, 4, 0.0)
    in_sync.update(PartitionState(1, 5, (1, 2, 3), (1, 2), 1), 9.0)
    three, two = in_sync.follower(3), in_sync.follower(2)
    assert three is not None
    assert (three.end_offset, three.caught_up_s) == (UNKNOWN, 9.0)
    assert two is not None
    assert two.end_offset == 4
    in_sync.update(PartitionState(1, 5, (1, 3), (1, 3), 2), 9.0)
    assert in_sync.follower(2) is None


# --- joining -----------------------------------------------------------------------------------


def outsider(end: int, *, epoch_start: int = 10, life: int = 7) -> InSync:
    in_sync = InSync(1, state((1, 2)), epoch_start, 0.0)
    in_sync.fetched(3, life, end, 20, 0.0)
    return in_sync


def test_who_has_caught_up_joins() -> None:
    assert outsider(12).grown(3, 12, alive(3)) == (1, 2, 3)


@pytest.mark.parametrize(
    ("end", "high_watermark"),
    [(11, 12), (9, 5), (0, 0)],
    ids=["below the high watermark", "below the start of the epoch", "empty"],
)
def test_who_lacks_something_committed_does_not(end: int, high_watermark: int) -> None:
    """Below the start of the epoch too: a former leader may have committed more than is known."""
    assert outsider(end).grown(3, high_watermark, alive(3)) is None


def test_who_is_not_alive_or_leaves_or_has_another_life_does_not() -> None:
    assert outsider(20).grown(3, 12, {}) is None
    assert outsider(20).grown(3, 12, alive(3, leaving=True)) is None
    assert outsider(20).grown(3, 12, alive(3, epoch=8)) is None
    assert outsider(20).grown(9, 12, alive(9)) is None


def test_a_fetch_of_a_former_life_counts_for_nothing() -> None:
    """KIP-903: it came back, has lost what it had, and its old question arrives after the new."""
    in_sync = outsider(3, life=8)
    in_sync.fetched(3, 7, 20, 20, 0.0)
    follower = in_sync.follower(3)
    assert follower is not None
    assert (follower.end_offset, follower.broker_epoch) == (3, 8)
    assert in_sync.grown(3, 12, alive(3, epoch=8)) is None
    assert in_sync.epochs_of([3]) == {3: 8}


def test_one_change_at_a_time() -> None:
    in_sync = outsider(20)
    in_sync.propose((1,))
    assert in_sync.grown(3, 12, alive(3)) is None
    assert in_sync.shrunk(20, 1000.0, 30.0) is None


# --- leaving -----------------------------------------------------------------------------------


def test_who_does_not_fetch_has_to_go() -> None:
    in_sync = InSync(1, state((1, 2, 3)), 10, 0.0)
    in_sync.fetched(2, 7, 10, 10, 40.0)
    assert in_sync.shrunk(11, 30.0, 30.0) is None
    assert in_sync.shrunk(11, 31.0, 30.0) == (1, 2)
    assert in_sync.shrunk(11, 71.0, 30.0) == (1,)


def test_who_has_everything_may_be_silent() -> None:
    in_sync = InSync(1, state((1, 2)), 10, 0.0)
    in_sync.fetched(2, 7, 10, 10, 0.0)
    assert in_sync.shrunk(10, 1000.0, 30.0) is None


def test_one_fetch_behind_all_the_time_is_no_lag() -> None:
    """A leader that is written to all the time is never caught up with."""
    in_sync = InSync(1, state((1, 2)), 0, 0.0)
    for second in range(100):
        in_sync.fetched(2, 7, 10 * second, 10 * second + 10, float(second))
        assert in_sync.shrunk(10 * second + 10, float(second), 5.0) is None
    for second in range(100, 110):
        in_sync.fetched(2, 7, 990, 10 * second + 10, float(second))
    assert in_sync.shrunk(2000, 110.0, 5.0) == (1,)


@given(
    st.lists(st.tuples(FOLLOWERS, st.integers(-1, 20), st.floats(0, 100)), max_size=12),
    st.integers(0, 20),
    st.floats(0, 200),
)
def test_only_those_that_lag_go(
    fetches: list[tuple[int, int, float]], own_end: int, now_s: float
) -> None:
    in_sync = InSync(1, state(), 0, 0.0)
    for broker, offset, at_s in sorted(fetches, key=lambda each: each[2]):
        in_sync.fetched(broker, 7, offset, 15, at_s)
    kept = in_sync.shrunk(own_end, now_s, 30.0)
    gone = set(REPLICAS) - set(REPLICAS if kept is None else kept)
    for broker in REPLICAS[1:]:
        follower = in_sync.follower(broker)
        assert follower is not None
        lags = follower.end_offset < own_end and now_s - follower.caught_up_s > 30.0
        assert (broker in gone) == lags
    assert 1 not in gone


class Leader(RuleBasedStateMachine):
    """Whatever happens to one leader epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.in_sync = InSync(1, state((1, 2, 3)), 5, 0.0)
        self.possible = {self.in_sync.state.isr}
        """Every ISR that may be stored."""
        self.own_end, self.mark, self.minimum, self.now_s = 5, 3, 2, 0.0
        self.version = 0
        self.ends = dict.fromkeys(REPLICAS[1:], UNKNOWN)
        self.lives = dict.fromkeys(REPLICAS[1:], 1)
        self.fetched_lives = dict.fromkeys(REPLICAS[1:], UNKNOWN)

    def advance(self) -> None:
        enough = len(self.in_sync.state.isr) >= min(self.minimum, len(REPLICAS))
        offset = self.in_sync.committed(self.own_end, self.mark, self.minimum)
        assert offset >= self.mark
        if offset > self.mark:
            assert enough
            for isr in self.possible:
                for member in isr:
                    end = self.own_end if member == 1 else self.ends[member]
                    assert offset <= end, f"broker {member} may be in the ISR and lacks some"
        self.mark = offset

    @rule(size=st.integers(1, 3))
    def append(self, size: int) -> None:
        self.own_end += size

    @rule(broker=FOLLOWERS, back=st.integers(0, 6), former=st.booleans(), s=st.floats(0, 20))
    def fetch(self, broker: int, back: int, former: bool, s: float) -> None:
        self.now_s += s
        life = self.lives[broker] - (1 if former else 0)
        offset = max(self.own_end - back, 0)
        self.in_sync.fetched(broker, life, offset, self.own_end, self.now_s)
        if life >= self.fetched_lives[broker]:
            self.ends[broker], self.fetched_lives[broker] = offset, life
        self.advance()

    @rule(broker=FOLLOWERS)
    def restart(self, broker: int) -> None:
        self.lives[broker] += 1

    @rule(minimum=st.integers(1, 5))
    def configure(self, minimum: int) -> None:
        self.minimum = minimum
        self.advance()

    @rule(broker=FOLLOWERS, is_there=st.booleans(), leaving=st.booleans())
    def grow(self, broker: int, is_there: bool, leaving: bool) -> None:
        nodes = alive(broker, epoch=self.lives[broker], leaving=leaving) if is_there else {}
        isr = self.in_sync.grown(broker, self.mark, nodes)
        if isr is None:
            return
        assert is_there
        assert not leaving
        assert self.fetched_lives[broker] == self.lives[broker]
        assert self.ends[broker] >= max(self.mark, 5)
        assert set(isr) == {*self.in_sync.state.isr, broker}
        self._propose(isr)

    @rule(s=st.floats(0, 60))
    def shrink(self, s: float) -> None:
        self.now_s += s
        isr = self.in_sync.shrunk(self.own_end, self.now_s, 30.0)
        if isr is not None:
            assert set(isr) < set(self.in_sync.state.isr)
            assert 1 in isr
            self._propose(isr)

    def _propose(self, isr: tuple[int, ...]) -> None:
        assert self.in_sync.proposed is None
        self.in_sync.propose(isr)
        self.possible = {self.in_sync.state.isr, isr}
        self.advance()

    @rule(was_done=st.booleans(), is_told=st.booleans(), refused=st.booleans())
    def answer(self, was_done: bool, is_told: bool, refused: bool) -> None:
        proposed = self.in_sync.proposed
        if proposed is None or not is_told:
            return
        if refused and not was_done:
            self.in_sync.refused()
        else:
            self.version += 1
            isr = proposed if was_done else self.in_sync.state.isr
            self.in_sync.update(state(isr, self.version), self.now_s)
        self.possible = {self.in_sync.state.isr}
        self.advance()

    @invariant()
    def the_maximal_isr_holds_every_possible_one(self) -> None:
        for isr in self.possible:
            assert set(isr) <= set(self.in_sync.maximal)


TestLeader = Leader.TestCase
