"""SyncGroup, Heartbeat and LeaveGroup, and what silence leads to."""

import pytest
from tests.coordinator.classic.stage import Ask, Stage

from barnabas.coordinator.group.asks import Leaver
from barnabas.model.errors import ErrorCode as Code


def completing(stage: Stage, *clients: str, rebalance_ms: int = 60_000) -> list[str]:
    """Members of a generation whose leader has not synced yet."""
    asks = [stage.join(client=one, rebalance_ms=rebalance_ms) for one in clients]
    stage.wait_for(asks[0])
    assert stage.state == "CompletingRebalance"
    return [ask.joined.member_id for ask in asks]


class TestSync:
    """The leader assigns; everybody gets what it gave."""

    def test_all_are_answered_once_the_leader_has_synced(self) -> None:
        stage = Stage()
        one, two = completing(stage, "a", "b")
        follower = stage.sync(two, 1)
        assert follower.waits
        leader = stage.sync(one, 1, {one: b"for one", two: b"for two"})
        assert (leader.synced.assignment, follower.synced.assignment) == (b"for one", b"for two")
        assert follower.synced.protocol_type == "consumer"
        assert follower.synced.protocol_name == "range"
        assert stage.state == "Stable"
        assert stage.sync(two, 1).synced.assignment == b"for two"

    def test_the_generation_is_stored_with_its_assignments(self) -> None:
        stage = Stage()
        one, two = completing(stage, "a", "b")
        stage.sync(one, 1, {one: b"1", two: b"2"})
        value = stage.written.value
        assert value is not None
        assert (value.generation, value.leader, value.protocol) == (1, one, "range")
        stored = {member.member_id: member for member in value.members}
        assert {key: member.assignment for key, member in stored.items()} == {one: b"1", two: b"2"}
        assert stored[one].subscription == b"meta"
        assert (stored[one].client_id, stored[one].client_host) == ("a", "/127.0.0.1")
        assert (stored[one].session_timeout, stored[one].rebalance_timeout) == (10_000, 60_000)

    def test_odd_assignments_are_passed_on_or_left_out(self) -> None:
        stage = Stage()
        one, two = completing(stage, "a", "b")
        follower = stage.sync(two, 1, {two: b"I am no leader"})
        leader = stage.sync(one, 1, {one: b"\xff\xfegarbage", "nobody": b"x"})
        assert leader.synced.assignment == b"\xff\xfegarbage"
        assert follower.synced.assignment == b""
        assert set(stage.group.roster.members) == {one, two}

    def test_a_stable_group_is_not_assigned_again(self) -> None:
        stage = Stage()
        one, two = stage.stable("a", "b")
        count = len(stage.records)
        assert stage.sync(one, 1, {one: b"new", two: b"new"}).synced.assignment == b"a"
        assert stage.sync(two, 1).synced.assignment == b"b"
        assert len(stage.records) == count

    def test_the_earlier_of_two_syncs_of_one_member_is_sent_off(self) -> None:
        stage = Stage()
        one, two = completing(stage, "a", "b")
        first, second = stage.sync(two, 1), stage.sync(two, 1)
        assert first.code is Code.rebalance_in_progress
        stage.sync(one, 1, {two: b"2"})
        assert second.synced.assignment == b"2"

    @pytest.mark.parametrize("state", ["CompletingRebalance", "Stable", "PreparingRebalance"])
    def test_strangers_and_the_past_are_refused_in_every_state(self, state: str) -> None:
        stage = Stage()
        one, two = completing(stage, "a", "b")
        if state != "CompletingRebalance":
            stage.sync(two, 1)
            stage.sync(one, 1)
        if state == "PreparingRebalance":
            stage.join(one)
        assert stage.state == state
        assert stage.sync("nobody", 1).code is Code.unknown_member_id
        assert stage.sync("", 1).code is Code.unknown_member_id
        assert stage.sync(one, 0).code is Code.illegal_generation
        assert stage.sync(one, 2).code is Code.illegal_generation
        assert stage.sync(one, -1).code is Code.illegal_generation
        assert stage.sync(one, 1, instance_id="i").code is Code.unknown_member_id
        wrong = Code.inconsistent_group_protocol
        assert stage.sync(one, 1, protocol_type="connect").code is wrong
        assert stage.sync(one, 1, protocol_name="sticky").code is wrong
        assert stage.state == state

    def test_the_protocol_need_not_be_named(self) -> None:
        stage = Stage()
        [one] = stage.stable("a")
        assert stage.sync(one, 1, protocol_type=None, protocol_name=None).synced.assignment == b"a"

    def test_groups_that_are_not_there_or_empty_have_no_members(self) -> None:
        stage = Stage()
        assert stage.sync("x", 1).code is Code.unknown_member_id
        assert stage.beat("x", 1) is Code.unknown_member_id
        stage.join(needs_member_id=True)
        assert stage.state == "Empty"
        assert stage.sync("x", 0).code is Code.unknown_member_id
        assert stage.beat("x", 0) is Code.unknown_member_id


