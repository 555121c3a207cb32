"""How settings of topics and brokers change, and which changes are refused."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from barnabas.cluster.changes import BrokerConfigChanged, TopicConfigChanged, changes_between
from barnabas.cluster.configs import (
    AlterOp,
    AlterResult,
    ConfigEdit,
    ConfigResource,
    FullChange,
    IncrementalChange,
    ResourceType,
    decide_full,
    decide_incremental,
)
from barnabas.cluster.image import Image
from barnabas.cluster.topics import NewTopic, decide_create
from barnabas.model.errors import ErrorCode
from barnabas.ports.coordination import Create, SetData
from barnabas.ports.entropy import Entropy

TOPIC = ConfigResource(ResourceType.TOPIC, "t")
THIS_BROKER = ConfigResource(ResourceType.BROKER, "0")
ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")
SET, DELETE, APPEND, SUBTRACT = AlterOp


@pytest.fixture
def image(make_image: Callable[..., Image], entropy: Entropy) -> Image:
    topics = [NewTopic("t", configs={"retention.ms": "5"}), NewTopic("u")]
    return decide_create(make_image(), topics, entropy, 1).image


def edited(image: Image, resource: ConfigResource, *edits: ConfigEdit) -> Image:
    decision = decide_incremental(image, [IncrementalChange(resource, edits)], 0)
    assert decision.results == [AlterResult(resource)]
    return decision.image


def refusal(image: Image, resource: ConfigResource, *edits: ConfigEdit) -> tuple[ErrorCode, str]:
    decision = decide_incremental(image, [IncrementalChange(resource, edits)], 0)
    assert decision.image == image
    assert not decision.operations
    assert not changes_between(image, decision.image)
    (result,) = decision.results
    return result.code, result.message or ""


def test_setting_and_unsetting_a_topics_key(image: Image) -> None:
    after = edited(
        image, TOPIC, ConfigEdit("segment.ms", SET, "9"), ConfigEdit("retention.ms", DELETE)
    )
    topic = after.topics["t"]
    assert topic.overrides == {"segment.ms": "9"}
    assert (topic.config.segment_ms, topic.config.retention_ms) == (9, 604_800_000)
    assert after.topics_by_id[topic.id_bytes] is topic


def test_lists_can_be_extended_and_shortened(image: Image) -> None:
    both = edited(image, TOPIC, ConfigEdit("cleanup.policy", APPEND, "compact"))
    assert both.topics["t"].overrides["cleanup.policy"] == "delete,compact"
    again = edited(both, TOPIC, ConfigEdit("cleanup.policy", APPEND, "compact,delete"))
    assert again.topics["t"].overrides == both.topics["t"].overrides
    one = edited(both, TOPIC, ConfigEdit("cleanup.policy", SUBTRACT, "delete"))
    assert one.topics["t"].config.cleanup_policy == {"compact"}
    none = edited(one, TOPIC, ConfigEdit("cleanup.policy", SUBTRACT, "compact"))
    assert none.topics["t"].config.cleanup_policy == frozenset()


def test_the_old_request_replaces_everything(image: Image) -> None:
    decision = decide_full(image, [FullChange(TOPIC, [("segment.ms", "9")])], 0)
    topic = decision.image.topics["t"]
    assert topic.overrides == {"segment.ms": "9"}
    assert changes_between(image, decision.image) == [TopicConfigChanged(topic)]
    (write,) = decision.operations
    assert isinstance(write, SetData)
    assert write.path == "/config/topics/t"


def test_a_change_that_changes_nothing_writes_nothing(image: Image) -> None:
    change = IncrementalChange(TOPIC, [ConfigEdit("retention.ms", SET, "5")])
    decision = decide_incremental(image, [change], 0)
    assert decision.results == [AlterResult(TOPIC)]
    assert (decision.image, decision.operations) == (image, [])


@pytest.mark.parametrize(
    ("edit", "code", "words"),
    [
        (ConfigEdit("retention.ms", SET, "x"), ErrorCode.invalid_config, "Not a number"),
        (ConfigEdit("nope", SET, "x"), ErrorCode.invalid_config, "Unknown topic config"),
        (ConfigEdit("retention.ms", APPEND, "1"), ErrorCode.invalid_config, "not LIST"),
        (ConfigEdit("nope", SUBTRACT, "1"), ErrorCode.invalid_config, "not LIST"),
        (ConfigEdit("cleanup.policy", SET, "x" * 40_000), ErrorCode.invalid_config, "longer"),
        (ConfigEdit("retention.ms", SET), ErrorCode.invalid_request, "Null value"),
        (ConfigEdit("retention.ms", 9, "1"), ErrorCode.invalid_request, "operations type 9"),
    ],
)
def test_what_a_topic_can_not_have_is_refused(
    image: Image, edit: ConfigEdit, code: ErrorCode, words: str
) -> None:
    found, message = refusal(image, TOPIC, edit)
    assert found is code
    assert words in message


@pytest.mark.parametrize(
    ("resource", "edit", "words"),
    [
        (THIS_BROKER, ConfigEdit("listeners", SET, "x"), "dynamically: [listeners]"),
        (THIS_BROKER, ConfigEdit("nope", SET, "x"), "Unknown broker config name: nope"),
        (THIS_BROKER, ConfigEdit("log.retention.ms", SET, "x"), "Not a number"),
        (ALL_BROKERS, ConfigEdit("log.retention.ms", SET, "0"), "at least 1"),
    ],
)
def test_what_a_broker_can_not_have_is_an_invalid_request(
    image: Image, resource: ConfigResource, edit: ConfigEdit, words: str
) -> None:
    found, message = refusal(image, resource, edit)
    assert found is ErrorCode.invalid_request
    assert words in message


def test_only_lists_of_a_broker_can_be_extended(image: Image) -> None:
    found, _ = refusal(image, THIS_BROKER, ConfigEdit("log.retention.ms", APPEND, "1"))
    assert found is ErrorCode.invalid_config
    after = edited(image, THIS_BROKER, ConfigEdit("log.cleanup.policy", APPEND, "compact"))
    assert after.topics["u"].config.cleanup_policy == {"compact", "delete"}


@pytest.mark.parametrize(
    ("type_", "name", "code", "words"),
    [
        (2, "x", ErrorCode.unknown_topic_or_partition, "The topic 'x' does not exist."),
        (2, "", ErrorCode.invalid_request, "Default topic resources are not allowed."),
        (2, "/", ErrorCode.invalid_topic_exception, "Topic name is invalid"),
        (4, "7", ErrorCode.invalid_request, "expected 0, but received 7"),
        (4, "x", ErrorCode.invalid_request, "must be an integer, but it is: x"),
        (8, "0", ErrorCode.invalid_request, "Unknown resource type 8"),
    ],
)
def test_only_known_topics_and_this_broker_can_be_altered(
    image: Image, type_: int, name: str, code: ErrorCode, words: str
) -> None:
    edit = ConfigEdit("compression.type", SET, "zstd")
    found, message = refusal(image, ConfigResource(type_, name), edit)
    assert found is code
    assert words in message


def test_a_resource_changes_as_a_whole_or_not_at_all(image: Image) -> None:
    good, bad = ConfigEdit("segment.ms", SET, "9"), ConfigEdit("flush.ms", SET, "x")
    assert refusal(image, TOPIC, good, bad)[0] is ErrorCode.invalid_config


def test_a_key_named_twice_is_refused(image: Image) -> None:
    edit = ConfigEdit("segment.ms", SET, "9")
    assert refusal(image, TOPIC, edit, edit) == (
        ErrorCode.invalid_request,
        "Error due to duplicate config keys",
    )


def test_settings_that_contradict_each_other_are_refused(image: Image) -> None:
    lag = edited(image, TOPIC, ConfigEdit("max.compaction.lag.ms", SET, "5"))
    code, _ = refusal(lag, TOPIC, ConfigEdit("min.compaction.lag.ms", SET, "6"))
    assert code is ErrorCode.invalid_config
    code, _ = refusal(
        image,
        ALL_BROKERS,
        ConfigEdit("log.cleaner.min.compaction.lag.ms", SET, "6"),
        ConfigEdit("log.cleaner.max.compaction.lag.ms", SET, "5"),
    )
    assert code is ErrorCode.invalid_request


def test_a_resource_named_twice_is_refused_both_times_and_others_go_on(image: Image) -> None:
    other = ConfigResource(ResourceType.TOPIC, "u")
    edits = [ConfigEdit("segment.ms", SET, "9")]
    decision = decide_incremental(
        image, [IncrementalChange(each, edits) for each in (TOPIC, other, TOPIC)], 0
    )
    assert [each.code for each in decision.results] == [
        ErrorCode.invalid_request,
        ErrorCode.none,
        ErrorCode.invalid_request,
    ]
    assert decision.image.topics["t"] == image.topics["t"]
    assert decision.image.topics["u"].config.segment_ms == 9


def test_a_brokers_default_moves_the_topics_that_use_it(image: Image) -> None:
    change = IncrementalChange(ALL_BROKERS, [ConfigEdit("log.retention.ms", SET, "88")])
    decision = decide_incremental(image, [change], 0)
    after = decision.image
    assert after.config.default_topic_config.retention_ms == 88
    assert after.topics["u"].config.retention_ms == 88
    assert after.topics["t"].config.retention_ms == 5
    assert changes_between(image, decision.image) == [
        BrokerConfigChanged(after.config),
        TopicConfigChanged(after.topics["u"]),
    ]
    assert [each.path for each in decision.operations] == ["/config/brokers/<default>"]
    assert isinstance(decision.operations[0], Create)


def test_one_broker_wins_over_all_and_its_setting_can_be_withdrawn(image: Image) -> None:
    for_all = edited(image, ALL_BROKERS, ConfigEdit("max.connections", SET, "50"))
    for_one = edited(for_all, THIS_BROKER, ConfigEdit("max.connections", SET, "60"))
    assert for_one.config.max_connections == 60
    assert for_one.broker_overrides == {
        "<default>": {"max.connections": "50"},
        "0": {"max.connections": "60"},
    }
    change = IncrementalChange(THIS_BROKER, [ConfigEdit("max.connections", DELETE)])
    decision = decide_incremental(for_one, [change], 0)
    assert decision.image.config.max_connections == 50
    assert isinstance(decision.operations[0], SetData)


def test_unsetting_what_is_not_there_is_taken_as_kafka_takes_it(image: Image) -> None:
    for resource, key in ((TOPIC, "no.such"), (THIS_BROKER, "no.such"), (THIS_BROKER, "listeners")):
        decision = decide_incremental(
            image, [IncrementalChange(resource, [ConfigEdit(key, DELETE)])], 0
        )
        assert decision.results[0].code is ErrorCode.none
        assert decision.image.topics == image.topics
        assert not decision.image.broker_overrides.get("0")


def test_the_old_request_works_for_brokers_too(image: Image) -> None:
    first = decide_full(image, [FullChange(THIS_BROKER, [("max.connections", "7")])], 0).image
    second = decide_full(first, [FullChange(THIS_BROKER, [("log.roll.ms", "8")])], 0).image
    assert second.config.max_connections == image.config.max_connections
    assert second.topics["u"].config.segment_ms == 8
    nulls = decide_full(second, [FullChange(THIS_BROKER, [("log.roll.ms", None)])], 0)
    assert nulls.results[0].code is ErrorCode.invalid_request


def test_settings_of_a_broker_that_is_away_are_taken_while_it_has_some(image: Image) -> None:
    away = ConfigResource(ResourceType.BROKER, "7")
    cordon = ConfigEdit("cordoned.log.dirs", SET, "*")
    code, _ = refusal(image, away, cordon)
    assert code is ErrorCode.invalid_request
    cordoned = replace(image, broker_overrides={"7": {"cordoned.log.dirs": "*"}})
    after = edited(cordoned, away, ConfigEdit("cordoned.log.dirs", DELETE, None))
    assert after.broker_overrides["7"] == {}
