"""Static members: their places are kept while they restart, and belong to one at a time."""

import pytest
from tests.coordinator.consumer.stage import Stage

from barnabas.model.errors import ErrorCode, KafkaError


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.topic("t", 2)
    answer = stage.join("a", "t", instance_id="one")
    assert (answer.member_epoch, stage.named(answer.assignment)) == (2, {"t": (0, 1)})
    return stage


def test_two_consumers_with_one_static_id(stage: Stage) -> None:
    for member_id in ("b", "a"):
        with pytest.raises(KafkaError) as refused:
            stage.join(member_id, "t", instance_id="one")
        assert refused.value.code is ErrorCode.unreleased_instance_id
        assert refused.value.message == (
            f"Static member {member_id} with instance id one cannot join the group because the "
            "instance id is owned by a member."
        )
    for epoch in (2, -1, -2):
        with pytest.raises(KafkaError) as refused:
            stage.ask("b", epoch, instance_id="one")
        assert refused.value.code is ErrorCode.fenced_instance_id
        assert refused.value.message == (
            "Static member b with instance id one was fenced by member a."
        )


def test_a_static_id_that_nobody_has(stage: Stage) -> None:
    for epoch in (2, -1, -2):
        with pytest.raises(KafkaError) as refused:
            stage.ask("a", epoch, instance_id="two")
        assert refused.value.code is ErrorCode.unknown_member_id
        assert refused.value.message == "Instance id two is unknown."


def test_a_heartbeat_need_not_repeat_the_static_id(stage: Stage) -> None:
    assert stage.ask("a", 2).member_epoch == 2
    assert stage.described("a").instance_id == "one"
    assert stage.written == 0


@pytest.mark.parametrize("member_id", ["a", "b"])
def test_a_restart_disturbs_nobody(stage: Stage, member_id: str) -> None:
    answer = stage.ask("a", -2, instance_id="one")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", -2, 0)
    assert stage.describe().state == "Reconciling"
    assert stage.described("a").assignment == stage.owning(t=(0, 1))
    answer = stage.join(member_id, "t", instance_id="one")
    assert (answer.member_epoch, stage.named(answer.assignment)) == (2, {"t": (0, 1)})
    described = stage.describe()
    assert (described.state, described.group_epoch) == ("Stable", 2)
    assert [each.member_id for each in described.members] == [member_id]
    assigned = stage.group().members[member_id].owns.assigned.values()
    assert [dict(each) for each in assigned] == [{0: 0, 1: 0}], "it may commit what it left behind"
    stage.after(44_999)
    assert stage.ask(member_id, 2, instance_id="one").member_epoch == 2


def test_who_was_replaced_is_fenced(stage: Stage) -> None:
    stage.ask("a", -2, instance_id="one")
    with pytest.raises(KafkaError) as refused:
        stage.ask("a", 2, instance_id="one")
    assert refused.value.code is ErrorCode.fenced_member_epoch
    stage.join("b", "t", instance_id="one")
    with pytest.raises(KafkaError) as refused:
        stage.ask("a", 2, instance_id="one")
    assert refused.value.code is ErrorCode.fenced_instance_id


def test_a_restart_with_another_subscription_balances(stage: Stage) -> None:
    stage.ask("a", -2, instance_id="one")
    answer = stage.join("b", "t", "u", instance_id="one")
    assert (answer.member_epoch, stage.named(answer.assignment)) == (3, {"t": (0, 1)})


def test_who_stays_away_for_too_long_loses_its_place(stage: Stage) -> None:
    stage.join("b", "t")
    stage.after(40_000)
    stage.ask("b", 3)
    stage.ask("a", -2, instance_id="one")
    stage.after(5_000)
    assert set(stage.group().members) == {"b"}
    answer = stage.ask("b", 3)
    assert (answer.member_epoch, stage.named(answer.assignment)) == (4, {"t": (0, 1)})


def test_leaving_for_a_while_releases_what_was_to_be_given_up(stage: Stage) -> None:
    stage.join("b", "t")
    assert stage.named(stage.ask("a", 2).assignment) == {"t": (0,)}
    stage.ask("a", -2, instance_id="one")
    assert stage.named(stage.ask("b", 3).assignment) == {"t": (1,)}
    stage.after(44_000)
    answer = stage.join("c", "t", instance_id="one")
    assert (answer.member_epoch, stage.named(answer.assignment)) == (3, {"t": (0,)})


def test_leaving_for_good_gives_everything_away(stage: Stage) -> None:
    stage.join("b", "t")
    assert stage.ask("a", -1, instance_id="one").member_epoch == -1
    answer = stage.ask("b", 3)
    assert (answer.member_epoch, stage.named(answer.assignment)) == (4, {"t": (0, 1)})
    stage.join("c", "t", instance_id="one")


def test_a_place_survives_a_reload(stage: Stage) -> None:
    stage.ask("a", -2, instance_id="one")
    stage.reload()
    answer = stage.join("b", "t", instance_id="one")
    assert (answer.member_epoch, stage.named(answer.assignment)) == (2, {"t": (0, 1)})
    before = stage.observable()
    stage.reload()
    assert stage.observable() == before
