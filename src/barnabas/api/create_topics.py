"""CreateTopics: v2-7

Behaviour: each topic is created or refused by itself; a name asked for twice is refused. A
created topic is ready for use when the answer is sent, so the request's timeout has no meaning
here. `validate_only` does everything but the creation.

Version notes: v4 defaults for partitions and replication factor (-1). v5 flexible, and the
answer tells counts and settings. v7 topic ids.
"""

from typing import Final

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)

from barnabas.api.commits import results_of
from barnabas.api.context import Call
from barnabas.api.typed import NO_THROTTLE, TopicName, i8, i16, i32
from barnabas.cluster.image import Topic
from barnabas.cluster.topics import NewTopic, TopicResult
from barnabas.config.describe import describe_topic
from barnabas.model import limits
from barnabas.model.errors import ErrorCode

_DETAILS_FROM: Final = 5

_TOO_MANY: Final = f"One request creates at most {limits.CREATE_TOPICS_MAX} topics: split it."


async def handle(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """One result for each different name."""
    names = dict.fromkeys(each.name for each in request.topics)
    if len(names) > limits.CREATE_TOPICS_MAX:
        results = [TopicResult(name, ErrorCode.policy_violation, _TOO_MANY) for name in names]
    else:
        results = await results_of(
            call.services.cluster.create_topics(
                [_new_topic(each) for each in request.topics],
                validate_only=request.validate_only,
                hand_on=False,
            ),
            lambda error: [TopicResult(name, error.code, error.message) for name in names],
        )
    settings = _Settings(call)
    return CreateTopicsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(_result(each, settings) for each in results),
    )


def _new_topic(asked: CreatableTopic) -> NewTopic:
    return NewTopic(
        asked.name,
        asked.num_partitions,
        asked.replication_factor,
        [(each.partition_index, each.broker_ids) for each in asked.assignments],
        {each.name: each.value for each in asked.configs},
    )


class _Settings:
    """Settings as the answer tells them, made once for all topics that are set alike."""

    def __init__(self, call: Call) -> None:
        self._config = call.services.cluster.image.config
        self._told = call.version >= _DETAILS_FROM
        self._made: dict[frozenset[tuple[str, str]], tuple[CreatableTopicConfigs, ...]] = {}

    def of(self, topic: Topic) -> tuple[CreatableTopicConfigs, ...]:
        if not self._told:
            return ()
        key = frozenset(topic.overrides.items())
        if key not in self._made:
            self._made[key] = tuple(
                CreatableTopicConfigs(
                    name=each.name,
                    value=each.value,
                    read_only=each.read_only,
                    config_source=i8(each.source),
                    is_sensitive=each.is_sensitive,
                )
                for each in describe_topic(topic.overrides, self._config)
            )
        return self._made[key]


def _result(result: TopicResult, settings: _Settings) -> CreatableTopicResult:
    topic = result.topic
    if topic is None:
        return CreatableTopicResult(
            name=TopicName(result.name or ""),
            topic_id=None,
            error_code=result.code,
            error_message=result.message,
            configs=(),
        )
    return CreatableTopicResult(
        name=TopicName(topic.name),
        topic_id=topic.id,
        error_code=result.code,
        error_message=None,
        num_partitions=i32(len(topic.partitions)),
        replication_factor=i16(topic.replication_factor),
        configs=settings.of(topic),
    )
