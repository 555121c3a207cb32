"""Topics that this broker needs are made by the controller, wherever that is."""

from collections.abc import Sequence
from typing import Final

from barnabas.cluster.image import BrokerNode
from barnabas.cluster.topics import NewTopic, TopicResult
from barnabas.link.pool import LinkPool
from barnabas.model.errors import ErrorCode, KafkaError

_CREATE_TOPICS: Final = 19
_VERSION: Final = 7
_TIMEOUT_MS: Final = 30_000


class AskingController:
    """Asks by the protocol, as any client would."""

    def __init__(self, links: LinkPool) -> None:
        self._links = links

    async def create_topics(
        self, controller: BrokerNode, topics: Sequence[NewTopic]
    ) -> list[TopicResult]:
        """One result for each. NOT_CONTROLLER: it could not be asked."""
        try:
            answer = await self._links.call(
                controller.id, _CREATE_TOPICS, _VERSION, _request(topics)
            )
        except OSError as error:
            raise KafkaError(ErrorCode.not_controller, str(error)) from error
        return [
            TopicResult(each.name, each.error_code, each.error_message, topic_id=each.topic_id)
            for each in answer.topics
        ]


def _request(topics: Sequence[NewTopic]) -> object:
    from kio.schema.create_topics.v7.request import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
    )

    from barnabas.api.typed import BrokerId, TopicName, duration, i16, i32

    return CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(
                name=TopicName(new.name),
                num_partitions=i32(new.partitions),
                replication_factor=i16(new.replication_factor),
                assignments=tuple(
                    CreatableReplicaAssignment(
                        partition_index=i32(number), broker_ids=tuple(map(BrokerId, replicas))
                    )
                    for number, replicas in new.assignments
                ),
                configs=tuple(
                    CreatableTopicConfig(name=name, value=value)
                    for name, value in new.configs.items()
                ),
            )
            for new in topics
        ),
        timeout=duration(_TIMEOUT_MS),
        validate_only=False,
    )
