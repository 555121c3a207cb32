"""For whom a producer may commit within its transaction, in either kind of group."""

from collections.abc import Iterable

import pytest
from tests.coordinator.classic.stage import G
from tests.coordinator.classic.stage import Stage as ClassicStage
from tests.coordinator.consumer.stage import Stage as ConsumerStage

from barnabas.coordinator.group.group import Group
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.stored import GroupMetadata


def checked(
    group: Group,
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
    partitions: Iterable[tuple[bytes, int]] = ((bytes(16), 0),),
) -> ErrorCode:
    try:
        group.check_txn_commit(member_id, instance_id, generation, partitions)
    except KafkaError as error:
        return error.code
    return ErrorCode.none


class TestClassic:
    """State does not matter here, unlike for plain commits."""

    def test_members_at_their_generation_and_nobody_in_particular(self) -> None:
        stage = ClassicStage()
        [one] = stage.stable("a")
        group = stage.group
        assert checked(group, one, 1) is ErrorCode.none
        assert checked(group) is ErrorCode.none
        assert checked(group, one, 2) is ErrorCode.illegal_generation
        assert checked(group, one, 0) is ErrorCode.illegal_generation
        assert checked(group, one, -1) is ErrorCode.illegal_generation
        assert checked(group, "x", 1) is ErrorCode.unknown_member_id
        assert checked(group, "", 1) is ErrorCode.unknown_member_id
        assert checked(group, one, 1, "i") is ErrorCode.unknown_member_id
        assert checked(group, "", -1, "i") is ErrorCode.unknown_member_id

    def test_in_the_midst_of_a_rebalance(self) -> None:
        stage = ClassicStage()
        one, two = stage.stable("a", "b")
        stage.join(one)
        stage.join(two)
        assert stage.state == "CompletingRebalance"
        assert checked(stage.group, two, 2) is ErrorCode.none
        assert checked(stage.group, two, 1) is ErrorCode.illegal_generation

    def test_a_static_member_that_was_replaced(self) -> None:
        stage = ClassicStage()
        [one] = stage.stable("a", static=True)
        instance = next(iter(stage.group.roster)).instance_id
        assert checked(stage.group, one, 1, instance) is ErrorCode.none
        assert checked(stage.group, "other", 1, instance) is ErrorCode.fenced_instance_id

    def test_an_empty_group_takes_what_names_no_generation(self) -> None:
        stage = ClassicStage()
        group = stage.classic.simple(G)
        assert checked(group) is ErrorCode.none
        assert checked(group, "x", -1, "i") is ErrorCode.none
        assert checked(group, "x", 0) is ErrorCode.unknown_member_id

    def test_a_group_that_is_gone(self) -> None:
        stage = ClassicStage()
        group = stage.classic.simple(G)
        stage.classic.apply(GroupMetadata(G, None))
        assert checked(group) is ErrorCode.coordinator_not_available


class TestConsumer:
    """Epochs, in the words of those who know generations only."""

    @pytest.fixture
    def stage(self) -> ConsumerStage:
        stage = ConsumerStage()
        stage.topic("t", 2)
        stage.join("a", "t")
        return stage

    def test_members_at_their_epoch_and_nobody_in_particular(self, stage: ConsumerStage) -> None:
        group = stage.group()
        assert checked(group, "a", 2) is ErrorCode.none
        assert checked(group) is ErrorCode.none
        assert checked(group, "a", 3) is ErrorCode.illegal_generation
        assert checked(group, "a", 1) is ErrorCode.illegal_generation
        assert checked(group, "a", -1) is ErrorCode.illegal_generation
        assert checked(group, "x", 2) is ErrorCode.unknown_member_id
        assert checked(group, "", 2) is ErrorCode.unknown_member_id
        assert checked(group, "", -1, "i") is ErrorCode.unknown_member_id
        assert checked(group, "", -2) is ErrorCode.unknown_member_id

    def test_an_older_epoch_is_good_for_what_was_assigned_by_then(
        self, stage: ConsumerStage
    ) -> None:
        topic_id = stage.image.topics["t"].id_bytes
        stage.topic("t", 3)
        assert stage.ask("a", 2).member_epoch == 3
        group = stage.group()
        assert checked(group, "a", 2, partitions=[(topic_id, 0)]) is ErrorCode.none
        late = checked(group, "a", 2, partitions=[(topic_id, 2)])
        assert late is ErrorCode.illegal_generation

    def test_an_empty_group_takes_what_names_no_epoch(self, stage: ConsumerStage) -> None:
        stage.ask("a", -1)
        group = stage.group()
        assert checked(group, "x", -1, "i") is ErrorCode.none
        assert checked(group, "x", 0) is ErrorCode.unknown_member_id
