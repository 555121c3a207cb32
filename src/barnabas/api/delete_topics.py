"""DeleteTopics: v1-6

Behaviour: each topic goes or is refused by itself; a name or id asked for twice is refused. The
topic is gone when the answer is sent; its files follow after `file.delete.delay.ms`.

Version notes: v3 TOPIC_DELETION_DISABLED instead of INVALID_REQUEST. v4 flexible. v5 messages.
v6 topic ids.
"""

import uuid
from typing import Final

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse

from barnabas.api.commits import results_of
from barnabas.api.context import Call
from barnabas.api.shared import message_of
from barnabas.api.typed import NO_THROTTLE, TopicName
from barnabas.cluster.topics import TopicResult
from barnabas.model.errors import ErrorCode, KafkaError

_DISABLED_FROM: Final = 3


async def handle(call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """One result for each different topic."""
    refused: dict[DeleteTopicState, DeletableTopicResult] = {}
    wanted: list[str | uuid.UUID] = []
    for each in request.topics:
        if each.name is not None and each.topic_id is not None:
            refused[each] = _malformed(each, "You may not specify both topic name and topic id.")
        elif each.topic_id is not None:
            wanted.append(each.topic_id)
        elif each.name is not None:
            wanted.append(each.name)
        else:
            refused[each] = _malformed(each, "Neither topic name nor id were specified.")
    results = await results_of(
        call.services.cluster.delete_topics(wanted),
        lambda error: [_not_deleted(each, error) for each in dict.fromkeys(wanted)],
    )
    return DeleteTopicsResponse(
        throttle_time=NO_THROTTLE,
        responses=(
            *refused.values(),
            *(
                _result(each.name, each.topic_id, _told(call.version, each.code), each.message)
                for each in results
            ),
        ),
    )


def _not_deleted(topic: str | uuid.UUID, error: KafkaError) -> TopicResult:
    if isinstance(topic, str):
        return TopicResult(topic, error.code, error.message)
    return TopicResult(None, error.code, error.message, topic_id=topic)


def _told(version: int, code: ErrorCode) -> ErrorCode:
    if code is ErrorCode.topic_deletion_disabled and version < _DISABLED_FROM:
        return ErrorCode.invalid_request
    return code


def _malformed(asked: DeleteTopicState, problem: str) -> DeletableTopicResult:
    return _result(asked.name, asked.topic_id, ErrorCode.invalid_request, problem)


def _result(
    name: str | None, topic_id: uuid.UUID | None, code: ErrorCode, message: str | None
) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=None if name is None else TopicName(name),
        topic_id=topic_id,
        error_code=code,
        error_message=message_of(code, message),
    )
