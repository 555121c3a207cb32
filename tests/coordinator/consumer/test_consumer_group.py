"""A consumer group to those who commit, list and delete; and its place among other groups."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.coordinator.consumer.stage import Stage

from barnabas.coordinator.group.asks import Listing
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.runtime.turn import Turn
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.stored import (
    ConsumerGroupMetadata,
    CurrentMemberAssignment,
    CurrentMemberAssignmentValue,
    GroupMetadata,
    OwnedPartitions,
    Stored,
)


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.topic("t", 2)
    stage.join("a", "t")
    return stage


def commit(
    stage: Stage,
    member_id: str,
    epoch: int,
    partitions: Iterable[tuple[bytes, int]] = ((bytes(16), 0),),
    knows_epochs: bool = True,
) -> ErrorCode:
    def check(turn: Turn[Stored]) -> None:
        stage.group().check_commit(
            turn, member_id, None, epoch, knows_epochs=knows_epochs, partitions=partitions
        )

    try:
        stage.turn(check)
    except KafkaError as error:
        return error.code
    return ErrorCode.none


def test_it_is_a_group_like_any_other(stage: Stage) -> None:
    group: Group = stage.group()
    assert group.listing == Listing(
        group_id="g", protocol_type="consumer", state="Stable", kind="consumer"
    )


def test_only_members_commit_and_at_their_epoch(stage: Stage) -> None:
    assert commit(stage, "a", 2) is ErrorCode.none
    assert commit(stage, "a", 3) is ErrorCode.stale_member_epoch
    assert commit(stage, "a", 1) is ErrorCode.stale_member_epoch
    assert commit(stage, "a", -1) is ErrorCode.stale_member_epoch
    assert commit(stage, "x", 2) is ErrorCode.unknown_member_id
    assert commit(stage, "", -1) is ErrorCode.unknown_member_id
    assert commit(stage, "a", 2, knows_epochs=False) is ErrorCode.unsupported_version
    assert commit(stage, "x", 2, knows_epochs=False) is ErrorCode.unknown_member_id


def test_an_older_epoch_is_good_for_what_was_assigned_by_then(stage: Stage) -> None:
    topic_id = stage.image.topics["t"].id_bytes
    stage.topic("t", 3)
    assert stage.ask("a", 2).member_epoch == 3
    assert commit(stage, "a", 2, [(topic_id, 0), (topic_id, 1)]) is ErrorCode.none
    assert commit(stage, "a", 2, [(topic_id, 2)]) is ErrorCode.stale_member_epoch
    assert commit(stage, "a", 2, [(topic_id, 7)]) is ErrorCode.stale_member_epoch
    assert commit(stage, "a", 1, [(topic_id, 0)]) is ErrorCode.stale_member_epoch
    assert commit(stage, "a", 3, [(topic_id, 2)]) is ErrorCode.none


def test_what_is_to_be_given_up_may_still_be_committed(stage: Stage) -> None:
    topic_id = stage.image.topics["t"].id_bytes
    stage.join("b", "t")
    stage.ask("a", 2)
    assert commit(stage, "a", 2, [(topic_id, 1)]) is ErrorCode.none
    stage.ask("a", 2, owned=stage.owning(t=(0,)))
    assert commit(stage, "a", 2, [(topic_id, 0)]) is ErrorCode.none
    assert commit(stage, "a", 2, [(topic_id, 1)]) is ErrorCode.stale_member_epoch


def test_an_empty_group_takes_the_offsets_of_anybody(stage: Stage) -> None:
    stage.ask("a", -1)
    assert commit(stage, "", -1) is ErrorCode.none
    assert commit(stage, "a", 2) is ErrorCode.unknown_member_id


def test_who_may_ask_for_offsets(stage: Stage) -> None:
    group = stage.group()
    group.check_fetch("", -1)
    group.check_fetch("a", 2)
    for member_id, epoch, code in (
        ("a", 1, ErrorCode.stale_member_epoch),
        ("a", -1, ErrorCode.stale_member_epoch),
        ("x", 2, ErrorCode.unknown_member_id),
        ("", 2, ErrorCode.unknown_member_id),
    ):
        with pytest.raises(KafkaError) as refused:
            group.check_fetch(member_id, epoch)
        assert refused.value.code is code


def test_deleting(stage: Stage) -> None:
    group = stage.group()
    group.check_offset_delete()
    assert group.subscribes_to("t")
    assert not group.subscribes_to("u")
    with pytest.raises(KafkaError) as refused:
        group.check_delete()
    assert refused.value.code is ErrorCode.non_empty_group
    stage.ask("a", -1)
    group.check_delete()
    assert not group.subscribes_to("t")
    assert group.offsets_unused_since_ms(5) == 5


@pytest.mark.parametrize("empty", [True, False])
def test_tombstones_leave_nothing_behind(stage: Stage, empty: bool) -> None:
    stage.join("b", topic_regex="t.*")
    stage.after(0)
    if empty:
        stage.ask("a", -1)
        stage.ask("b", -1)

    def delete(turn: Turn[Stored]) -> None:
        for record in stage.group().tombstones():
            turn.write(record)

    stage.turn(delete)
    assert not stage.groups
    stage.reload()
    assert not stage.groups
    assert stage.join("a", "t").member_epoch == 2


class OtherGroup:
    """A classic group, as far as this matters here."""

    def __init__(self, *, is_empty: bool) -> None:
        self.is_empty = is_empty

    def tombstones(self) -> list[Stored]:
        return [GroupMetadata("g", None)]


def test_an_empty_classic_group_makes_room() -> None:
    stage = Stage()
    stage.groups["g"] = OtherGroup(is_empty=True)
    stage.topic("t", 1)
    assert stage.join("a", "t").member_epoch == 2
    assert stage.log[0] == GroupMetadata("g", None)
    assert stage.describe().state == "Stable"


def test_a_classic_group_with_members_stays() -> None:
    stage = Stage()
    group = stage.groups["g"] = OtherGroup(is_empty=False)
    for epoch, message in (
        (
            0,
            "Cannot upgrade classic group g to consumer group because online upgrade is disabled.",
        ),
        (1, "Group g is not a consumer group."),
        (-1, "Group g is not a consumer group."),
    ):
        with pytest.raises(KafkaError) as refused:
            stage.ask("a", epoch, topic_names=("t",), owned={}, rebalance_timeout_ms=1)
        assert refused.value.code is ErrorCode.group_id_not_found
        assert refused.value.message == message
    with pytest.raises(KafkaError) as refused:
        stage.describe()
    assert refused.value.message == "Group g is not a consumer group."
    assert stage.groups["g"] is group


def test_describing_what_is_not_there() -> None:
    with pytest.raises(KafkaError) as refused:
        Stage().describe()
    assert refused.value.code is ErrorCode.group_id_not_found
    assert refused.value.message == "Group g not found."


def test_records_come_in_any_order_and_with_gaps(stage: Stage) -> None:
    stage.join("b", topic_regex="t.*")
    stage.after(0)
    stage.ask("b", 2)
    records = list({(type(each), _key(each)): each for each in stage.log}.values())
    before = stage.observable()
    stage.log = list(reversed(records))
    stage.reload()
    assert stage.observable() == before
    for gap in range(len(records)):
        stage.log = records[:gap] + records[gap + 1 :]
        stage.reload()
        stage.describe()


def _key(record: Any) -> tuple[Any, ...]:
    names = (each for each in record.__slots__ if each != "value")
    return tuple(getattr(record, each) for each in names)


def test_tombstones_of_what_is_not_there_are_passed_over() -> None:
    stage = Stage()
    stage.log = [
        CurrentMemberAssignment("g", "a", None),
        ConsumerGroupMetadata("g", None),
    ]
    stage.reload()
    assert not stage.groups


def test_timers_of_those_who_are_gone_do_nothing(stage: Stage) -> None:
    timers = dict(stage.timers)
    stage.ask("a", -1)
    assert not stage.timers
    stage.timers = timers
    stage.after(60_000)
    stage.groups.clear()
    stage.timers = timers
    stage.after(60_000)
    assert not stage.groups


def test_sessions_and_revocations_start_anew_with_a_reload(stage: Stage) -> None:
    stage.join("b", "t")
    stage.ask("a", 2)
    stage.after(44_000)
    stage.ask("a", 2)
    stage.ask("b", 3)
    stage.reload()
    stage.after(44_999)
    assert set(stage.group().members) == {"a", "b"}
    stage.ask("a", 2)
    stage.ask("b", 3)
    stage.after(15_001)
    assert set(stage.group().members) == {"b"}, "a did not give up within a minute"


def test_topics_that_changed_while_the_shard_was_away_are_noticed(stage: Stage) -> None:
    stage.shard = SimpleNamespace(  # type: ignore[assignment]
        topics_changed=lambda turn, topics: None, apply=stage.shard.apply
    )
    stage.topic("t", 3)
    stage.reload()
    answer = stage.ask("a", 2)
    assert (answer.member_epoch, stage.named(answer.assignment)) == (3, {"t": (0, 1, 2)})


def test_a_record_without_assignment_epochs_or_of_an_unknown_state(stage: Stage) -> None:
    topic_id = stage.image.topics["t"].id_bytes
    owned = (OwnedPartitions(topic_id, (0, 1)),)
    value = CurrentMemberAssignmentValue(
        member_epoch=2, previous_member_epoch=1, state=9, assigned_partitions=owned
    )
    stage.log.append(CurrentMemberAssignment("g", "a", value))
    stage.reload()
    assert commit(stage, "a", 2) is ErrorCode.none
    assert stage.group().members["a"].owns.assigned == {topic_id: {0: 2, 1: 2}}
    with pytest.raises(KafkaError) as refused:
        stage.ask("a", 2)
    assert refused.value.code is ErrorCode.fenced_member_epoch
    answer = stage.join("a", "t")
    assert (answer.member_epoch, stage.named(answer.assignment)) == (2, {"t": (0, 1)})
    assert stage.describe().state == "Stable"
