"""What the operator's commands have a cluster do: moves, elections, settings."""

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, Final

from barnabas.cli.brokers import Broker, NoAnswerError, error_name
from barnabas.cli.cluster_link import ALTER_REASSIGNMENTS, BROKER, ClusterLink, timeout
from barnabas.model.errors import BarnabasError, ErrorCode
from barnabas.operating.snapshot import Place

ELECT_LEADERS: Final = 43
INCREMENTAL_ALTER_CONFIGS: Final = 44
_SET, _DELETE = 0, 1
_PREFERRED: Final = 0
_TRIES_S: Final = 30.0
"""So long it is tried again when nobody answers, or nobody is the controller just now."""
_PAUSE_S: Final = 0.5
_LATER: Final = (ErrorCode.not_controller, ErrorCode.request_timed_out)
_NO_NEED: Final = (ErrorCode.none, ErrorCode.election_not_needed)

Settings = Mapping[tuple[int, str], Mapping[str, str | None]]
"""By kind and name: keys to set, or with None to unset."""


class _NotYetError(BarnabasError):
    """The cluster can not do it just now."""


def patiently(link: ClusterLink, order: Callable[[Broker], Any], at: int | None = None) -> Any:
    """Have it done, by any broker or by one; again while nobody answers.

    What is asked for must bear being done twice.
    """
    deadline = time.monotonic() + _TRIES_S
    while True:
        try:
            return link.any(order) if at is None else link.one(at, order)
        except (NoAnswerError, _NotYetError):
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)


def reassign(link: ClusterLink, wanted: Mapping[Place, tuple[int, ...] | None]) -> list[str]:
    """Give partitions other replicas; None takes back what is under way, if anything is.

    What was refused is told, a sentence each; a topic that was deleted is no refusal.
    """
    refused: list[str] = patiently(link, lambda broker: _reassign(broker, wanted))
    return refused


def _reassign(broker: Broker, wanted: Mapping[Place, tuple[int, ...] | None]) -> list[str]:
    from kio.schema.alter_partition_reassignments.v1.request import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )
    from kio.schema.types import BrokerId, TopicName
    from kio.static.primitive import i32

    topics = tuple(
        ReassignableTopic(
            name=TopicName(name),
            partitions=tuple(
                ReassignablePartition(
                    partition_index=i32(place.number),
                    replicas=None if replicas is None else tuple(map(BrokerId, replicas)),
                )
                for place, replicas in some
            ),
        )
        for name, some in groupby(sorted(wanted.items()), key=lambda each: each[0].topic)
    )
    answer = broker.ask(
        ALTER_REASSIGNMENTS,
        AlterPartitionReassignmentsRequest(
            timeout=timeout(), allow_replication_factor_change=False, topics=topics
        ),
    )
    _check("Move replicas", answer.error_code, answer.error_message)
    return refusals(answer, wanted)


def refusals(answer: Any, wanted: Mapping[Place, tuple[int, ...] | None]) -> list[str]:
    """What an answer to AlterPartitionReassignments refuses, a sentence each."""
    found = []
    for topic in answer.responses:
        for each in topic.partitions:
            place = Place(topic.name, each.partition_index)
            ended = each.error_code is ErrorCode.no_reassignment_in_progress
            if each.error_code is ErrorCode.unknown_topic_or_partition or (
                ended and wanted.get(place) is None
            ):
                continue
            try:
                _check(f"Move {place}", each.error_code, each.error_message)
            except _NotYetError:
                raise
            except BarnabasError as error:
                found.append(str(error))
    return found


def elect_preferred(link: ClusterLink, places: Iterable[Place]) -> None:
    """The first replica of each leads from now on, where it is in sync."""
    wanted = sorted(places)
    if wanted:
        patiently(link, lambda broker: _elect(broker, wanted))


def _elect(broker: Broker, wanted: list[Place]) -> None:
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
    from kio.schema.types import TopicName
    from kio.static.primitive import i8, i32

    partitions = tuple(
        TopicPartitions(topic=TopicName(name), partitions=tuple(i32(each.number) for each in some))
        for name, some in groupby(wanted, key=lambda each: each.topic)
    )
    answer = broker.ask(
        ELECT_LEADERS,
        ElectLeadersRequest(
            election_type=i8(_PREFERRED), topic_partitions=partitions, timeout=timeout()
        ),
    )
    _check("Elect leaders", answer.error_code, None)
    for topic in answer.replica_election_results:
        for each in topic.partition_result:
            # One that is not in sync just now, or gone, is no reason to leave the others alone.
            if each.error_code in _LATER:
                _check(
                    f"Elect a leader of {topic.topic}-{each.partition_id}",
                    each.error_code,
                    each.error_message,
                )


def configure(link: ClusterLink, settings: Settings) -> None:
    """Set or unset keys of topics and brokers."""
    wanted = {resource: keys for resource, keys in settings.items() if keys}
    # A Kafka takes a broker's settings at that broker only.
    brokers = [(kind, name) for kind, name in wanted if kind == BROKER and link.knows(int(name))]
    for resource in brokers:
        keys = {resource: wanted.pop(resource)}
        patiently(link, lambda broker, keys=keys: _configure(broker, keys), int(resource[1]))  # type: ignore[misc]
    if wanted:
        patiently(link, lambda broker: _configure(broker, wanted))


def _configure(broker: Broker, settings: Settings) -> None:
    from kio.schema.incremental_alter_configs.v1.request import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )
    from kio.static.primitive import i8

    resources = tuple(
        AlterConfigsResource(
            resource_type=i8(kind),
            resource_name=name,
            configs=tuple(
                AlterableConfig(
                    name=key,
                    config_operation=i8(_DELETE if value is None else _SET),
                    value=value,
                )
                for key, value in keys.items()
            ),
        )
        for (kind, name), keys in settings.items()
    )
    answer = broker.ask(
        INCREMENTAL_ALTER_CONFIGS,
        IncrementalAlterConfigsRequest(resources=resources, validate_only=False),
    )
    for each in answer.responses:
        keys = settings[each.resource_type, each.resource_name]
        # A topic that was deleted meanwhile needs no settings.
        if each.error_code != ErrorCode.unknown_topic_or_partition:
            what = f"Set {', '.join(keys)} of {each.resource_name}"
            _check(what, each.error_code, each.error_message)


def _check(what: str, code: ErrorCode, message: str | None) -> None:
    if code in _LATER:
        raise _NotYetError(f"{what}: the cluster has no controller just now ({error_name(code)}).")
    if code not in _NO_NEED:
        said = f"{message.rstrip('.')}, " if message else ""
        raise BarnabasError(f"{what}: the broker refuses it ({said}{error_name(code)}).")
