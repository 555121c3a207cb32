"""Static members: they return under a new id, and the old one is fenced."""

from tests.coordinator.classic.stage import Stage

from barnabas.coordinator.group.asks import Leaver
from barnabas.coordinator.runtime.turn import TimerKey
from barnabas.model.errors import ErrorCode as Code

OTHER = (("range", b"other"),)
BOTH = (("range", b"r"), ("sticky", b"s"))


def test_a_static_member_needs_no_second_round() -> None:
    stage = Stage()
    ask = stage.join(client="a", instance_id="i", needs_member_id=True)
    stage.advance(3_000)
    assert ask.joined.member_id.startswith("i-")
    assert ask.joined.members[0].instance_id == "i"


def test_a_follower_returns_and_nobody_notices() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b", static=True)
    back = stage.join(instance_id="b")
    new = back.joined.member_id
    assert new != two
    assert new.startswith("b-")
    assert (back.joined.generation, back.joined.leader, back.joined.members) == (1, one, ())
    assert not back.joined.skip_assignment
    assert stage.state == "Stable"
    assert stage.beat(one, 1, "a") is Code.none
    assert stage.sync(new, 1, instance_id="b").synced.assignment == b"b"


def test_the_new_id_is_stored_before_it_is_answered() -> None:
    stage = Stage()
    _, two = stage.stable("a", "b", static=True)
    count = len(stage.records)
    new = stage.join(instance_id="b", protocols=OTHER).joined.member_id
    assert len(stage.records) == count + 1
    value = stage.written.value
    assert value is not None
    stored = {member.member_id: member for member in value.members}
    assert two not in stored
    assert (stored[new].group_instance_id, stored[new].assignment) == ("b", b"b")
    assert stored[new].subscription == b"other"
    stage.reload()
    assert stage.beat(new, 1, "b") is Code.none
    assert stage.beat(two, 1, "b") is Code.fenced_instance_id


def test_a_failed_append_gives_no_answer_that_is_not_stored() -> None:
    stage = Stage()
    _, two = stage.stable("a", "b", static=True)
    stage.append_fails = True
    assert stage.join(instance_id="b").code is Code.not_coordinator
    assert stage.beat(two, 1, "b") is Code.none


def test_a_leader_that_returns_learns_that_there_is_nothing_to_assign() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b", static=True)
    joined = stage.join(instance_id="a").joined
    assert joined.skip_assignment
    assert joined.leader == joined.member_id != one
    assert {member.member_id for member in joined.members} == {joined.member_id, two}
    assert stage.sync(joined.member_id, 1, instance_id="a").synced.assignment == b"a"


def test_a_leader_that_can_not_skip_is_told_of_its_former_self() -> None:
    stage = Stage()
    one, _ = stage.stable("a", "b", static=True)
    joined = stage.join(instance_id="a", can_skip=False).joined
    assert joined.leader == one != joined.member_id
    assert joined.members == ()
    assert not joined.skip_assignment
    # It leads nevertheless: that it joins again starts a rebalance.
    assert stage.join(joined.member_id, instance_id="a").waits


def test_the_old_of_two_is_fenced_wherever_it_says_its_instance() -> None:
    stage = Stage()
    _, two = stage.stable("a", "b", static=True)
    new = stage.join(instance_id="b").joined.member_id
    fenced = Code.fenced_instance_id
    for member_id in (two, "made up", ""):
        assert stage.beat(member_id, 1, "b") is fenced
        assert stage.sync(member_id, 1, instance_id="b").code is fenced
        assert stage.commit(member_id, 1, "b") is fenced
    assert stage.join(two, instance_id="b").code is fenced
    assert stage.leave(Leaver(member_id=two, instance_id="b")).left == [fenced]
    assert stage.beat(two, 0, "b") is fenced
    unknown = Code.unknown_member_id
    assert stage.beat(two, 1) is unknown
    assert stage.join(two).code is unknown
    assert stage.join(two, instance_id="c").code is unknown
    assert stage.beat(new, 1, "c") is unknown
    assert stage.beat(new, 1, "a") is fenced
    assert stage.beat(new, 1) is stage.beat(new, 1, "b") is Code.none


def test_two_with_one_instance_id_fence_the_join_that_waits() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b", static=True)
    old = stage.join(one, instance_id="a")
    assert old.waits
    new = stage.join(instance_id="a")
    assert old.code is Code.fenced_instance_id
    assert new.waits
    follower = stage.join(two, instance_id="b")
    assert new.joined.leader == new.joined.member_id == follower.joined.leader
    assert len(new.joined.members) == 2


