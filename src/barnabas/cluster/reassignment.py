"""AlterPartitionReassignments: which partitions get other replicas, and what is under way."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from barnabas.cluster.changes import Decision
from barnabas.cluster.image import Image, PartitionState, Topic
from barnabas.cluster.moves import begun, taken_back
from barnabas.cluster.placement import check_assignment
from barnabas.cluster.state_writes import States, decision_on
from barnabas.cluster.topics import Room
from barnabas.model import limits
from barnabas.model.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The replicas that a partition shall have; None: those it had before it was moved."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ReassignmentResult:
    """What became of one of them."""

    topic: str
    partition: int
    code: ErrorCode = ErrorCode.none
    message: str | None = None


def decide_reassignments(
    image: Image,
    wanted: Sequence[Reassignment],
    controller_epoch: int,
    *,
    keeps_factor: bool = False,
    partitions_max: int = limits.PARTITIONS_PER_BROKER_MAX,
) -> Decision[ReassignmentResult]:
    """One result for each of `wanted`, in order. `keeps_factor`: nothing may get more replicas
    than it has, or fewer."""
    times = Counter((each.topic, each.partition) for each in wanted)
    room = Room(image, partitions_max)
    states: States = {}
    results: list[ReassignmentResult] = []
    for each in wanted:
        try:
            if times[each.topic, each.partition] > 1:
                raise KafkaError(ErrorCode.invalid_request, "The partition is named twice.")
            after = _next_state(image, each, room, keeps_factor=keeps_factor)
        except KafkaError as error:
            results.append(
                ReassignmentResult(each.topic, each.partition, error.code, error.message)
            )
            continue
        if after is not None:
            states.setdefault(each.topic, {})[each.partition] = after
        results.append(ReassignmentResult(each.topic, each.partition))
    return decision_on(results, image, states, controller_epoch)


def under_way(
    image: Image, wanted: Sequence[tuple[str, int]] | None
) -> Iterator[tuple[Topic, int, PartitionState]]:
    """The partitions that are being moved, among these; None: of all."""
    if wanted is None:
        wanted = [(t.name, n) for t in image.topics.values() for n in range(len(t.partitions))]
    for name, number in dict.fromkeys(wanted):
        topic = image.topics.get(name)
        if topic is not None and 0 <= number < len(topic.partitions):
            state = topic.partitions[number]
            if state.is_moving:
                yield topic, number, state


def _next_state(
    image: Image, wanted: Reassignment, room: Room, *, keeps_factor: bool
) -> PartitionState | None:
    topic = _topic_of(image, wanted)
    state, min_isr = topic.partitions[wanted.partition], topic.config.min_insync_replicas
    staying = [each.id for each in image.brokers.values() if not each.leaving]
    if wanted.replicas is None:
        after = taken_back(state, staying, min_isr)
        if after is None:
            raise KafkaError(
                ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress."
            )
        return after
    # A replica may stay one though its broker is not there at the moment.
    check_assignment(wanted.replicas, {*image.brokers, *state.settled}, None)
    if keeps_factor and len(wanted.replicas) != len(state.settled):
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"The replication factor is changed from {len(state.settled)} to "
            f"{len(wanted.replicas)}.",
        )
    room.take(wanted.topic, [tuple(set(wanted.replicas) - set(state.replicas))])
    return begun(state, wanted.replicas, staying, min_isr)


def _topic_of(image: Image, wanted: Reassignment) -> Topic:
    topic = image.topics.get(wanted.topic)
    if topic is None:
        raise KafkaError(
            ErrorCode.unknown_topic_or_partition,
            f"Unable to find a topic named {wanted.topic}.",
        )
    if not 0 <= wanted.partition < len(topic.partitions):
        raise KafkaError(
            ErrorCode.unknown_topic_or_partition,
            f"Unable to find partition {wanted.topic}:{wanted.partition}.",
        )
    return topic
