"""What the APIs of transactions say alike."""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import TopicPartition


def require_transactional_id(transactional_id: str) -> None:
    """Raise INVALID_REQUEST for the empty name, which no transaction has."""
    if not transactional_id:
        raise KafkaError(ErrorCode.invalid_request)


def told_code(code: ErrorCode, version: int, fenced_from: int) -> ErrorCode:
    """PRODUCER_FENCED only where the version knows it; before, zombies had another error."""
    if code is ErrorCode.producer_fenced and version < fenced_from:
        return ErrorCode.invalid_producer_epoch
    return code


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """The partitions of each topic, in order."""
    return [
        (name, [index for _, index in group])
        for name, group in groupby(sorted(partitions), key=itemgetter(0))
    ]
