"""A classic group as others see it: commits, offsets that expire, deleting, reading back."""

from collections.abc import Iterable

import pytest
from tests.coordinator.classic.stage import RANGE, G, Stage, reads

from barnabas.coordinator.group.asks import Listing
from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.classic.state import FOLLOWS, State
from barnabas.coordinator.group.group import Group
from barnabas.model.check import BrokenInvariantError
from barnabas.model.errors import ErrorCode as Code
from barnabas.model.errors import KafkaError
from barnabas.wire.stored import (
    ConsumerGroupMetadata,
    GroupMetadata,
    GroupMetadataMember,
    GroupMetadataValue,
    Stored,
)


def code_of(check: object) -> Code:
    try:
        check()  # type: ignore[operator]
    except KafkaError as error:
        return error.code
    return Code.none


class TestCommit:
    """Who may commit, by state."""

    def test_without_members_anybody(self) -> None:
        stage = Stage()
        assert stage.commit("", -1) is Code.none
        assert stage.group.listing == Listing(
            group_id=G, protocol_type="", state="Empty", kind="classic"
        )
        assert stage.commit("anybody", -1) is Code.none
        assert stage.commit("anybody", 0) is Code.unknown_member_id

    def test_a_group_with_members_only_from_them(self) -> None:
        stage = Stage()
        [one] = stage.stable("a")
        assert stage.commit("", -1) is Code.unknown_member_id
        assert stage.commit("nobody", 1) is Code.unknown_member_id
        assert stage.commit(one, 0) is Code.illegal_generation
        assert stage.commit(one, 2) is Code.illegal_generation
        assert stage.commit(one, -1) is Code.illegal_generation
        assert stage.commit(one, 1, "instance") is Code.unknown_member_id
        assert stage.commit(one, 1) is Code.none

    def test_while_preparing_members_of_the_last_generation(self) -> None:
        stage = Stage()
        one, two = stage.stable("a", "b")
        stage.join(one)
        assert stage.commit(two, 1) is Code.none
        assert stage.commit("", -1) is Code.unknown_member_id
        stage.join(two)
        assert stage.state == "CompletingRebalance"
        assert stage.commit(two, 2) is Code.rebalance_in_progress
        assert stage.commit(two, 1) is Code.illegal_generation

    def test_a_group_that_is_gone(self) -> None:
        stage = Stage()
        group = stage.classic.simple(G)
        stage.classic.apply(GroupMetadata(G, None))
        assert stage.groups == {}
        turn = stage._turn()
        commit = lambda: group.check_commit(turn, "", None, -1, knows_epochs=True)  # noqa: E731
        assert code_of(commit) is Code.coordinator_not_available
        assert code_of(lambda: group.check_fetch("", -1)) is Code.group_id_not_found
        assert code_of(group.check_delete) is Code.group_id_not_found
        assert code_of(group.check_offset_delete) is Code.group_id_not_found


class TestAsAnyGroup:
    """Listing, describing, deleting."""

    def test_it_is_a_group(self) -> None:
        group: Group = ClassicGroup("g")
        assert group.is_empty
        assert list(group.tombstones()) == [GroupMetadata("g", None)]

    def test_only_an_empty_group_is_deleted(self) -> None:
        stage = Stage()
        [one] = stage.stable("a")
        assert code_of(stage.group.check_delete) is Code.non_empty_group
        assert code_of(stage.group.check_offset_delete) is Code.none
        stage.leave(one)
        assert code_of(stage.group.check_delete) is Code.none
        for record in stage.group.tombstones():
            stage.apply(record)
        assert stage.groups == {}

    def test_offsets_of_members_that_are_no_consumers_stay(self) -> None:
        stage = Stage()
        stage.join(protocol_type="connect")
        assert code_of(stage.group.check_offset_delete) is Code.non_empty_group

    def test_describing_by_state(self) -> None:
        stage = Stage()
        one, two = stage.stable("a", "b")
        described = stage.classic.describe(G)
        assert (described.state, described.protocol_type, described.protocol) == (
            "Stable",
            "consumer",
            "range",
        )
        assert [(m.member_id, m.metadata, m.assignment) for m in described.members] == [
            (one, b"meta", b"a"),
            (two, b"meta", b"b"),
        ]
        assert described.members[0].client.id == "a"
        stage.join(one, reason="new topics")
        described = stage.classic.describe(G)
        assert (described.state, described.protocol) == ("PreparingRebalance", "")
        assert [(m.metadata, m.assignment) for m in described.members] == [(b"", b"a"), (b"", b"b")]
        assert described.last_rebalance is not None
        assert described.last_rebalance.at_ms == stage.now_ms
        assert described.last_rebalance.reason == f"leader {one} joined again: new topics"

    def test_describing_what_is_not_there(self) -> None:
        stage = Stage()
        assert code_of(lambda: stage.classic.describe(G)) is Code.group_id_not_found
        stage.groups[G] = OtherGroup(empty=True)
        assert code_of(lambda: stage.classic.describe(G)) is Code.group_id_not_found
        assert code_of(lambda: stage.classic.simple(G)) is Code.group_id_not_found

    def test_a_long_reason_is_cut(self) -> None:
        stage = Stage()
        stage.join(reason="r" * 30_000)
        assert len(stage.reason) < 400


