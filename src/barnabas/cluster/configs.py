"""Altering the configuration of topics and brokers: pure decisions from an image to the next."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from barnabas.cluster import layout
from barnabas.cluster.changes import Decision, Write
from barnabas.cluster.image import Image, Topic
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.broker_keys import BROKER_KEYS
from barnabas.config.keys import ConfigType, Key, Update, Value, format_value
from barnabas.config.topic_config import TopicConfig, check_agreement, validate_overrides
from barnabas.config.topic_keys import TOPIC_KEYS
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import check_topic_name
from barnabas.ports.coordination import Create, SetData

VALUE_CHARS_MAX: Final = 32767
"""Kafka's bound of one stored value; appending must not grow one without end."""


class ResourceType(IntEnum):
    """What can be configured here, with the numbers of the protocol."""

    TOPIC = 2
    BROKER = 4


class AlterOp(IntEnum):
    """What IncrementalAlterConfigs can do to a key, with the numbers of the protocol."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A topic by name, a broker by number, or every broker by the empty name."""

    type: int
    name: str


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    """One key of an incremental change. `op` is an AlterOp, or an unknown number to refuse."""

    name: str
    op: int
    value: str | None = None


@dataclass(frozen=True, slots=True)
class IncrementalChange:
    """Edits of some keys; the others stay."""

    resource: ConfigResource
    edits: Sequence[ConfigEdit]


@dataclass(frozen=True, slots=True)
class FullChange:
    """All the settings a resource shall have; those not named are unset (the old AlterConfigs)."""

    resource: ConfigResource
    settings: Sequence[tuple[str, str | None]]


@dataclass(frozen=True, slots=True)
class AlterResult:
    """What became of one resource."""

    resource: ConfigResource
    code: ErrorCode = ErrorCode.none
    message: str | None = None


_Settings = dict[str, str]
_Edit = Callable[[ConfigResource, Mapping[str, str]], _Settings]


def decide_incremental(
    image: Image, requested: Sequence[IncrementalChange], node_id: int
) -> Decision[AlterResult]:
    """One result for each request, in order; a resource changes as a whole or not at all."""
    return _decide(
        image,
        [(each.resource, _incremental_edit(each.edits)) for each in requested],
        node_id,
    )


def decide_full(
    image: Image, requested: Sequence[FullChange], node_id: int
) -> Decision[AlterResult]:
    """As `decide_incremental`, for replacing all of a resource's settings."""
    return _decide(
        image, [(each.resource, _full_edit(each.settings)) for each in requested], node_id
    )


def _decide(
    image: Image, requested: Sequence[tuple[ConfigResource, _Edit]], node_id: int
) -> Decision[AlterResult]:
    times = Counter(resource for resource, _ in requested)
    decision: Decision[AlterResult] = Decision([], image)
    for resource, edit in requested:
        try:
            if times[resource] > 1:
                raise _bad_request("Each resource must appear at most once.")
            decision = _with_change(decision, resource, edit, node_id)
        except KafkaError as error:
            decision.results.append(AlterResult(resource, error.code, error.message or None))
        else:
            decision.results.append(AlterResult(resource))
    return decision


def _with_change(
    so_far: Decision[AlterResult], resource: ConfigResource, edit: _Edit, node_id: int
) -> Decision[AlterResult]:
    if resource.type == ResourceType.TOPIC:
        image, writes = _alter_topic(so_far.image, resource, edit)
    elif resource.type == ResourceType.BROKER:
        image, writes = _alter_broker(so_far.image, resource, edit, node_id)
    else:
        raise _bad_request(f"Unknown resource type {resource.type}")
    return Decision(so_far.results, image, so_far.writes + writes)


_Step = tuple[Image, list[Write]]


def _alter_topic(image: Image, resource: ConfigResource, edit: _Edit) -> _Step:
    if not resource.name:
        raise _bad_request("Default topic resources are not allowed.")
    check_topic_name(resource.name)
    topic = image.topics.get(resource.name)
    settings = edit(resource, topic.overrides if topic else {})
    config = validate_overrides(settings, image.config.topic_defaults)
    if topic is None:
        raise KafkaError(
            ErrorCode.unknown_topic_or_partition, f"The topic '{resource.name}' does not exist."
        )
    if settings == topic.overrides:
        return image, []
    altered = replace(topic, overrides=settings, config=config)
    stored = SetData(layout.topic_config_path(topic.name), layout.encode_config(settings))
    write = Write([stored], config=layout.topic_config_name(topic.name))
    return image.with_topics([altered]), [write]


def _alter_broker(image: Image, resource: ConfigResource, edit: _Edit, node_id: int) -> _Step:
    name = _broker_config_name(resource.name, image, node_id)
    settings = edit(resource, image.broker_overrides.get(name, {}))
    _check_dynamic(settings, for_all=name == layout.DEFAULT_BROKER)
    overrides = {**image.broker_overrides, name: settings}
    # What another broker was started with is not known here; it looks at the result itself.
    _checked_config(image, overrides, str(node_id) if name == layout.DEFAULT_BROKER else name)
    config = _checked_config(image, overrides, str(node_id))
    if image.broker_overrides.get(name) == settings:
        return image, []
    path, data = layout.broker_config_path(name), layout.encode_config(settings)
    stored = SetData(path, data) if name in image.broker_overrides else Create(path, data)
    write = Write([stored], config=layout.broker_config_name(name))
    return with_broker_overrides(image, overrides, config), [write]


