"""Creating, growing and deleting topics: pure decisions from an image to the next."""

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from barnabas.cluster import layout
from barnabas.cluster.changes import Decision, Write
from barnabas.cluster.image import BrokerNode, Image, PartitionState, Topic
from barnabas.cluster.placement import check_assignment, place
from barnabas.config.cluster_keys import CORDONED
from barnabas.config.topic_config import validate_overrides
from barnabas.model import limits
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.topics import INTERNAL_TOPICS, check_topic_name, collision_key
from barnabas.ports.coordination import Create, Delete, Op, SetData
from barnabas.ports.entropy import Entropy

BY_DEFAULT = -1
"""As a count: take the broker's `num.partitions` or `default.replication.factor`."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `assignments` are (partition, replicas) pairs and exclude the counts."""

    name: str
    partitions: int = BY_DEFAULT
    replication_factor: int = BY_DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A topic to grow to `count` partitions; `assignments` are replicas of the new ones."""

    topic: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicResult:
    """What became of one topic. On success `topic` is as it is now (for a deletion: was)."""

    name: str | None
    code: ErrorCode = ErrorCode.none
    message: str | None = None
    topic: Topic | None = None
    topic_id: uuid.UUID | None = None
    """The id asked for or assigned, also where there is no such topic."""


def decide_create(
    image: Image,
    requested: Sequence[NewTopic],
    entropy: Entropy,
    controller_epoch: int,
    partitions_max: int = limits.PARTITIONS_PER_BROKER_MAX,
) -> Decision[TopicResult]:
    """One result for each different name; a name asked for twice is not created at all."""
    twice = _repeated(each.name for each in requested)
    results: list[TopicResult] = []
    created: list[Topic] = []
    room = Room(image, partitions_max)
    for new in {each.name: each for each in requested}.values():
        try:
            if new.name in twice:
                raise KafkaError(ErrorCode.invalid_request, "Duplicate topic name.")
            topic = _new_topic(image, new, room, entropy)
        except KafkaError as error:
            results.append(TopicResult(new.name, error.code, error.message))
            continue
        created.append(topic)
        results.append(TopicResult(topic.name, topic=topic, topic_id=topic.id))
    return Decision(
        results,
        image.with_topics(created),
        [_creation(topic, controller_epoch) for topic in created],
    )


def decide_delete(image: Image, requested: Sequence[str | uuid.UUID]) -> Decision[TopicResult]:
    """One result for each different name or id."""
    twice = _repeated(requested)
    results: list[TopicResult] = []
    gone: dict[str, Topic] = {}
    for wanted in dict.fromkeys(requested):
        try:
            topic = _topic_to_delete(image, wanted, twice)
        except KafkaError as error:
            results.append(
                TopicResult(
                    wanted if isinstance(wanted, str) else None,
                    error.code,
                    error.message or None,
                    topic_id=None if isinstance(wanted, str) else wanted,
                )
            )
            continue
        gone[topic.name] = topic
        results.append(TopicResult(topic.name, topic=topic, topic_id=topic.id))
    return Decision(
        results,
        image.without_topics(gone.values()),
        [_removal(topic) for topic in gone.values()],
    )


def decide_create_partitions(
    image: Image,
    requested: Sequence[NewPartitions],
    entropy: Entropy,
    controller_epoch: int,
    partitions_max: int = limits.PARTITIONS_PER_BROKER_MAX,
) -> Decision[TopicResult]:
    """One result for each different topic."""
    twice = _repeated(each.topic for each in requested)
    results: list[TopicResult] = []
    writes: list[Write] = []
    grown: list[Topic] = []
    room = Room(image, partitions_max)
    for new in {each.topic: each for each in requested}.values():
        try:
            if new.topic in twice:
                raise KafkaError(ErrorCode.invalid_request, "Duplicate topic name.")
            topic, first_new = _grown_topic(image, new, room, entropy)
        except KafkaError as error:
            results.append(TopicResult(new.topic, error.code, error.message or None))
            continue
        grown.append(topic)
        added = _partition_operations(topic, first_new, controller_epoch)
        writes.append(Write([topic_data(topic)], before=added, topic=topic.name))
        results.append(TopicResult(topic.name, topic=topic, topic_id=topic.id))
    return Decision(results, image.with_topics(grown), writes)


class Room:
    """Which names are taken and how much the brokers hold, as the topics of one request come."""

    def __init__(self, image: Image, partitions_max: int) -> None:
        self._partitions_max = partitions_max
        self._topics = image.topics
        self._total = sum(
            len(state.replicas) for topic in image.topics.values() for state in topic.partitions
        )
        self._names = {collision_key(name): name for name in image.topics}
        self._taken = Counter[int]()

    def check_name(self, name: str) -> None:
        """Refuse a name that differs from another only in `.` against `_`."""
        other = self._names.get(collision_key(name), name)
        if other != name:
            raise KafkaError(
                ErrorCode.invalid_topic_exception,
                f"Topic '{name}' collides with existing topic: {other}",
            )

    def take(self, name: str, partitions: Iterable[tuple[int, ...]]) -> None:
        """Count a topic's new partitions, or refuse those that are too many for a broker."""
        wanted = Counter(broker for replicas in partitions for broker in replicas)
        taken = self._taken + wanted
        # Counting replica by replica is slow and only matters near the limit.
        if self._total + taken.total() > self._partitions_max:
            held = self._held()
            for broker in wanted:
                if held[broker] + taken[broker] > self._partitions_max:
                    raise KafkaError(
                        ErrorCode.policy_violation,
                        f"Broker {broker} may hold {self._partitions_max} "
                        f"partition(s), and {wanted[broker]} more do not fit.",
                    )
        self._taken = taken
        self._names[collision_key(name)] = name

    def _held(self) -> Counter[int]:
        return Counter(
            broker
            for topic in self._topics.values()
            for partition in topic.partitions
            for broker in partition.replicas
        )


