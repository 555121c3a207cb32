"""A topic's typed configuration from its own settings and the broker's."""

import dataclasses

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.topic_config import TopicConfig, validate_overrides
from barnabas.config.topic_keys import TOPIC_KEYS
from barnabas.model.errors import ErrorCode, KafkaError


def test_without_any_setting_it_has_kafkas_defaults() -> None:
    config = TopicConfig()
    assert config.retention_ms == 604_800_000
    assert config.segment_bytes == 1_073_741_824
    assert config.max_message_bytes == 1_048_588
    assert config.cleanup_policy == {"delete"}
    assert (config.deletes, config.compacts) == (True, False)
    assert TopicConfig.from_maps({}) == config
    assert BrokerConfig().default_topic_config == config


def test_every_attribute_is_a_topic_key() -> None:
    for each in dataclasses.fields(TopicConfig):
        assert each.name.replace("_", ".") in TOPIC_KEYS


def test_a_topic_wins_over_the_broker() -> None:
    broker = BrokerConfig({"log.retention.hours": "1", "log.segment.bytes": "2097152"})
    config = TopicConfig.from_maps({"retention.ms": "5"}, broker.topic_defaults)
    assert (config.retention_ms, config.segment_bytes) == (5, 2_097_152)


def test_both_policies_can_hold() -> None:
    config = TopicConfig.from_maps({"cleanup.policy": "compact, delete"})
    assert config.cleanup_policy == {"compact", "delete"}
    assert TopicConfig.from_maps({"cleanup.policy": ""}).cleanup_policy == frozenset()


def test_small_segments_need_the_internal_key() -> None:
    with pytest.raises(KafkaError, match="Value must be at least 1048576"):
        TopicConfig.from_maps({"segment.bytes": "1000"})
    assert TopicConfig.from_maps({"internal.segment.bytes": "1000"}).segment_bytes == 1000


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(KafkaError) as caught:
        TopicConfig.from_maps({"retention": "1"})
    assert caught.value.code is ErrorCode.invalid_config
    assert caught.value.message == "Unknown topic config name: retention"


def test_compaction_lags_must_agree_when_set_but_not_when_read() -> None:
    lags = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}
    with pytest.raises(KafkaError, match=r"must not exceed max\.compaction\.lag\.ms \(9\)"):
        validate_overrides(lags, {})
    assert TopicConfig.from_maps(lags).min_compaction_lag_ms == 10
