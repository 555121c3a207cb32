"""What a heartbeat may say: Kafka's errors for everything else, and nothing is changed by them."""

from typing import Any

import pytest
from tests.coordinator.consumer.stage import Stage

from barnabas.config.group_settings import GroupSettings
from barnabas.coordinator.group.asks import Client
from barnabas.model.errors import ErrorCode, KafkaError

JOIN: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "owned": {}, "topic_names": ("t",)}
SOME = {b"\1" * 16: (0,)}

REFUSED = {
    "empty group": ("m", 0, JOIN | {"group_id": ""}, "GroupId can't be empty."),
    "blank group": ("m", 0, JOIN | {"group_id": " "}, "GroupId can't be empty."),
    "empty member later": ("", 1, {}, "MemberId can't be empty."),
    "blank member later": (" ", 1, {}, "MemberId can't be empty."),
    "empty member leaving": ("", -1, {}, "MemberId can't be empty."),
    "empty instance": ("m", 0, JOIN | {"instance_id": ""}, "InstanceId can't be empty."),
    "empty rack": ("m", 0, JOIN | {"rack_id": ""}, "RackId can't be empty."),
    "no timeout": (
        "m",
        0,
        JOIN | {"rebalance_timeout_ms": -1},
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    "owned unsaid": (
        "m",
        0,
        JOIN | {"owned": None},
        "TopicPartitions must be empty when (re-)joining.",
    ),
    "owning something": (
        "m",
        0,
        JOIN | {"owned": SOME},
        "TopicPartitions must be empty when (re-)joining.",
    ),
    "no subscription": (
        "m",
        0,
        JOIN | {"topic_names": None},
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    "static leave without an instance": ("m", -2, {}, "InstanceId can't be null."),
    "impossible epoch": ("m", -3, {}, "MemberEpoch is invalid."),
}


@pytest.mark.parametrize(("member_id", "epoch", "said", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_requests_are_refused_in_kafkas_words(
    member_id: str, epoch: int, said: dict[str, Any], message: str
) -> None:
    stage = Stage()
    with pytest.raises(KafkaError) as refused:
        stage.ask(member_id, epoch, **said)
    assert refused.value.code is ErrorCode.invalid_request
    assert refused.value.message == message
    assert not stage.groups
    assert not stage.log


@pytest.mark.parametrize("assignor", ["sticky", ""])
def test_an_assignor_that_is_not_offered(assignor: str) -> None:
    stage = Stage()
    with pytest.raises(KafkaError) as refused:
        stage.join("m", "t", server_assignor=assignor)
    assert refused.value.code is ErrorCode.unsupported_assignor
    assert refused.value.message == (
        f"ServerAssignor {assignor} is not supported. Supported assignors: uniform, range."
    )


@pytest.mark.parametrize(
    ("epoch", "said", "message"),
    [
        (1, {}, "Consumer group g not found."),
        (-1, {}, "Group g not found."),
        (-2, {"instance_id": "i"}, "Group g not found."),
    ],
)
def test_only_joining_makes_a_group(epoch: int, said: dict[str, Any], message: str) -> None:
    stage = Stage()
    with pytest.raises(KafkaError) as refused:
        stage.ask("m", epoch, **said)
    assert refused.value.code is ErrorCode.group_id_not_found
    assert refused.value.message == message
    assert not stage.groups


def test_a_stranger_neither_beats_nor_leaves() -> None:
    stage = Stage()
    stage.join("m")
    for epoch in (1, -1):
        with pytest.raises(KafkaError) as refused:
            stage.ask("x", epoch)
        assert refused.value.code is ErrorCode.unknown_member_id
        assert refused.value.message == "Member x is not a member of group g."


def test_a_member_without_an_id_gets_one() -> None:
    stage = Stage()
    first, second = stage.join("", "t").member_id, stage.join("", "t").member_id
    assert len(first) == len(second) == 22
    assert first != second
    assert set(stage.group().members) == {first, second}


def test_group_and_member_ids_may_be_any_text() -> None:
    stage = Stage()
    group_id, member_id = "gruppe-é漢😀 ../'\"\0", "é /\n"
    stage.topic("t", 1)
    stage.join(member_id, "t", group_id=group_id)
    before = stage.observable()
    stage.reload()
    assert stage.observable() == before
    assert before[group_id].members[0].member_id == member_id


def test_a_full_group_takes_nobody_but_its_members() -> None:
    stage = Stage(GroupSettings(consumer_max_size=2))
    stage.join("a", "t", instance_id="one")
    stage.join("b", "t")
    for member_id in ("c", ""):
        with pytest.raises(KafkaError) as refused:
            stage.join(member_id, "t")
        assert refused.value.code is ErrorCode.group_max_size_reached
        assert "maximum capacity of 2 members" in refused.value.message
    stage.join("b", "t")
    stage.ask("a", -2, instance_id="one")
    assert stage.join("c", "t", instance_id="one").member_id == "c"


def test_ten_thousand_members_are_taken_in_and_balanced() -> None:
    stage = Stage()
    stage.topic("t", 100)
    for number in range(10_000):
        stage.join(f"m{number}", "t")
        stage.monotonic_ms += 1
    group = stage.group()
    assert len(group.members) == 10_000
    # Were the target made for each of them, the log would hold thousands of times as much.
    assert len(stage.log) < 10_000 * 6
    stage.monotonic_ms += 1_000
    member_id = "m9999"
    stage.ask(member_id, group.members[member_id].owns.epoch)
    assert group.assignment_epoch == group.epoch
    assert sum(len(p) for t in group.targets.values() for p in t.values()) == 100


@pytest.mark.parametrize(("received", "compared"), [(7, "greater"), (1, "smaller")])
def test_a_wrong_epoch_is_fenced(received: int, compared: str) -> None:
    stage = Stage()
    stage.topic("t", 1)
    assert stage.join("m", "t").member_epoch == 2
    with pytest.raises(KafkaError) as refused:
        stage.ask("m", received, owned={})
    assert refused.value.code is ErrorCode.fenced_member_epoch
    assert refused.value.message == (
        f"The consumer group member has a {compared} member epoch ({received}) than the one "
        "known by the group coordinator (2). The member must abandon all its partitions and "
        "rejoin."
    )


def test_what_the_client_is_called_is_kept() -> None:
    stage = Stage()
    stage.topic("t", 1)
    stage.join("m", "t", rack_id="r1")
    moved = Client(id="other", host="/10.0.0.1")
    stage.ask("m", 2, client=moved)
    assert stage.written == 1
    described = stage.described("m")
    assert described.client == moved
    assert described.rack_id == "r1"
    assert described.topic_names == ("t",)
    assert described.topic_regex == ""