def test_two_with_one_instance_id_fence_the_sync_that_waits() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b", static=True)
    stage.join(one, instance_id="a")
    stage.join(two, instance_id="b")
    waiting = stage.sync(two, 2, instance_id="b")
    new = stage.join(instance_id="b")
    assert waiting.code is Code.fenced_instance_id
    assert new.waits, "the leader has heard of the old id: it must assign again"
    assert stage.beat(one, 2, "a") is Code.rebalance_in_progress
    stage.join(one, instance_id="a")
    assert new.joined.generation == 3


def test_a_change_of_the_protocol_needs_a_rebalance() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b", static=True, protocols=BOTH)
    name = stage.group.protocol_name
    same = stage.join(instance_id="b", protocols=BOTH)
    assert same.joined.protocol_name == name
    other = [pair for pair in BOTH if pair[0] != name]
    changed = stage.join(instance_id="b", protocols=other)
    assert changed.waits
    assert "static member b came back as" in stage.reason
    assert stage.beat(one, 1, "a") is Code.rebalance_in_progress
    stage.join(one, instance_id="a", protocols=BOTH)
    assert changed.joined.protocol_name == other[0][0]
    assert two not in stage.group.roster.members


def test_static_members_stay_when_they_do_not_join_again() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b", static=True, rebalance_ms=5_000, session_ms=30_000)
    leader = stage.join(one, instance_id="a", rebalance_ms=5_000, session_ms=30_000)
    stage.advance(5_000)
    assert {member.member_id for member in leader.joined.members} == {one, two}


def test_the_leadership_goes_to_somebody_who_joined() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b", static=True, rebalance_ms=5_000, session_ms=30_000)
    follower = stage.join(
        two, instance_id="b", protocols=OTHER, rebalance_ms=5_000, session_ms=30_000
    )
    stage.advance(5_000)
    assert follower.joined.leader == two
    assert {member.member_id for member in follower.joined.members} == {one, two}


def test_when_nobody_joins_again_the_sessions_decide() -> None:
    """And a rebalance timeout of next to nothing makes no busy loop of the waiting."""
    stage = Stage()
    _, two = stage.stable("a", "b", static=True, rebalance_ms=1, session_ms=30_000)
    newcomer = stage.join(needs_member_id=True, rebalance_ms=1).value.member_id
    stage.join(newcomer, rebalance_ms=1)
    stage.leave(newcomer)
    assert stage.state == "PreparingRebalance"
    fired: list[TimerKey] = []
    stage.on_timer = fired.append
    stage.advance(29_900)
    assert stage.state == "PreparingRebalance"
    assert two in stage.group.roster.members
    assert len(fired) <= 31
    stage.advance(100)
    assert stage.state == "Empty"


def test_a_silent_static_member_expires_too() -> None:
    stage = Stage()
    one, two = stage.stable("a", "b", static=True)
    stage.advance(6_000)
    stage.beat(one, 1, "a")
    stage.advance(4_000)
    assert stage.beat(one, 1, "a") is Code.rebalance_in_progress
    assert stage.beat(two, 1, "b") is Code.unknown_member_id


def test_an_administrator_removes_static_members_by_instance() -> None:
    stage = Stage()
    one, _ = stage.stable("a", "b", static=True)
    ask = stage.leave(
        Leaver(member_id="", instance_id="b"),
        Leaver(member_id="", instance_id="c"),
        Leaver(member_id=one, instance_id="b"),
    )
    assert ask.left == [Code.none, Code.unknown_member_id, Code.unknown_member_id]
    assert stage.beat(one, 1, "a") is Code.rebalance_in_progress


def test_a_restart_before_its_sync_is_still_awaited() -> None:
    stage = Stage()
    asks = [stage.join(instance_id=one, rebalance_ms=8_000) for one in ("a", "b")]
    stage.advance(6_000)
    one, two = (ask.joined.member_id for ask in asks)
    stage.sync(one, 1, {one: b"1", two: b"2"}, instance_id="a")
    new = stage.join(instance_id="b", rebalance_ms=8_000).joined.member_id
    assert stage.group.roster.unsynced == {new}
    assert stage.sync(new, 1, instance_id="b").synced.assignment == b"2"
    assert stage.group.roster.unsynced == set()


def test_a_pending_id_is_no_static_member() -> None:
    stage = Stage()
    given = stage.join(needs_member_id=True).value.member_id
    assert stage.join(given, instance_id="i").code is Code.unknown_member_id