class TestMembersThatNeverSync:
    """After the rebalance timeout they are out, and the others go on without them."""

    def test_a_leader(self) -> None:
        stage = Stage()
        one, two = completing(stage, "a", "b", rebalance_ms=8_000)
        follower = stage.sync(two, 1)
        stage.advance(7_999)
        assert stage.beat(one, 1) is Code.none
        assert follower.waits
        stage.advance(1)
        assert follower.code is Code.rebalance_in_progress
        assert stage.beat(one, 1) is Code.unknown_member_id
        assert stage.join(two).joined.leader == two
        assert stage.reason == f"member {one} did not sync within the rebalance timeout of 8 s"

    def test_a_follower(self) -> None:
        stage = Stage()
        one, two = completing(stage, "a", "b", rebalance_ms=8_000)
        stage.sync(one, 1, {one: b"1", two: b"2"})
        stage.advance(7_999)
        assert stage.beat(two, 1) is Code.none
        assert stage.beat(one, 1) is Code.none
        stage.advance(1)
        assert stage.beat(two, 1) is Code.unknown_member_id
        assert stage.beat(one, 1) is Code.rebalance_in_progress

    def test_all_who_synced_are_left_alone(self) -> None:
        stage = Stage()
        one, two = completing(stage, "a", "b", rebalance_ms=8_000)
        stage.sync(one, 1)
        stage.sync(two, 1)
        for _ in range(4):
            stage.advance(5_000)
            assert stage.beat(one, 1) is stage.beat(two, 1) is Code.none


class TestHeartbeat:
    """A sign of life, and how members learn of a rebalance."""

    def test_in_each_state(self) -> None:
        stage = Stage()
        one, two = completing(stage, "a", "b")
        assert stage.beat(one, 1) is Code.none
        stage.sync(two, 1)
        stage.sync(one, 1)
        assert stage.beat(one, 1) is Code.none
        stage.join(one)
        assert stage.beat(two, 1) is Code.rebalance_in_progress
        assert stage.beat(two, 0) is Code.illegal_generation
        assert stage.beat(two, 2) is Code.illegal_generation
        assert stage.beat("nobody", 1) is Code.unknown_member_id

    def test_beats_keep_a_member_and_silence_ends_its_membership(self) -> None:
        stage = Stage()
        one, two = stage.stable("a", "b")
        for _ in range(5):
            stage.advance(9_999)
            assert stage.beat(one, 1) is stage.beat(two, 1) is Code.none
        stage.advance(5_000)
        assert stage.beat(one, 1) is Code.none
        stage.advance(5_000)
        assert stage.beat(one, 1) is Code.rebalance_in_progress
        assert stage.beat(two, 1) is Code.unknown_member_id
        assert stage.reason == (
            f"member {two} was silent for longer than its session timeout of 10 s"
        )
        assert stage.join(one).joined.generation == 2

    def test_a_beat_sets_no_timer(self) -> None:
        stage = Stage()
        [one] = stage.stable("a")
        before = dict(stage.timers)
        stage.advance(1_000)
        stage.beat(one, 1)
        assert stage.timers == before

    def test_a_commit_is_a_sign_of_life(self) -> None:
        stage = Stage()
        [one] = stage.stable("a")
        for _ in range(3):
            stage.advance(9_999)
            assert stage.commit(one, 1) is Code.none
        assert stage.state == "Stable"

    def test_when_the_last_member_falls_silent_the_group_is_empty(self) -> None:
        stage = Stage()
        [one] = stage.stable("a")
        stage.advance(10_000)
        assert stage.state == "Empty"
        value = stage.written.value
        assert value is not None
        assert (value.generation, value.members, value.leader) == (2, (), None)
        assert (value.protocol_type, value.protocol) == ("consumer", None)
        assert value.current_state_timestamp == stage.now_ms
        assert stage.join(one).code is Code.unknown_member_id

    def test_a_clock_that_jumps_ends_no_session(self) -> None:
        stage = Stage()
        [one] = stage.stable("a")
        for jump_ms in (10**12, -2 * 10**12):
            stage.now_ms += jump_ms
            stage.advance(5_000)
            assert stage.beat(one, 1) is Code.none

    def test_those_who_wait_for_us_do_not_expire(self) -> None:
        stage = Stage()
        one, two = stage.stable("a", "b", rebalance_ms=50_000)
        again = stage.join(one, rebalance_ms=50_000)
        for _ in range(4):
            stage.advance(9_000)
            assert stage.beat(two, 1) is Code.rebalance_in_progress
        assert again.waits
        stage.join(two, rebalance_ms=50_000)
        waiting = stage.sync(two, 2)
        for _ in range(4):
            stage.advance(9_000)
            assert stage.beat(one, 2) is Code.none
        stage.sync(one, 2, {two: b"2"})
        assert waiting.synced.assignment == b"2"
        stage.advance(9_999)
        assert stage.beat(two, 2) is Code.none

    def test_whoever_was_answered_and_then_is_silent_expires(self) -> None:
        stage = Stage()
        one, two = stage.stable("a", "b")
        stage.join(one)
        stage.advance(9_000)
        stage.join(two)
        assert stage.state == "CompletingRebalance"
        stage.advance(9_999)
        assert stage.beat(one, 2) is Code.none
        stage.advance(1)
        assert stage.beat(two, 2) is Code.unknown_member_id


