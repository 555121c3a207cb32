"""What DescribeConfigs shows of a topic or a broker: every key with its value and its sources."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.broker_keys import BROKER_KEYS, synonyms_of
from barnabas.config.keys import ConfigSource, ConfigType, Key, Update, format_value
from barnabas.config.topic_config import parse_overrides
from barnabas.config.topic_keys import TOPIC_KEYS


@dataclass(frozen=True, slots=True)
class DescribedSynonym:
    """One of the places a value could have come from. A sensitive value is None."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class Described:
    """One key as DescribeConfigs shows it. The first synonym is the one in force."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    is_sensitive: bool
    type: ConfigType
    documentation: str
    synonyms: tuple[DescribedSynonym, ...]


def describe_topic(overrides: Mapping[str, str], config: BrokerConfig) -> Iterator[Described]:
    """Every topic key of a topic with these settings of its own, in alphabetical order."""
    own = parse_overrides(overrides)
    for key in TOPIC_KEYS.values():
        if key.internal and key.name not in own:
            continue
        value = own.get(key.name, config.topic_defaults[key.name])
        synonyms = _broker_synonyms(key.synonyms[0].name, config) if key.synonyms else []
        if key.name in own:
            shown = _shown(key, format_value(value))
            synonyms.insert(0, DescribedSynonym(key.name, shown, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        yield _described(key, format_value(value), synonyms, read_only=False)


def describe_broker(config: BrokerConfig) -> Iterator[Described]:
    """Every broker key as it is in force on this broker, in alphabetical order."""
    for key in BROKER_KEYS.values():
        if key.internal and key.name not in config.static:
            continue
        yield _described(
            key,
            format_value(config[key.name]),
            _broker_synonyms(key.name, config),
            read_only=key.update is Update.READ_ONLY,
        )


def describe_broker_defaults(config: BrokerConfig) -> Iterator[Described]:
    """What was set for every broker at once: the resource with the empty name."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    for name, text in sorted(config.dynamic_default.items()):
        key = BROKER_KEYS[name]
        synonyms = [each for each in _broker_synonyms(name, config) if each.source is source]
        yield _described(key, text, synonyms, read_only=key.update is Update.READ_ONLY)


def _described(
    key: Key, text: str | None, synonyms: list[DescribedSynonym], *, read_only: bool
) -> Described:
    return Described(
        name=key.name,
        value=_shown(key, text),
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        read_only=read_only,
        is_sensitive=key.sensitive,
        type=key.type,
        documentation=key.doc,
        synonyms=tuple(synonyms),
    )


def _broker_synonyms(name: str, config: BrokerConfig) -> list[DescribedSynonym]:
    """Who could supply broker key `name`, strongest first.

    As in Kafka the list begins at the first entry that has the asked name itself: with only
    `log.retention.hours` set, `log.retention.ms` shows no synonyms and the default source.
    """
    names = synonyms_of(name)
    found = [
        DescribedSynonym(each, _shown(BROKER_KEYS[each], layer[each]), source)
        for source, layer in config.layers()
        for each in names
        if each in layer
    ]
    for each in names:
        default = format_value(BROKER_KEYS[each].default)
        if default is not None:
            shown = _shown(BROKER_KEYS[each], default)
            found.append(DescribedSynonym(each, shown, ConfigSource.DEFAULT_CONFIG))
    while found and found[0].name != name:
        found.pop(0)
    return found


def _shown(key: Key, text: str | None) -> str | None:
    return None if key.sensitive else text