def _checked_config(
    image: Image, overrides: Mapping[str, Mapping[str, str]], broker: str
) -> BrokerConfig:
    try:
        config = image.config.with_dynamic(
            overrides.get(layout.DEFAULT_BROKER, {}), overrides.get(broker, {})
        )
        check_agreement(config.default_topic_config)
    except KafkaError as error:
        # Kafka answers so for brokers, though the same mistake on a topic is INVALID_CONFIG
        # (KAFKA-13609); clients have come to expect it.
        raise _bad_request(error.message) from error
    return config


def with_broker_overrides(
    image: Image, overrides: Mapping[str, Mapping[str, str]], config: BrokerConfig
) -> Image:
    """The image with other settings of brokers, under which topics may behave differently."""
    changed = [] if config == image.config else _topics_under(image, config.topic_defaults)
    return replace(image, config=config, broker_overrides=overrides).with_topics(changed)


def _topics_under(image: Image, defaults: Mapping[str, Value]) -> list[Topic]:
    """The topics that behave differently under other broker defaults."""
    changed = []
    for topic in image.topics.values():
        config = TopicConfig.from_maps(topic.overrides, defaults)
        if config != topic.config:
            changed.append(replace(topic, config=config))
    return changed


def _broker_config_name(name: str, image: Image, node_id: int) -> str:
    if not name:
        return layout.DEFAULT_BROKER
    if not name.isascii() or not name.isdigit():
        raise _bad_request(f"Node id must be an integer, but it is: {name}")
    known = {str(node_id), *map(str, image.brokers), *image.broker_overrides}
    if name not in known and not _holds_replicas(image, int(name)):
        raise _bad_request(f"Unexpected broker id, expected {node_id}, but received {name}")
    return name


def _holds_replicas(image: Image, broker: int) -> bool:
    """Whether a broker that is away belongs here all the same."""
    partitions = (each for topic in image.topics.values() for each in topic.partitions)
    return any(broker in each.replicas for each in partitions)


def _check_dynamic(settings: Mapping[str, str], *, for_all: bool) -> None:
    for name in settings:
        key = BROKER_KEYS.get(name)
        if key is None:
            raise _bad_request(f"Unknown broker config name: {name}")
        if key.update is Update.READ_ONLY:
            raise _bad_request(f"Cannot update these configs dynamically: [{name}]")
        if key.update is Update.PER_BROKER and for_all:
            raise _bad_request(f"{name} can only be set for one broker, by its id")


def _full_edit(entries: Sequence[tuple[str, str | None]]) -> _Edit:
    def edit(_resource: ConfigResource, _current: Mapping[str, str]) -> _Settings:
        _check_names([name for name, _ in entries], [n for n, value in entries if value is None])
        return _bounded({name: value for name, value in entries if value is not None})

    return edit


def _incremental_edit(edits: Sequence[ConfigEdit]) -> _Edit:
    def edit(resource: ConfigResource, current: Mapping[str, str]) -> _Settings:
        nulls = [each.name for each in edits if each.op != AlterOp.DELETE and each.value is None]
        _check_names([each.name for each in edits], nulls)
        keys = TOPIC_KEYS if resource.type == ResourceType.TOPIC else BROKER_KEYS
        settings = dict(current)
        for each in edits:
            _apply(settings, each, keys)
        return _bounded(settings)

    return edit


def _check_names(names: Sequence[str], nulls: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise _bad_request("Error due to duplicate config keys")
    if nulls:
        raise _bad_request(f"Null value not supported for : {', '.join(nulls)}")


def _bounded(settings: _Settings) -> _Settings:
    for name, value in settings.items():
        if len(value) > VALUE_CHARS_MAX:
            raise KafkaError(
                ErrorCode.invalid_config,
                f"The value of {name} is longer than {VALUE_CHARS_MAX} characters.",
            )
    return settings


def _apply(settings: _Settings, edit: ConfigEdit, keys: Mapping[str, Key]) -> None:
    value = edit.value or ""
    match edit.op:
        case AlterOp.SET:
            settings[edit.name] = value
        case AlterOp.DELETE:
            # Also a key that does not exist or takes a restart: Kafka looks only at what is left,
            # and clients unset keys without knowing whether they were set.
            settings.pop(edit.name, None)
        case AlterOp.APPEND | AlterOp.SUBTRACT:
            key = keys.get(edit.name)
            if key is None or key.type is not ConfigType.LIST:
                raise KafkaError(
                    ErrorCode.invalid_config,
                    f"Can't {AlterOp(edit.op).name} to key {edit.name} because its type is not "
                    "LIST.",
                )
            before = settings.get(edit.name, format_value(key.default) or "")
            settings[edit.name] = _edited_list(before, value, add=edit.op == AlterOp.APPEND)
        case _:
            raise _bad_request(f"Unknown operations type {edit.op}")


def _edited_list(before: str, given: str, *, add: bool) -> str:
    members = [each for each in before.split(",") if each]
    for each in given.split(","):
        if add and each not in members:
            members.append(each)
        elif not add and each in members:
            members.remove(each)
    return ",".join(members)


def _bad_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
