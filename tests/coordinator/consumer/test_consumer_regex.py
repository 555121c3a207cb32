"""Subscriptions by regular expression: resolved aside, again when topics came, not too often."""

from dataclasses import replace
from typing import Any

import pytest
from tests.coordinator.consumer.stage import Stage

from barnabas.coordinator.group.consumer import regexes
from barnabas.coordinator.group.consumer.groups import REGEX
from barnabas.coordinator.runtime.turn import TimerKey
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.wire.stored import ConsumerGroupMember, ConsumerGroupRegex


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    for name in ("re-one", "re-two", "more", "__consumer_offsets"):
        stage.topic(name, 1)
    return stage


def beat(stage: Stage, member_id: str = "a", **said: Any) -> tuple[int, list[str] | None]:
    """A heartbeat with the epoch the group knows: epoch and topics of the answer."""
    answer = stage.ask(member_id, stage.group().members[member_id].owns.epoch, **said)
    names = stage.named(answer.assignment)
    return answer.member_epoch, None if names is None else sorted(names)


def test_the_topics_come_with_the_second_heartbeat(stage: Stage) -> None:
    answer = stage.join("a", topic_regex="re-.*")
    assert (answer.member_epoch, answer.assignment) == (1, {})
    stage.after(0)
    assert beat(stage) == (2, ["re-one", "re-two"])
    assert beat(stage) == (2, None)
    assert stage.written == 0
    assert stage.describe().state == "Stable"
    assert stage.described("a").topic_regex == "re-.*"
    last = stage.describe().last_rebalance
    assert last is not None
    assert last.reason == "topics came or went that match re-.*"


def test_an_expression_matches_whole_names_and_no_internal_topics(stage: Stage) -> None:
    stage.join("a", topic_regex="re")
    stage.join("b", topic_regex=".*")
    stage.after(0)
    assert beat(stage, "b") == (2, ["more", "re-one", "re-two"])
    assert beat(stage, "a") == (2, None)


@pytest.mark.parametrize("regex", ["re-(", "re-(?!two).*", r"(r)e-\1", "x" * 10_000])
def test_an_invalid_expression_is_refused(stage: Stage, regex: str) -> None:
    stage.join("a", "more")
    before, records = stage.observable(), len(stage.log)
    with pytest.raises(KafkaError) as refused:
        stage.join("b", topic_regex=regex)
    assert refused.value.code is ErrorCode.invalid_regular_expression
    with pytest.raises(KafkaError):
        stage.ask("a", 2, topic_regex=regex)
    assert (stage.observable(), len(stage.log)) == (before, records)


def test_names_and_an_expression_together(stage: Stage) -> None:
    answer = stage.join("a", "more", topic_regex="re-t.*")
    assert (answer.member_epoch, stage.named(answer.assignment)) == (2, {"more": (0,)})
    stage.after(0)
    assert beat(stage) == (3, ["more", "re-two"])
    assert stage.group().subscribes_to("re-two")
    assert not stage.group().subscribes_to("re-one")


def test_new_topics_are_seen_but_not_more_than_every_ten_seconds(stage: Stage) -> None:
    stage.join("a", topic_regex="re-.*")
    stage.after(0)
    beat(stage)
    stage.topic("re-three", 1)
    stage.after(5_000)
    assert beat(stage) == (2, None)
    stage.after(5_001)
    assert beat(stage) == (2, None), "resolved aside"
    stage.after(0)
    assert beat(stage) == (3, ["re-one", "re-three", "re-two"])


def test_expressions_are_resolved_again_from_time_to_time(stage: Stage) -> None:
    stage.join("a", topic_regex="re-.*")
    stage.after(0)
    beat(stage)
    stage.delete("re-two")
    assert beat(stage) == (2, ["re-one"])
    assert beat(stage, owned=stage.owning(**{"re-one": (0,)}))[0] == 3
    assert stage.group().subscribes_to("re-two"), "deleted ones are forgotten later"
    for _ in range(121):
        stage.after(5_000)
        beat(stage)
    stage.after(0)
    assert not stage.group().subscribes_to("re-two")


def test_an_expression_that_others_use_counts_at_once(stage: Stage) -> None:
    stage.join("a", topic_regex="re-.*")
    stage.after(0)
    beat(stage)
    answer = stage.join("b", topic_regex="re-.*")
    assert answer.member_epoch == 3
    assert len(stage.group().target("b")) == 1


def test_what_nobody_uses_is_forgotten(stage: Stage) -> None:
    stage.join("a", topic_regex="re-.*")
    stage.join("b", topic_regex="re-.*")
    stage.after(0)
    stage.ask("b", -1)
    assert "re-.*" in stage.group().regexes
    beat(stage)
    assert beat(stage, topic_regex="", topic_names=("more",))[0] == 3
    assert not stage.group().regexes
    assert ConsumerGroupRegex("g", "re-.*", None) in stage.log
    assert not stage.group().subscribes_to("re-one")
    assert beat(stage, owned={}) == (4, ["more"])


def test_the_last_leaver_takes_its_expression_along(stage: Stage) -> None:
    stage.join("a", topic_regex="re-.*")
    stage.after(0)
    stage.ask("a", -1)
    assert not stage.group().regexes
    assert not stage.group().topics


def test_a_change_of_expression_takes_topics_away_before_it_is_resolved(stage: Stage) -> None:
    stage.join("a", topic_regex="re-.*")
    stage.after(0)
    beat(stage)
    assert beat(stage, topic_regex="mor.") == (2, [])
    assert beat(stage, owned={}) == (2, None), "the target is of the old expression still"
    stage.after(0)
    assert beat(stage) == (3, ["more"])


def test_expressions_survive_a_reload(stage: Stage) -> None:
    stage.join("a", topic_regex="re-.*")
    stage.after(0)
    beat(stage)
    before = stage.observable()
    stage.reload()
    assert stage.observable() == before
    records = len(stage.log)
    assert beat(stage) == (2, None)
    stage.after(0)
    assert beat(stage) == (2, None)
    assert len(stage.log) == records, "resolved anew, to the same topics"


def test_a_stored_expression_that_nobody_understands_stands_for_nothing(stage: Stage) -> None:
    stage.join("a", topic_regex="re-.*")
    told = replace(stage.group().members["a"].told, subscribed_topic_regex="(")
    stage.log.append(ConsumerGroupMember("g", "a", told))
    stage.reload()
    assert beat(stage) == (1, None)
    stage.after(0)
    assert beat(stage) == (1, None)
    assert stage.group().regexes["("].topics == ()


def test_many_expressions_take_turns_with_everybody_else(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regexes, "MATCHES_AT_ONCE", 1)
    for name in "abcd":
        stage.join(name, topic_regex=f"re-.*|{name}")
    group, key = stage.group(), TimerKey(REGEX, "g")
    epoch, resolved = group.epoch, []
    while key in stage.timers:
        del stage.timers[key]
        stage.turn(lambda turn: stage.shard.fire(turn, key))
        resolved.append((len(group.regexes), group.epoch - epoch))
        if len(group.regexes) == 2:
            stage.ask("d", -1)  # Its expression is not resolved any more.
            epoch = group.epoch
    assert resolved == [(1, 0), (2, 0), (3, 0), (3, 1)]
    assert sorted(group.regexes) == ["re-.*|a", "re-.*|b", "re-.*|c"]
    assert not group.regexes_due
    stage.reload()
    assert sorted(stage.group().regexes) == ["re-.*|a", "re-.*|b", "re-.*|c"]