def _repeated(names: Iterable[str | uuid.UUID]) -> set[str | uuid.UUID]:
    return {name for name, times in Counter(names).items() if times > 1}


def _new_topic(image: Image, new: NewTopic, room: Room, entropy: Entropy) -> Topic:
    check_topic_name(new.name)
    if new.name in image.topics:
        raise KafkaError(ErrorCode.topic_already_exists, f"Topic '{new.name}' already exists.")
    room.check_name(new.name)
    nulls = [name for name, value in new.configs.items() if value is None]
    if nulls:
        raise KafkaError(
            ErrorCode.invalid_config,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    overrides = {name: value for name, value in new.configs.items() if value is not None}
    config = validate_overrides(overrides, image.config.topic_defaults)
    replicas = _assigned(image, new) if new.assignments else _placed(image, new, entropy)
    room.take(new.name, replicas)
    return Topic(
        new.name, _topic_id(entropy), tuple(map(_first_state, replicas)), overrides, config
    )


def _assigned(image: Image, new: NewTopic) -> list[tuple[int, ...]]:
    if new.partitions != BY_DEFAULT or new.replication_factor != BY_DEFAULT:
        raise KafkaError(
            ErrorCode.invalid_request,
            "With a manual partition assignment, the number of partitions and the replication "
            "factor must both be -1.",
        )
    _check_partition_count(len(new.assignments))
    by_number: dict[int, tuple[int, ...]] = {}
    replication_factor: int | None = None
    for number, replicas in new.assignments:
        if number in by_number:
            raise KafkaError(
                ErrorCode.invalid_replica_assignment,
                f"Partition {number} is assigned more than once.",
            )
        check_assignment(replicas, image.brokers.keys(), replication_factor)
        replication_factor = len(replicas)
        by_number[number] = tuple(replicas)
    if set(by_number) != set(range(len(by_number))):
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            "Assigned partitions must be numbered from 0 without gaps.",
        )
    return [by_number[number] for number in range(len(by_number))]


def _placed(image: Image, new: NewTopic, entropy: Entropy) -> list[tuple[int, ...]]:
    if new.replication_factor < BY_DEFAULT or new.replication_factor == 0:
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if new.partitions < BY_DEFAULT or new.partitions == 0:
        raise KafkaError(
            ErrorCode.invalid_partitions,
            "Number of partitions must be larger than 0, or -1 to use the default value.",
        )
    config = image.config
    count = config.num_partitions if new.partitions == BY_DEFAULT else new.partitions
    factor = new.replication_factor
    if factor == BY_DEFAULT:
        factor = config.default_replication_factor
    _check_partition_count(count)
    return place(_staying(image), count, factor, entropy)


def _staying(image: Image) -> list[BrokerNode]:
    """A broker that is about to stop gets nothing new, nor does one that is cordoned."""
    return [
        broker
        for broker in image.brokers.values()
        if not broker.leaving and not image.broker_overrides.get(str(broker.id), {}).get(CORDONED)
    ]


def _check_partition_count(count: int) -> None:
    if count > limits.PARTITIONS_PER_TOPIC_MAX:
        raise KafkaError(
            ErrorCode.invalid_partitions,
            f"A topic has at most {limits.PARTITIONS_PER_TOPIC_MAX} partitions, not {count}.",
        )


