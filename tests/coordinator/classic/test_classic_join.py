"""JoinGroup: who is let in, when a generation begins, who leads it, by which protocol."""

import pytest
from tests.coordinator.classic.stage import RANGE, Stage

from barnabas.config.group_settings import GroupSettings
from barnabas.coordinator.group.asks import NO_GENERATION, JoinedMember
from barnabas.model.errors import ErrorCode as Code

TWO = (("range", b"r"), ("sticky", b"s"))


def test_the_first_member_leads_after_the_initial_delay() -> None:
    stage = Stage()
    ask = stage.join(client="app")
    assert stage.state == "PreparingRebalance"
    stage.advance(2_999)
    assert ask.waits
    stage.advance(1)
    joined = ask.joined
    assert joined.member_id.startswith("app-")
    assert len(joined.member_id) == len("app-") + 36
    assert (joined.generation, joined.protocol_type, joined.protocol_name) == (
        1,
        "consumer",
        "range",
    )
    assert joined.leader == joined.member_id
    assert joined.members == (
        JoinedMember(member_id=joined.member_id, instance_id=None, metadata=b"meta"),
    )
    assert not joined.skip_assignment
    assert stage.state == "CompletingRebalance"


def test_a_new_group_is_stored_at_once_as_empty() -> None:
    stage = Stage()
    stage.join(needs_member_id=True)
    value = stage.written.value
    assert value is not None
    assert (value.generation, value.protocol_type, value.members) == (0, "", ())
    assert value.current_state_timestamp == stage.now_ms
    assert stage.state == "Empty"


def test_a_newcomer_is_sent_away_with_an_id_and_comes_back_with_it() -> None:
    stage = Stage()
    first = stage.join(needs_member_id=True)
    assert first.code is Code.member_id_required
    assert first.value.member_id.startswith("client-")
    assert first.value.generation == NO_GENERATION
    second = stage.join(first.value.member_id, needs_member_id=True)
    stage.advance(3_000)
    assert second.joined.member_id == first.value.member_id


def test_an_id_that_is_not_used_in_time_is_void() -> None:
    stage = Stage()
    given = stage.join(needs_member_id=True, session_ms=10_000).value.member_id
    stage.advance(9_999)
    assert given in stage.group.roster.pending
    assert not stage.group.is_empty
    stage.advance(1)
    assert stage.group.is_empty
    assert stage.join(given).code is Code.unknown_member_id


def test_a_rebalance_waits_for_those_with_an_unused_id_but_not_beyond_its_time() -> None:
    stage = Stage()
    [one] = stage.stable("a")
    stage.join(needs_member_id=True, session_ms=20_000)
    again = stage.join(one, client="a", reason="topics changed")
    assert again.waits
    stage.advance(20_000)
    assert again.joined.generation == 2
    assert stage.reason == f"leader {one} joined again: topics changed"


def test_the_initial_delay_is_extended_while_newcomers_come() -> None:
    stage = Stage()
    first = stage.join(client="a", rebalance_ms=60_000)
    stage.advance(2_000)
    second = stage.join(client="b")
    stage.advance(1_000)
    assert first.waits
    stage.advance(2_999)
    assert first.waits
    stage.advance(1)
    assert first.joined.generation == second.joined.generation == 1
    assert len(first.joined.members) == 2
    assert second.joined.members == ()
    assert second.joined.leader == first.joined.member_id


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    stage = Stage()
    first = stage.join(rebalance_ms=7_000)
    for _ in range(2):
        stage.advance(2_500)
        stage.join(rebalance_ms=7_000)
    # 3 s, then 3 s of the 4 s that were left, then the 1 s that was left after that.
    stage.advance(1_500)
    stage.join(rebalance_ms=7_000)
    stage.advance(499)
    assert first.waits
    stage.advance(1)
    assert len(first.joined.members) == 4


def test_without_a_delay_the_first_member_has_its_answer_at_once() -> None:
    stage = Stage(GroupSettings(initial_rebalance_delay_ms=0))
    ask = stage.join()
    stage.advance(0)
    assert ask.joined.generation == 1


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, 0, -1])
def test_session_timeouts_have_bounds(session_ms: int) -> None:
    stage = Stage()
    assert stage.join(session_ms=session_ms).code is Code.invalid_session_timeout
    assert stage.groups == {}
    assert stage.records == []


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_the_bounds_of_session_timeouts_are_allowed(session_ms: int) -> None:
    assert Stage().join(session_ms=session_ms).waits


def test_a_group_without_a_name_is_refused_everywhere() -> None:
    stage = Stage()
    assert stage.join(group="").code is Code.invalid_group_id
    assert stage.sync("x", 1, group="").code is Code.invalid_group_id
    assert stage.beat("x", 1, group="") is Code.invalid_group_id
    assert stage.leave("x", group="").code is Code.invalid_group_id


