"""Which topics are created, grown and deleted, and what is answered for the others."""

import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest

from barnabas.cluster.changes import PartitionsAdded, TopicCreated, TopicDeleted, changes_between
from barnabas.cluster.image import Image, Topic
from barnabas.cluster.layout import encode_uuid, is_pending
from barnabas.cluster.topics import (
    NewPartitions,
    NewTopic,
    TopicResult,
    decide_create,
    decide_create_partitions,
    decide_delete,
)
from barnabas.model import limits
from barnabas.model.errors import ErrorCode
from barnabas.ports.coordination import Create, Delete, SetData
from barnabas.ports.entropy import Entropy

MakeImage = Callable[..., Image]


def create(
    image: Image, entropy: Entropy, *new: NewTopic, most: int = limits.PARTITIONS_PER_BROKER_MAX
) -> tuple[list[TopicResult], Image]:
    decision = decide_create(image, new, entropy, 1, most)
    return decision.results, decision.image


def refusal(image: Image, entropy: Entropy, new: NewTopic) -> tuple[ErrorCode, str | None]:
    decision = decide_create(image, [new], entropy, 1)
    assert decision.image == image
    assert not decision.operations
    assert not changes_between(image, decision.image)
    (result,) = decision.results
    assert result.topic is None
    return result.code, result.message


def topic_of(result: TopicResult) -> Topic:
    assert (result.code, result.message) == (ErrorCode.none, None)
    assert result.topic is not None
    return result.topic


def test_a_new_topic_is_in_the_image_and_in_the_tree(
    make_image: MakeImage, entropy: Entropy
) -> None:
    image = make_image()
    decision = decide_create(image, [NewTopic("t", 2, 1)], entropy, 4)
    topic = topic_of(decision.results[0])
    assert [each.replicas for each in topic.partitions] == [(0,), (0,)]
    assert [(each.leader, each.leader_epoch, each.isr) for each in topic.partitions] == [
        (0, 0, (0,))
    ] * 2
    assert decision.image.topics == {"t": topic}
    assert decision.image.topics_by_id == {topic.id.bytes: topic}
    assert changes_between(image, decision.image) == [TopicCreated(topic)]
    assert [each.path for each in decision.operations if isinstance(each, Create)] == [
        "/brokers/topics/t",
        "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/1",
        "/brokers/topics/t/partitions/1/state",
        "/config/topics/t",
        f"/barnabas/topic_ids/{encode_uuid(topic.id)}",
    ]
    (pending, *_), (*_, final) = decision.writes[0].before, decision.writes[0].seen
    assert isinstance(pending, Create)
    assert is_pending(pending.data)
    assert isinstance(final, SetData)
    assert final.path == "/brokers/topics/t"
    assert not is_pending(final.data)


def test_counts_of_minus_one_take_the_brokers_defaults(
    make_image: MakeImage, entropy: Entropy
) -> None:
    image = make_image(3, num_partitions="4", default_replication_factor="2")
    results, _ = create(image, entropy, NewTopic("t"))
    topic = topic_of(results[0])
    assert (len(topic.partitions), topic.replication_factor) == (4, 2)


def test_configs_are_kept_as_given_and_parsed(make_image: MakeImage, entropy: Entropy) -> None:
    results, _ = create(make_image(), entropy, NewTopic("t", configs={"retention.ms": "77"}))
    topic = topic_of(results[0])
    assert topic.overrides == {"retention.ms": "77"}
    assert topic.config.retention_ms == 77


def test_an_assignment_by_hand_is_taken_as_it_is(make_image: MakeImage, entropy: Entropy) -> None:
    new = NewTopic("t", assignments=[(1, [2, 0]), (0, [1, 2])])
    results, _ = create(make_image(3), entropy, new)
    topic = topic_of(results[0])
    assert [each.replicas for each in topic.partitions] == [(1, 2), (2, 0)]
    assert [each.leader for each in topic.partitions] == [1, 2]


