"""The keys about groups: Kafka's names and defaults, and what they may not say together."""

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.broker_keys import BROKER_KEYS
from barnabas.config.describe import describe_broker
from barnabas.config.group_settings import GroupSettings
from barnabas.model.errors import ErrorCode, KafkaError


def test_without_any_setting_a_broker_has_the_default_settings() -> None:
    assert BrokerConfig().groups == GroupSettings()


def test_what_is_set_is_what_the_coordinator_reads() -> None:
    config = BrokerConfig(
        {
            "group.min.session.timeout.ms": "10",
            "group.max.session.timeout.ms": "1000",
            "group.initial.rebalance.delay.ms": "0",
            "group.max.size": "7",
            "offset.metadata.max.bytes": "8",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": "2",
            "offsets.topic.segment.bytes": "2097152",
            "offsets.retention.minutes": "2",
            "offsets.retention.check.interval.ms": "500",
            "group.consumer.session.timeout.ms": "50000",
            "group.consumer.heartbeat.interval.ms": "6000",
            "group.consumer.max.size": "9",
            "group.consumer.assignors": "range",
            "group.consumer.regex.refresh.interval.ms": "10000",
        }
    )
    assert config.groups == GroupSettings(
        session_timeout_min_ms=10,
        session_timeout_max_ms=1000,
        initial_rebalance_delay_ms=0,
        max_size=7,
        offset_metadata_max_bytes=8,
        offsets_partitions=4,
        offsets_replication_factor=2,
        offsets_segment_bytes=2097152,
        offsets_retention_ms=120_000,
        offsets_retention_check_interval_ms=500,
        consumer_session_timeout_ms=50000,
        consumer_heartbeat_interval_ms=6000,
        consumer_max_size=9,
        consumer_assignors=("range",),
        consumer_regex_refresh_interval_ms=10000,
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"group.max.size": "0"}, "at least 1"),
        ({"offsets.topic.num.partitions": "0"}, "at least 1"),
        ({"offsets.topic.compression.codec": "3"}, "no codec makes smaller"),
        ({"offset.metadata.max.bytes": "-1"}, "at least 0"),
        ({"group.consumer.regex.refresh.interval.ms": "9999"}, "at least 10000"),
        ({"group.consumer.assignors": ""}, "must not be empty"),
        ({"group.consumer.assignors": "range,range"}, "must not be duplicated"),
        ({"group.consumer.assignors": "org.example.Mine"}, "one of: uniform, range"),
        ({"group.consumer.migration.policy": "bidirectional"}, "only while it is empty"),
        ({"group.coordinator.rebalance.protocols": "classic"}, "always served"),
        ({"offsets.load.buffer.size": "1000"}, "the log's own size"),
        ({"offsets.commit.timeout.ms": "900"}, "as soon as it is written"),
        (
            {"group.min.session.timeout.ms": "2000000"},
            "group.max.session.timeout.ms: must not be less than group.min.session.timeout.ms",
        ),
        (
            {"group.consumer.session.timeout.ms": "44999"},
            "must not be less than group.consumer.min.session.timeout.ms, which is 45000",
        ),
        (
            {"group.consumer.session.timeout.ms": "60001"},
            "group.consumer.max.session.timeout.ms: must not be less than",
        ),
        (
            {"group.consumer.heartbeat.interval.ms": "4999"},
            "must not be less than group.consumer.min.heartbeat.interval.ms, which is 5000",
        ),
        (
            {
                "group.consumer.min.session.timeout.ms": "5000",
                "group.consumer.session.timeout.ms": "5000",
            },
            "must be more than group.consumer.heartbeat.interval.ms, which is 5000",
        ),
    ],
)
def test_what_can_not_be_honoured_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(KafkaError, match=said) as refused:
        BrokerConfig(settings)
    assert refused.value.code is ErrorCode.invalid_config


def test_what_kafka_keeps_to_itself_is_described_only_where_it_is_set() -> None:
    hidden = "group.consumer.regex.refresh.interval.ms"
    described = {each.name for each in describe_broker(BrokerConfig())}
    assert hidden in BROKER_KEYS
    assert hidden not in described
    assert "group.consumer.assignors" in described
    told = BrokerConfig({hidden: "20000"})
    assert hidden in {each.name for each in describe_broker(told)}
