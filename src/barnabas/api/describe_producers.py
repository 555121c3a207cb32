"""DescribeProducers: v0

Behaviour: the producers each partition remembers, with their newest sequence number, and where
the open transaction of each began, if it has one. Only idempotent and transactional producers
leave a trace. Each partition is told once. Followers answer too, of what they have copied.

Version notes: v0 only.
"""

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

from barnabas.api.context import Call, hosted_replica
from barnabas.api.shared import message_of
from barnabas.api.typed import NO_THROTTLE, ProducerId, TopicName, i32, i64
from barnabas.log.producers import Producer
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import check_topic_name


def handle(call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """One answer for each different partition."""
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            TopicResponse(
                name=TopicName(name),
                partitions=tuple(_partition(call, name, index) for index in indexes),
            )
            for name, indexes in wanted.items()
        ),
    )


def _partition(call: Call, name: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(name)
        partition = hosted_replica(call.services.replicas.by_name.get(name), index)
    except KafkaError as error:
        return PartitionResponse(
            partition_index=i32(index),
            error_code=error.code,
            error_message=message_of(error.code, error.message),
            active_producers=(),
        )
    return PartitionResponse(
        partition_index=i32(index),
        error_code=ErrorCode.none,
        active_producers=tuple(_producer(*each) for each in partition.log.producers),
    )


def _producer(producer_id: int, producer: Producer) -> ProducerState:
    return ProducerState(
        producer_id=ProducerId(producer_id),
        producer_epoch=i32(producer.epoch),
        last_sequence=i32(producer.last_sequence),
        last_timestamp=i64(producer.last_timestamp),
        coordinator_epoch=i32(producer.coordinator_epoch),
        current_txn_start_offset=i64(producer.transaction_start),
    )
