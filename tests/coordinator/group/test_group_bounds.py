"""What strangers can make a group keep is bounded, and tested at its edge."""

import pytest
from tests.coordinator.classic.stage import Stage as ClassicStage
from tests.coordinator.consumer.stage import Stage as ConsumerStage

from barnabas.config.group_settings import GroupSettings
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.limits import (
    ERROR_MESSAGE_CHARS_MAX,
    GROUP_METADATA_BYTES_MAX,
    GROUP_PENDING_MEMBERS_MAX,
    GROUP_REGEXES_MAX,
)

AT_ONCE = GroupSettings(initial_rebalance_delay_ms=0)


def test_the_metadata_of_all_members() -> None:
    stage = ClassicStage(AT_ONCE)
    half = bytes(GROUP_METADATA_BYTES_MAX // 2)
    first = stage.join(protocols=(("range", half),))
    stage.advance(0)
    second = stage.join(protocols=(("range", half + b"."),))
    assert second.code is ErrorCode.group_max_size_reached
    stage.join(protocols=(("range", half),))
    # Whoever is in may say the same, or less, again.
    again = stage.join(first.joined.member_id, protocols=(("range", half),))
    assert again.waits or again.code is ErrorCode.none
    refused = stage.join(first.joined.member_id, protocols=(("range", half + b"."),))
    assert refused.code is ErrorCode.group_max_size_reached


def test_room_comes_back_when_members_go() -> None:
    stage = ClassicStage(AT_ONCE)
    whole = (("range", bytes(GROUP_METADATA_BYTES_MAX)),)
    first = stage.join(protocols=whole)
    stage.advance(0)
    assert stage.leave(first.joined.member_id).left == [ErrorCode.none]
    second = stage.join(protocols=whole)
    stage.advance(0)
    assert second.code is ErrorCode.none


def test_the_assignments_of_a_generation() -> None:
    stage = ClassicStage(AT_ONCE)
    first = stage.join()
    stage.advance(0)
    member_id = first.joined.member_id
    too_much = {member_id: bytes(GROUP_METADATA_BYTES_MAX + 1)}
    assert stage.sync(member_id, 1, too_much).code is ErrorCode.unknown_server_error
    assert stage.state == "CompletingRebalance"
    enough = {member_id: bytes(GROUP_METADATA_BYTES_MAX)}
    assert stage.sync(member_id, 1, enough).code is ErrorCode.none


def test_ids_that_were_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert GROUP_PENDING_MEMBERS_MAX > 10_000, "so many may well come at once"
    monkeypatch.setattr("barnabas.coordinator.group.classic.joining.GROUP_PENDING_MEMBERS_MAX", 3)
    stage = ClassicStage()
    codes = [stage.join(needs_member_id=True).code for _ in range(4)]
    assert codes == [ErrorCode.member_id_required] * 3 + [ErrorCode.group_max_size_reached]


def test_the_expressions_of_a_group() -> None:
    stage = ConsumerStage()
    for number in range(GROUP_REGEXES_MAX):
        stage.join(f"m{number}", topic_regex=f"t{number}")
    stage.join("again", topic_regex="t0")
    with pytest.raises(KafkaError) as refused:
        stage.join("more", topic_regex="another")
    assert refused.value.code is ErrorCode.invalid_regular_expression
    assert "more" not in stage.group().members


def test_the_words_of_an_error() -> None:
    assert KafkaError(ErrorCode.none, "x" * ERROR_MESSAGE_CHARS_MAX).message[-1] == "x"
    half = ERROR_MESSAGE_CHARS_MAX // 2
    cut = KafkaError(ErrorCode.none, "x" * half + "?" + "y" * half).message
    assert cut == "x" * half + "..." + "y" * half