@pytest.mark.parametrize(
    ("new", "code", "words"),
    [
        (NewTopic(""), ErrorCode.invalid_topic_exception, "Topic name is invalid"),
        (NewTopic("a/b"), ErrorCode.invalid_topic_exception, "Topic name is invalid"),
        (NewTopic("t", 0), ErrorCode.invalid_partitions, "larger than 0"),
        (NewTopic("t", -2), ErrorCode.invalid_partitions, "larger than 0"),
        (NewTopic("t", 10_001), ErrorCode.invalid_partitions, "at most 10000"),
        (NewTopic("t", 1, 0), ErrorCode.invalid_replication_factor, "larger than 0"),
        (NewTopic("t", 1, 3), ErrorCode.invalid_replication_factor, "only 2 broker(s)"),
        (
            NewTopic("t", 1, assignments=[(0, [0])]),
            ErrorCode.invalid_request,
            "must both be -1",
        ),
        (
            NewTopic("t", -1, 1, assignments=[(0, [0])]),
            ErrorCode.invalid_request,
            "must both be -1",
        ),
        (
            NewTopic("t", assignments=[(0, [0]), (2, [0])]),
            ErrorCode.invalid_replica_assignment,
            "without gaps",
        ),
        (
            NewTopic("t", assignments=[(0, [0]), (0, [1])]),
            ErrorCode.invalid_replica_assignment,
            "Partition 0 is assigned more than once",
        ),
        (
            NewTopic("t", assignments=[(0, [0]), (1, [0, 1])]),
            ErrorCode.invalid_replica_assignment,
            "earlier partitions have 1",
        ),
        (
            NewTopic("t", assignments=[(0, [5])]),
            ErrorCode.invalid_replica_assignment,
            "no such broker",
        ),
        (
            NewTopic("t", configs={"retention.ms": None}),
            ErrorCode.invalid_config,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            NewTopic("t", configs={"retention": "1"}),
            ErrorCode.invalid_config,
            "Unknown topic config name: retention",
        ),
        (
            NewTopic("t", configs={"remote.storage.enable": "true"}),
            ErrorCode.invalid_config,
            "tiered storage is not available",
        ),
    ],
)
def test_what_can_not_be_created_is_refused(
    make_image: MakeImage, entropy: Entropy, new: NewTopic, code: ErrorCode, words: str
) -> None:
    found, message = refusal(make_image(2), entropy, new)
    assert found is code
    assert message is not None
    assert words in message


def test_existing_and_colliding_names_are_refused(make_image: MakeImage, entropy: Entropy) -> None:
    _, image = create(make_image(), entropy, NewTopic("a.b"))
    assert refusal(image, entropy, NewTopic("a.b")) == (
        ErrorCode.topic_already_exists,
        "Topic 'a.b' already exists.",
    )
    assert refusal(image, entropy, NewTopic("a_b")) == (
        ErrorCode.invalid_topic_exception,
        "Topic 'a_b' collides with existing topic: a.b",
    )


def test_topics_of_one_request_collide_with_each_other_only_if_created(
    make_image: MakeImage, entropy: Entropy
) -> None:
    results, image = create(make_image(), entropy, NewTopic("a.b"), NewTopic("a_b"))
    assert [each.code for each in results] == [ErrorCode.none, ErrorCode.invalid_topic_exception]
    results, image = create(make_image(), entropy, NewTopic("a.b", 0), NewTopic("a_b"))
    assert [each.code for each in results] == [ErrorCode.invalid_partitions, ErrorCode.none]
    assert list(image.topics) == ["a_b"]


def test_a_name_given_twice_is_refused_once(make_image: MakeImage, entropy: Entropy) -> None:
    results, image = create(make_image(), entropy, NewTopic("t"), NewTopic("u"), NewTopic("t", 3))
    assert [(each.name, each.code) for each in results] == [
        ("t", ErrorCode.invalid_request),
        ("u", ErrorCode.none),
    ]
    assert results[0].message == "Duplicate topic name."
    assert list(image.topics) == ["u"]


def test_a_broker_holds_only_so_many_partitions(make_image: MakeImage, entropy: Entropy) -> None:
    results, image = create(make_image(), entropy, NewTopic("a", 3), NewTopic("b", 3), most=5)
    assert [each.code for each in results] == [ErrorCode.none, ErrorCode.policy_violation]
    results, _ = create(image, entropy, NewTopic("c", 3), most=5)
    assert [each.code for each in results] == [ErrorCode.policy_violation]
    _, image = create(image, entropy, NewTopic("d", 2), most=5)
    grown = decide_create_partitions(image, [NewPartitions("d", 3)], entropy, 1, 5)
    assert grown.results[0].code is ErrorCode.policy_violation
    assert grown.image == image
    results, _ = create(make_image(2), entropy, NewTopic("a", 5, 1), NewTopic("b", 4, 1), most=5)
    assert [each.code for each in results] == [ErrorCode.none, ErrorCode.none]


def test_topic_ids_differ_and_never_begin_with_a_dash(
    make_image: MakeImage, entropy: Entropy
) -> None:
    results, image = create(make_image(), entropy, *(NewTopic(f"t{n}") for n in range(300)))
    assert len(image.topics_by_id) == 300
    assert all(topic_of(each).id.bytes[0] >> 2 != 62 for each in results)


def test_partitions_are_added_at_the_end(make_image: MakeImage, entropy: Entropy) -> None:
    _, image = create(make_image(3), entropy, NewTopic("t", 2, 2))
    before = image.topics["t"]
    decision = decide_create_partitions(image, [NewPartitions("t", 4)], entropy, 1)
    after = topic_of(decision.results[0])
    assert after.partitions[:2] == before.partitions
    assert [len(each.replicas) for each in after.partitions] == [2] * 4
    assert after.id == before.id
    assert decision.image.topics["t"] is decision.image.topics_by_id[after.id_bytes] is after
    assert changes_between(image, decision.image) == [PartitionsAdded(after, 2)]
    assert isinstance(decision.operations[-1], SetData)
    assert [each.path for each in decision.operations][:-1] == [
        "/brokers/topics/t/partitions/2",
        "/brokers/topics/t/partitions/2/state",
        "/brokers/topics/t/partitions/3",
        "/brokers/topics/t/partitions/3/state",
    ]