class TestSubscriptions:
    """Which topics a group reads, as far as its members say it in a consumer's format."""

    def test_all_topics_of_all_members(self) -> None:
        stage = Stage()
        asks = [stage.join(protocols=reads("t", "u")), stage.join(protocols=reads("v"))]
        stage.advance(6_000)
        group = stage.group
        assert [group.subscribes_to(topic) for topic in "tuvw"] == [True, True, True, False]
        stage.leave(asks[1].joined.member_id)
        stage.join(asks[0].joined.member_id, protocols=reads("t"))
        assert [group.subscribes_to(topic) for topic in "tuv"] == [True, False, False]
        stage.leave(asks[0].joined.member_id)
        assert not group.subscribes_to("t")

    @pytest.mark.parametrize("garbage", [b"", b"\x00", b"\xff" * 20, b"\x00\x01\x7f\xff\xff\xff"])
    def test_consumers_that_can_not_be_read_may_read_anything(self, garbage: bytes) -> None:
        stage = Stage()
        stage.stable("a", protocols=(("range", garbage),))
        assert stage.group.subscribes_to("anything")
        assert stage.group.offsets_unused_since_ms(5) is None

    def test_others_read_nothing(self) -> None:
        stage = Stage()
        stage.join(protocol_type="connect", protocols=reads("t"))
        stage.advance(3_000)
        assert not stage.group.subscribes_to("t")

    def test_it_is_known_again_after_reading_back(self) -> None:
        stage = Stage()
        stage.stable("a", protocols=reads("t"))
        stage.reload()
        assert stage.group.subscribes_to("t")
        assert not stage.group.subscribes_to("u")


class TestUnusedOffsets:
    """From when on offsets age."""

    def test_of_groups_without_members_ever_from_the_commit(self) -> None:
        stage = Stage()
        assert stage.classic.simple(G).offsets_unused_since_ms(77) == 77

    def test_of_an_empty_group_from_when_it_became_empty(self) -> None:
        stage = Stage()
        [one] = stage.stable("a", protocols=reads("t"))
        stage.advance(5_000)
        stage.leave(one)
        since = stage.now_ms
        stage.advance(50_000)
        assert stage.group.offsets_unused_since_ms(77) == since
        stage.reload()
        assert stage.group.offsets_unused_since_ms(77) == since

    def test_of_an_empty_group_stored_without_a_time_from_the_commit(self) -> None:
        stage = Stage()
        value = GroupMetadataValue(
            protocol_type="consumer", generation=4, protocol=None, leader=None
        )
        stage.classic.apply(GroupMetadata(G, value))
        assert stage.group.offsets_unused_since_ms(77) == 77

    def test_of_a_stable_group_of_consumers_from_the_commit(self) -> None:
        """So that offsets of topics that nobody reads any more expire."""
        stage = Stage()
        one, _ = stage.stable("a", "b", protocols=reads("t"))
        assert stage.group.offsets_unused_since_ms(77) == 77
        stage.join(one, protocols=reads("t"))
        assert stage.group.offsets_unused_since_ms(77) is None

    def test_of_other_groups_with_members_never(self) -> None:
        stage = Stage()
        ask = stage.join(protocol_type="connect")
        stage.advance(3_000)
        stage.sync(ask.joined.member_id, 1, protocol_type="connect")
        assert stage.state == "Stable"
        assert stage.group.offsets_unused_since_ms(77) is None