@pytest.mark.parametrize("name", ["\x00", "ü/../…", " ", "g" * 30_000, "\U0001f600"])
def test_a_group_may_have_any_name(name: str) -> None:
    stage = Stage()
    ask = stage.join(group=name)
    stage.advance(3_000)
    assert ask.joined.generation == 1
    assert stage.classic.describe(name).group_id == name


@pytest.mark.parametrize("client", ["", "\x00", "c" * 32_767, "\U0001f600" * 8_000, "-", "a-b"])
def test_odd_client_ids_are_harmless(client: str) -> None:
    stage = Stage()
    ask = stage.join(client=client)
    stage.advance(3_000)
    assert len(ask.joined.member_id.encode()) < 32_767
    assert ask.joined.member_id.startswith(client[:1_000] + "-")


def test_an_unknown_member_is_refused_and_makes_no_group() -> None:
    stage = Stage()
    assert stage.join("nobody").code is Code.unknown_member_id
    assert stage.groups == {}
    stage.stable("a")
    assert stage.join("nobody").code is Code.unknown_member_id
    assert stage.join("nobody", instance_id="i").code is Code.unknown_member_id


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", ()), ("", ())])
def test_without_protocols_nobody_is_let_in(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    stage = Stage()
    ask = stage.join(protocol_type=protocol_type, protocols=protocols)
    assert ask.code is Code.inconsistent_group_protocol
    assert stage.groups == {}


def test_who_shares_no_protocol_with_all_members_is_refused() -> None:
    stage = Stage()
    [one] = stage.stable("a", protocols=TWO)
    other = (("roundrobin", b""),)
    assert stage.join(protocols=other).code is Code.inconsistent_group_protocol
    assert stage.join(protocol_type="connect").code is Code.inconsistent_group_protocol
    assert stage.join(one, protocols=other).code is Code.inconsistent_group_protocol
    assert stage.state == "Stable"
    assert stage.beat(one, 1) is Code.none


def test_an_empty_group_takes_members_of_another_type() -> None:
    stage = Stage()
    [one] = stage.stable("a")
    stage.leave(one)
    ask = stage.join(protocol_type="connect", protocols=(("default", b""),))
    stage.advance(3_000)
    assert ask.joined.protocol_type == "connect"
    assert ask.joined.generation == 3


def test_most_votes_choose_among_what_all_support() -> None:
    stage = Stage()
    one = (("only-1", b"o"), ("range", b"r"), ("sticky", b"s"))
    two = (("only-2", b"o"), ("sticky", b"s"), ("range", b"r"))
    asks = [stage.join(protocols=one), stage.join(protocols=two), stage.join(protocols=two)]
    stage.advance(6_000)
    assert {ask.joined.protocol_name for ask in asks} == {"sticky"}
    assert [member.metadata for member in asks[0].joined.members] == [b"s"] * 3


def test_even_votes_are_decided_as_kafka_decides_them() -> None:
    """The order of a Java HashMap: measured on a real Kafka for range and sticky."""
    for protocols in ((TWO, TWO[::-1]), (TWO[::-1], TWO)):
        stage = Stage()
        asks = [stage.join(protocols=one) for one in protocols]
        stage.advance(6_000)
        assert {ask.joined.protocol_name for ask in asks} == {"sticky"}


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    stage = Stage()
    ask = stage.join(protocols=(("r", b"first"), ("r", b"second")))
    stage.advance(3_000)
    assert ask.joined.members[0].metadata == b"first"


def test_a_second_member_makes_the_first_join_again() -> None:
    stage = Stage()
    [one] = stage.stable("a")
    newcomer = stage.join(client="b", reason="I am new")
    assert stage.state == "PreparingRebalance"
    assert stage.beat(one, 1) is Code.rebalance_in_progress
    assert stage.sync(one, 1).code is Code.rebalance_in_progress
    again = stage.join(one, client="a")
    assert again.joined.generation == newcomer.joined.generation == 2
    assert again.joined.leader == newcomer.joined.leader == one
    assert {member.member_id for member in again.joined.members} == {
        one,
        newcomer.joined.member_id,
    }
    assert newcomer.joined.members == ()
    assert stage.reason == f"member {newcomer.joined.member_id} joined: I am new"


def test_a_follower_that_repeats_itself_disturbs_nobody() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b")
    ask = stage.join(two, client="b")
    assert (ask.joined.generation, ask.joined.leader, ask.joined.members) == (1, one, ())
    assert stage.state == "Stable"


def test_a_follower_with_other_metadata_starts_a_rebalance() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b")
    follower = stage.join(two, protocols=(("range", b"other"),))
    assert follower.waits
    leader = stage.join(one)
    assert [member.metadata for member in leader.joined.members] == [b"meta", b"other"]
    assert follower.joined.generation == 2
    assert stage.reason == f"member {two} changed its protocols or metadata"


def test_the_leader_that_joins_again_starts_a_rebalance() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b")
    leader = stage.join(one)
    assert leader.waits
    assert stage.beat(two, 1) is Code.rebalance_in_progress
    assert stage.join(two).joined.generation == leader.joined.generation == 2


def test_whoever_missed_the_answer_can_ask_again_before_the_sync() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b")
    stage.join(one)
    stage.join(two)
    follower, leader = stage.join(two), stage.join(one)
    assert follower.joined.generation == leader.joined.generation == 2
    assert len(leader.joined.members) == 2
    assert stage.state == "CompletingRebalance"
    waiting = stage.sync(two, 2)
    assert waiting.waits
    changed = stage.join(one, protocols=(("range", b"other"),))
    assert changed.waits
    assert waiting.code is Code.rebalance_in_progress


def test_the_earlier_of_two_joins_of_one_member_is_sent_off() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b")
    first = stage.join(one)
    second = stage.join(one)
    assert first.code is Code.rebalance_in_progress
    stage.join(two)
    assert second.joined.generation == 2


def test_a_member_that_does_not_join_again_in_time_is_out() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b", rebalance_ms=8_000)
    follower = stage.join(two, protocols=(("range", b"other"),), rebalance_ms=9_000)
    for _ in range(8):
        stage.advance(1_000)
        assert stage.beat(one, 1) is Code.rebalance_in_progress
    assert follower.waits
    stage.advance(1_000)
    assert follower.joined.leader == two
    assert [member.member_id for member in follower.joined.members] == [two]
    assert stage.beat(one, 1) is Code.unknown_member_id
    assert stage.join(one).code is Code.unknown_member_id


def test_the_rebalance_timeout_is_the_longest_of_the_members() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b", session_ms=1_000_000)
    stage.join(one, rebalance_ms=1_000, session_ms=1_000_000)
    stage.join(two, rebalance_ms=90_000, session_ms=1_000_000)
    ask = stage.join(one, rebalance_ms=1_000, protocols=(("range", b"x"),), session_ms=1_000_000)
    stage.advance(89_999)
    assert ask.waits
    stage.advance(1)
    assert ask.joined.generation == 3


def test_a_newcomer_whose_join_waits_too_long_is_told_to_start_over() -> None:
    stage = Stage()
    [one] = stage.stable("a", rebalance_ms=1_000_000)
    newcomer = stage.join(client="b", session_ms=10_000)
    for _ in range(299):
        stage.advance(1_000)
        assert stage.beat(one, 1) is Code.rebalance_in_progress
    assert newcomer.waits
    stage.advance(1_000)
    assert newcomer.code is Code.unknown_member_id


class TestGroupMaxSize:
    """At most so many are let in; in a rebalance those who join first stay."""

    def test_a_stable_group_is_full(self) -> None:
        stage = Stage(GroupSettings(max_size=2))
        one, two = stage.stable("a", "b")
        assert stage.join().code is Code.group_max_size_reached
        assert stage.join(needs_member_id=True).code is Code.group_max_size_reached
        assert stage.join("nobody").code is Code.group_max_size_reached
        assert stage.state == "Stable"
        assert stage.join(two).joined.generation == 1
        assert stage.beat(one, 1) is Code.none

    def test_a_static_member_that_returns_takes_its_own_place(self) -> None:
        stage = Stage(GroupSettings(max_size=2))
        stage.stable("a", "b", static=True)
        assert stage.join(instance_id="b").joined.generation == 1
        assert stage.join(instance_id="c").code is Code.group_max_size_reached

    def test_an_id_that_was_given_is_no_promise(self) -> None:
        stage = Stage(GroupSettings(max_size=2))
        stage.stable("a")
        given = [stage.join(needs_member_id=True).value.member_id for _ in range(3)]
        asks = [stage.join(member_id) for member_id in given]
        assert [ask.waits for ask in asks] == [True, True, False]
        assert asks[2].code is Code.group_max_size_reached
        assert stage.group.roster.pending == set()
        assert stage.join(given[2]).code is Code.group_max_size_reached

    def test_who_joins_last_loses_its_place(self) -> None:
        stage = Stage(GroupSettings(max_size=2))
        one, two = stage.stable("a", "b")
        first, newcomer = stage.join(one), stage.join(client="c")
        refused = stage.join(two)
        assert refused.code is Code.group_max_size_reached
        assert len(first.joined.members) == 2
        assert newcomer.joined.generation == 2
        assert stage.beat(two, 2) is Code.unknown_member_id

    def test_a_group_that_is_read_back_too_large_becomes_smaller(self) -> None:
        stage = Stage()
        one, two, three = stage.stable("a", "b", "c")
        stage.settings = GroupSettings(max_size=2)
        stage.reload()
        assert stage.state == "PreparingRebalance"
        asks = [stage.join(one), stage.join(three)]
        assert stage.join(two).code is Code.group_max_size_reached
        assert [ask.joined.generation for ask in asks] == [2, 2]
        assert stage.reason == "3 members are more than the 2 that are allowed"
