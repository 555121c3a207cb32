"""DescribeConfigs: v1-4

Behaviour: the settings of topics, of this broker by its id, or of all brokers by the empty name,
with where each comes from; all keys, or those that are named and exist. The same question asked
twice is answered once. Loggers, client metrics and groups may be asked about, and have no
settings here.

Version notes: v1 sources and synonyms. v3 types and documentation. v4 flexible.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache

from kio.schema.describe_configs.v4.request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

from barnabas.api.context import Call
from barnabas.api.shared import (
    UNKNOWN_ENUM_MESSAGE,
    ResourceType,
    check_broker_name,
    message_of,
)
from barnabas.api.typed import NO_THROTTLE, i8
from barnabas.config.describe import (
    Described,
    describe_broker,
    describe_broker_defaults,
    describe_topic,
)
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import check_topic_name


def handle(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """One result for each different question."""
    # Describing a resource costs far more than naming it: each is described once, however many
    # lists of keys it is asked for with.
    describe = cache(lambda kind, name: tuple(_describe(call, kind, name)))
    return DescribeConfigsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            _result(describe, request, each) for each in dict.fromkeys(request.resources)
        ),
    )


def _result(
    describe: Callable[[int, str], tuple[Described, ...]],
    request: DescribeConfigsRequest,
    asked: DescribeConfigsResource,
) -> DescribeConfigsResult:
    error, message = ErrorCode.none, ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()
    try:
        described = _chosen(asked, describe(asked.resource_type, asked.resource_name))
        configs = tuple(_config(request, each) for each in described)
    except KafkaError as refusal:
        error, message = refusal.code, message_of(refusal.code, refusal.message) or ""
    return DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=configs,
    )


def _describe(call: Call, resource_type: int, name: str) -> Iterator[Described]:
    image = call.services.cluster.image
    match resource_type:
        case ResourceType.TOPIC:
            check_topic_name(name)
            topic = image.topics.get(name)
            if topic is None:
                raise KafkaError(ErrorCode.unknown_topic_or_partition)
            return describe_topic(topic.overrides, image.config)
        case ResourceType.BROKER:
            check_broker_name(name, call.services.node_id)
            return describe_broker(image.config) if name else describe_broker_defaults(image.config)
        case ResourceType.BROKER_LOGGER | ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            return iter(())
        case _:
            raise KafkaError(ErrorCode.invalid_request, UNKNOWN_ENUM_MESSAGE)


def _chosen(asked: DescribeConfigsResource, described: Iterable[Described]) -> Iterator[Described]:
    names = frozenset(asked.configuration_keys or ())
    return (each for each in described if not names or each.name in names)


def _config(request: DescribeConfigsRequest, described: Described) -> DescribeConfigsResourceResult:
    synonyms = described.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=described.name,
        value=described.value,
        read_only=described.read_only,
        config_source=i8(described.source),
        is_sensitive=described.is_sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=each.name, value=each.value, source=i8(each.source))
            for each in synonyms
        ),
        config_type=i8(described.type),
        documentation=described.documentation if request.include_documentation else None,
    )