class TestLeave:
    """Members that go by themselves are not waited for."""

    def test_the_others_rebalance(self) -> None:
        stage = Stage()
        one, two = stage.stable("a", "b")
        leaver = Leaver(member_id=two, instance_id=None, reason="the consumer is being closed")
        assert stage.leave(leaver).left == [Code.none]
        assert stage.beat(two, 1) is Code.unknown_member_id
        assert stage.beat(one, 1) is Code.rebalance_in_progress
        assert stage.join(one).joined.members[0].member_id == one
        assert stage.reason == f"member {two} left: the consumer is being closed"

    def test_a_batch_is_answered_one_by_one(self) -> None:
        stage = Stage()
        ids = stage.stable("a", "b", "c", "d", "e")
        ask = stage.leave(*ids[1:], ids[1], "nobody", "")
        unknown = Code.unknown_member_id
        assert ask.left == [Code.none] * 4 + [unknown] * 3
        assert stage.reason == f"members {ids[1]}, {ids[2]}, {ids[3]} and 1 more left"

    def test_nobody_leaves(self) -> None:
        stage = Stage()
        stage.stable("a")
        assert stage.leave().left == []
        assert stage.leave("nobody").left == [Code.unknown_member_id]
        assert stage.leave("nobody", group="none").left == [Code.unknown_member_id]
        assert stage.state == "Stable"

    def test_when_the_last_leaves_the_next_generation_is_empty(self) -> None:
        stage = Stage()
        ids = stage.stable("a", "b")
        assert stage.leave(*ids).left == [Code.none, Code.none]
        assert stage.state == "Empty"
        value = stage.written.value
        assert value is not None
        assert (value.generation, value.members) == (2, ())
        newcomer = stage.join()
        stage.advance(3_000)
        assert newcomer.joined.generation == 3

    def test_the_next_member_leads_when_the_leader_left(self) -> None:
        stage = Stage()
        one, two = completing(stage, "a", "b")
        follower = stage.sync(two, 1)
        stage.leave(one)
        assert follower.code is Code.rebalance_in_progress
        assert stage.join(two).joined.leader == two

    def test_an_id_that_was_given_can_be_given_back(self) -> None:
        stage = Stage()
        [one] = stage.stable("a")
        given = stage.join(needs_member_id=True).value.member_id
        assert stage.leave(given).left == [Code.none]
        assert stage.join(given).code is Code.unknown_member_id
        assert stage.beat(one, 1) is Code.none, "nobody need rebalance for that"

    def test_a_rebalance_goes_on_when_the_one_it_waits_for_leaves(self) -> None:
        stage = Stage()
        one, two = stage.stable("a", "b")
        given = stage.join(needs_member_id=True).value.member_id
        waiting = stage.join(one)
        stage.leave(two)
        assert waiting.waits
        stage.leave(given)
        assert waiting.joined.generation == 2

    @pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
    def test_what_the_leaver_waits_for_is_answered(self, state: str) -> None:
        stage = Stage()
        one, two = stage.stable("a", "b")
        waiting: Ask = stage.join(one)
        if state == "CompletingRebalance":
            stage.join(two)
            waiting = stage.sync(two, 2)
            one = two
        assert stage.state == state
        assert waiting.waits
        stage.leave(one)
        assert waiting.code is Code.unknown_member_id

    def test_all_may_leave_during_the_initial_delay(self) -> None:
        stage = Stage()
        given = stage.join(needs_member_id=True).value.member_id
        waiting = stage.join(given)
        stage.leave(given)
        assert waiting.code is Code.unknown_member_id
        assert stage.state == "PreparingRebalance"
        newcomer = stage.join()
        stage.advance(6_000)
        assert newcomer.joined.generation == 1