def _grown_topic(
    image: Image, new: NewPartitions, room: Room, entropy: Entropy
) -> tuple[Topic, int]:
    topic = image.topics.get(new.topic)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    if topic.name in INTERNAL_TOPICS:
        raise KafkaError(
            ErrorCode.invalid_topic_exception,
            f"What is kept in {topic.name} is found by its number of partitions: with another "
            "number, nothing of it would be found again.",
        )
    present = len(topic.partitions)
    if new.count == present:
        raise KafkaError(ErrorCode.invalid_partitions, f"Topic already has {present} partition(s).")
    if new.count < present:
        raise KafkaError(
            ErrorCode.invalid_partitions,
            f"The topic {topic.name} currently has {present} partition(s); {new.count} would not "
            "be an increase.",
        )
    _check_partition_count(new.count)
    replicas = _additional_replicas(image, topic, new, entropy)
    room.take(new.topic, replicas)
    return replace(topic, partitions=(*topic.partitions, *map(_first_state, replicas))), present


def _additional_replicas(
    image: Image, topic: Topic, new: NewPartitions, entropy: Entropy
) -> list[tuple[int, ...]]:
    additional = new.count - len(topic.partitions)
    if new.assignments is None:
        return place(_staying(image), additional, topic.replication_factor, entropy)
    if len(new.assignments) != additional:
        raise KafkaError(
            ErrorCode.invalid_replica_assignment,
            f"{additional} partition(s) are to be added, but {len(new.assignments)} "
            "assignment(s) were given.",
        )
    for replicas in new.assignments:
        check_assignment(replicas, image.brokers.keys(), topic.replication_factor)
    return [tuple(replicas) for replicas in new.assignments]


def _topic_to_delete(image: Image, wanted: str | uuid.UUID, twice: set[str | uuid.UUID]) -> Topic:
    by_name = isinstance(wanted, str)
    if not image.config.delete_topic_enable:
        raise KafkaError(ErrorCode.topic_deletion_disabled, "Topic deletion is disabled.")
    if wanted in twice:
        raise KafkaError(
            ErrorCode.invalid_request, f"Duplicate topic {'name' if by_name else 'id'}."
        )
    topic = (
        image.topics.get(wanted)
        if isinstance(wanted, str)
        else image.topics_by_id.get(wanted.bytes)
    )
    if topic is None:
        raise KafkaError(
            ErrorCode.unknown_topic_or_partition if by_name else ErrorCode.unknown_topic_id
        )
    return topic


def _topic_id(entropy: Entropy) -> uuid.UUID:
    """As Kafka draws them: none whose short form begins with a dash, which tools take for an
    option."""
    while True:
        drawn = entropy.uuid()
        if not layout.encode_uuid(drawn).startswith("-"):
            return drawn


@lru_cache(maxsize=1024)
def _first_state(replicas: tuple[int, ...]) -> PartitionState:
    return PartitionState(replicas[0], 0, replicas, replicas)


def _creation(topic: Topic, controller_epoch: int) -> Write:
    """The topic's node says that there is none until everything below it is there."""
    return Write(
        before=[
            Create(layout.topic_path(topic.name), layout.encode_pending_topic()),
            Create(layout.partitions_path(topic.name)),
            *_partition_operations(topic, 0, controller_epoch),
        ],
        seen=[
            Create(layout.topic_config_path(topic.name), layout.encode_config(topic.overrides)),
            Create(layout.topic_id_path(topic.id)),
            topic_data(topic),
        ],
        topic=topic.name,
    )


def topic_data(topic: Topic) -> SetData:
    """The topic's own node: which replicas each partition has."""
    states = topic.partitions
    data = layout.encode_topic(
        topic.id,
        (each.replicas for each in states),
        {number: each.adding for number, each in enumerate(states) if each.adding},
        {number: each.removing for number, each in enumerate(states) if each.removing},
    )
    return SetData(layout.topic_path(topic.name), data)


def _partition_operations(topic: Topic, first: int, controller_epoch: int) -> list[Op]:
    operations: list[Op] = []
    for number in range(first, len(topic.partitions)):
        data = layout.encode_state(topic.partitions[number], controller_epoch)
        operations.append(Create(layout.partition_path(topic.name, number)))
        operations.append(Create(layout.state_path(topic.name, number), data))
    return operations


def _removal(topic: Topic) -> Write:
    """The topic's node says that there is none before anything below it goes."""
    after: list[Op] = []
    for number in range(len(topic.partitions)):
        after.append(Delete(layout.state_path(topic.name, number)))
        after.append(Delete(layout.partition_path(topic.name, number)))
    after.append(Delete(layout.partitions_path(topic.name)))
    after.append(Delete(layout.topic_path(topic.name)))
    return Write(
        seen=[
            SetData(layout.topic_path(topic.name), layout.encode_pending_topic()),
            Delete(layout.topic_config_path(topic.name)),
            Delete(layout.topic_id_path(topic.id)),
        ],
        after=after,
        topic=topic.name,
    )