class TestReadingBack:
    """A shard that is loaded again knows the last stored generation, and no more."""

    def test_members_go_on_and_have_their_whole_session(self) -> None:
        stage = Stage()
        one, two = stage.stable("a", "b")
        before = stage.group.described()
        stage.advance(9_000)
        stage.reload()
        after = stage.group.described()
        assert after.members == before.members
        assert (after.state, after.protocol) == (before.state, before.protocol)
        stage.advance(9_999)
        assert stage.beat(one, 1) is Code.none
        stage.advance(1)
        assert stage.beat(two, 1) is Code.unknown_member_id
        assert stage.join(one).joined.leader == one

    def test_a_rebalance_under_way_starts_over(self) -> None:
        stage = Stage()
        one, two = stage.stable("a", "b")
        waiting, _ = stage.join(one), stage.join(two)
        assert waiting.joined.generation == 2
        sync = stage.sync(two, 2)
        stage.reload()
        assert sync.code is Code.not_coordinator
        assert stage.sync(one, 2).code is Code.illegal_generation
        assert stage.beat(two, 1) is Code.none
        again = [stage.join(one), stage.join(two)]
        assert [ask.joined.generation for ask in again] == [2, 2]

    def test_ids_that_were_given_are_forgotten(self) -> None:
        stage = Stage()
        given = stage.join(needs_member_id=True).value.member_id
        stage.reload()
        assert stage.state == "Empty"
        assert stage.join(given).code is Code.unknown_member_id

    def test_a_failed_append_of_assignments_leaves_the_generation_before(self) -> None:
        stage = Stage()
        one, two = stage.stable("a", "b")
        stage.join(one)
        stage.join(two)
        follower = stage.sync(two, 2)
        stage.append_fails = True
        leader = stage.sync(one, 2, {one: b"x", two: b"y"})
        assert leader.code is follower.code is Code.not_coordinator
        assert stage.sync(two, 1).synced.assignment == b"b"

    def test_records_that_are_odd_do_no_harm(self) -> None:
        stage = Stage()
        member = GroupMetadataMember(
            member_id="m",
            client_id="c",
            client_host="/h",
            session_timeout=10_000,
            subscription=b"",
            assignment=b"x",
        )
        value = GroupMetadataValue(
            protocol_type="", generation=7, protocol=None, leader="gone", members=(member,)
        )
        stage.records = [GroupMetadata("never was", None), GroupMetadata(G, value)]
        stage.reload()
        assert stage.state == "Stable"
        assert stage.classic.describe(G).members[0].assignment == b"x"
        assert stage.group.roster.rebalance_timeout_ms() == 10_000
        assert stage.beat("m", 7) is Code.none
        stage.advance(20_000)
        assert stage.state == "Empty"
        assert stage.group.generation == 8

    def test_offsets_may_have_made_the_group_before_its_record_comes(self) -> None:
        stage = Stage()
        [one] = stage.stable("a")
        record = stage.written
        other = Stage()
        made = other.classic.simple(G)
        other.classic.apply(record)
        assert other.groups[G] is made
        assert set(made.roster.members) == {one}


class OtherGroup:
    """A group of another kind, as far as a classic join looks at it."""

    group_id = G

    def __init__(self, *, empty: bool) -> None:
        self.is_empty = empty

    def tombstones(self) -> Iterable[Stored]:
        return (ConsumerGroupMetadata(G, None),)


class TestTheOtherKind:
    """Groups move between the protocols only while they are empty."""

    def test_an_empty_consumer_group_gives_way(self) -> None:
        stage = Stage()
        stage.groups[G] = OtherGroup(empty=True)
        assert stage.join("somebody").code is Code.unknown_member_id
        assert stage.join(protocols=()).code is Code.inconsistent_group_protocol
        assert stage.records == []
        ask = stage.join()
        stage.advance(3_000)
        assert ask.joined.generation == 1
        assert [type(record) for record in stage.records] == [ConsumerGroupMetadata, GroupMetadata]

    def test_one_with_members_does_not(self) -> None:
        stage = Stage()
        stage.groups[G] = other = OtherGroup(empty=False)
        ask = stage.join()
        assert ask.code is Code.inconsistent_group_protocol
        assert "stop its members first" in str(ask.value)
        assert stage.sync("m", 1).code is Code.unknown_member_id
        assert stage.beat("m", 1) is Code.unknown_member_id
        assert stage.leave("m").left == [Code.unknown_member_id]
        stage.classic.apply(GroupMetadata(G, None))
        assert stage.groups == {G: other}


def test_ten_thousand_members() -> None:
    """None of a member's requests looks at all the others: this ends in a moment, or never."""
    stage = Stage()
    count = 10_000
    given = [stage.join(needs_member_id=True).value.member_id for _ in range(count)]
    asks = [stage.join(member_id, protocols=RANGE) for member_id in given]
    stage.advance(6_000)
    leader = asks[0].joined
    assert len(leader.members) == count
    plan = {member.member_id: member.member_id.encode() for member in leader.members}
    syncs = [stage.sync(member_id, 1, plan) for member_id in given]
    assert [ask.synced.assignment.decode() for ask in syncs] == given
    assert all(stage.beat(member_id, 1) is Code.none for member_id in given)
    stage.reload()
    assert all(stage.beat(member_id, 1) is Code.none for member_id in given)
    for member_id in given:
        stage.leave(member_id)
    assert stage.state == "Empty"
    assert stage.timers == {}


def test_a_state_that_can_not_follow_is_a_defect() -> None:
    for state in State:
        for before in State:
            group = ClassicGroup("g")
            group.state = before
            if before in FOLLOWS[state]:
                group.move(state, 1)
                assert group.state is state
            else:
                with pytest.raises(BrokenInvariantError):
                    group.move(state, 1)