def test_added_partitions_can_be_assigned_by_hand(make_image: MakeImage, entropy: Entropy) -> None:
    _, image = create(make_image(3), entropy, NewTopic("t", 1, 2))
    new = NewPartitions("t", 3, [[2, 1], [0, 2]])
    decision = decide_create_partitions(image, [new], entropy, 1)
    partitions = topic_of(decision.results[0]).partitions
    assert [each.replicas for each in partitions[1:]] == [(2, 1), (0, 2)]


@pytest.mark.parametrize(
    ("new", "code", "words"),
    [
        (NewPartitions("u", 5), ErrorCode.unknown_topic_or_partition, None),
        (NewPartitions("t", 2), ErrorCode.invalid_partitions, "already has 2"),
        (NewPartitions("t", 1), ErrorCode.invalid_partitions, "would not be an increase"),
        (NewPartitions("t", 20_000), ErrorCode.invalid_partitions, "at most 10000"),
        (NewPartitions("t", 4, [[0]]), ErrorCode.invalid_replica_assignment, "2 partition(s)"),
        (NewPartitions("t", 3, [[9]]), ErrorCode.invalid_replica_assignment, "broker 9"),
        (NewPartitions("t", 3, [[0, 1]]), ErrorCode.invalid_replica_assignment, "have 1"),
    ],
)
def test_what_can_not_be_grown_is_refused(
    make_image: MakeImage, entropy: Entropy, new: NewPartitions, code: ErrorCode, words: str | None
) -> None:
    _, image = create(make_image(2), entropy, NewTopic("t", 2, 1))
    decision = decide_create_partitions(image, [new], entropy, 1)
    assert decision.image == image
    assert not decision.operations
    (result,) = decision.results
    assert result.code is code
    assert (words is None) == (result.message is None)
    assert words is None or words in str(result.message)


def test_a_topic_grown_twice_in_one_request_is_refused(
    make_image: MakeImage, entropy: Entropy
) -> None:
    _, image = create(make_image(), entropy, NewTopic("t", 1))
    twice = [NewPartitions("t", 2), NewPartitions("t", 3)]
    decision = decide_create_partitions(image, twice, entropy, 1)
    assert [each.code for each in decision.results] == [ErrorCode.invalid_request]


def test_topics_are_deleted_by_name_and_by_id(make_image: MakeImage, entropy: Entropy) -> None:
    _, image = create(make_image(), entropy, NewTopic("a"), NewTopic("b"), NewTopic("c"))
    unknown = uuid.UUID(int=5)
    decision = decide_delete(image, ["a", image.topics["b"].id, "zzz", unknown])
    assert [(each.name, each.code) for each in decision.results] == [
        ("a", ErrorCode.none),
        ("b", ErrorCode.none),
        ("zzz", ErrorCode.unknown_topic_or_partition),
        (None, ErrorCode.unknown_topic_id),
    ]
    assert decision.results[3].topic_id == unknown
    assert list(decision.image.topics) == ["c"]
    assert len(decision.image.topics_by_id) == 1
    assert changes_between(image, decision.image) == [
        TopicDeleted(image.topics["a"]),
        TopicDeleted(image.topics["b"]),
    ]
    assert all(isinstance(op, Delete) for each in decision.writes for op in each.after)
    hides = decision.writes[0].seen[0]
    assert isinstance(hides, SetData)
    assert is_pending(hides.data)


def test_a_deletion_asked_for_twice_is_refused(make_image: MakeImage, entropy: Entropy) -> None:
    _, image = create(make_image(), entropy, NewTopic("a"))
    decision = decide_delete(image, ["a", "a"])
    assert [each.code for each in decision.results] == [ErrorCode.invalid_request]
    assert decision.image == image


def test_deletion_can_be_disabled(make_image: MakeImage, entropy: Entropy) -> None:
    _, image = create(make_image(delete_topic_enable="false"), entropy, NewTopic("a"))
    decision = decide_delete(image, ["a"])
    assert decision.results[0].code is ErrorCode.topic_deletion_disabled
    assert decision.image == image


def test_a_cordoned_broker_gets_nothing_new(make_image: MakeImage, entropy: Entropy) -> None:
    image = replace(make_image(brokers=3), broker_overrides={"1": {"cordoned.log.dirs": "*"}})
    results, _ = create(image, entropy, NewTopic("t", 6, 2))
    assert {each for state in topic_of(results[0]).partitions for each in state.replicas} == {0, 2}
    code, _ = refusal(image, entropy, NewTopic("u", 1, 3))
    assert code is ErrorCode.invalid_replication_factor
