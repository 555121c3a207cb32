"""What DescribeConfigs is told of topics and brokers."""

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.broker_keys import BROKER_KEYS
from barnabas.config.describe import (
    Described,
    DescribedSynonym,
    describe_broker,
    describe_broker_defaults,
    describe_topic,
)
from barnabas.config.keys import ConfigSource, ConfigType
from barnabas.config.topic_keys import TOPIC_KEYS

CONFIG = BrokerConfig(
    {"log.segment.bytes": "3000000", "log.retention.hours": "1"},
    {"log.segment.bytes": "4000000"},
    {"log.segment.bytes": "5000000"},
)


def topic_entry(name: str, **overrides: str) -> Described:
    dotted = {key.replace("_", "."): value for key, value in overrides.items()}
    return {each.name: each for each in describe_topic(dotted, CONFIG)}[name]


def test_a_topic_shows_every_key_but_the_internal_ones() -> None:
    names = [each.name for each in describe_topic({}, CONFIG)]
    assert names == [key.name for key in TOPIC_KEYS.values() if not key.internal]


def test_synonyms_go_from_strongest_to_weakest() -> None:
    entry = topic_entry("segment.bytes", segment_bytes=" 2000000")
    assert entry.value == "2000000"
    assert entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert entry.type is ConfigType.INT
    assert not entry.read_only
    assert entry.synonyms == (
        DescribedSynonym("segment.bytes", "2000000", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        DescribedSynonym("log.segment.bytes", "5000000", ConfigSource.DYNAMIC_BROKER_CONFIG),
        DescribedSynonym(
            "log.segment.bytes", "4000000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        ),
        DescribedSynonym("log.segment.bytes", "3000000", ConfigSource.STATIC_BROKER_CONFIG),
        DescribedSynonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG),
    )


def test_without_its_own_setting_a_topic_shows_the_brokers() -> None:
    entry = topic_entry("segment.bytes")
    assert (entry.value, entry.source) == ("5000000", ConfigSource.DYNAMIC_BROKER_CONFIG)


def test_synonyms_in_other_units_are_shown_only_below_the_key_itself() -> None:
    entry = topic_entry("retention.ms")
    assert (entry.value, entry.source) == ("3600000", ConfigSource.DEFAULT_CONFIG)
    assert entry.synonyms == ()


def test_a_broker_shows_every_key() -> None:
    entries = {each.name: each for each in describe_broker(CONFIG)}
    assert list(entries) == [name for name, key in BROKER_KEYS.items() if not key.internal]
    assert entries["log.segment.bytes"].value == "5000000"
    assert not entries["log.segment.bytes"].read_only
    assert entries["listeners"].read_only
    assert entries["log.retention.hours"].source is ConfigSource.STATIC_BROKER_CONFIG
    assert entries["log.retention.ms"].value is None
    assert entries["num.partitions"].documentation == BROKER_KEYS["num.partitions"].doc


def test_the_defaults_of_all_brokers_show_only_what_was_set_there() -> None:
    (entry,) = describe_broker_defaults(CONFIG)
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert (entry.name, entry.value, entry.source) == ("log.segment.bytes", "4000000", source)
    assert entry.synonyms == (DescribedSynonym("log.segment.bytes", "4000000", source),)
