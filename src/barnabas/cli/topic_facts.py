"""What `topic describe` tells: partitions with offsets and sizes, settings with their sources."""

from dataclasses import asdict, dataclass
from typing import Any

from barnabas.cli.client import REQUEST_S, addresses, admin_api
from barnabas.link.sync import Link
from barnabas.model.errors import BarnabasError, DecodeError

_DESCRIBE_LOG_DIRS = 35
_DESCRIBE_LOG_DIRS_VERSION = 4


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition."""

    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]
    start_offset: int
    end_offset: int
    size: int | None
    """Bytes on disk; None when the broker does not tell."""


@dataclass(frozen=True, slots=True)
class ConfigFacts:
    """One setting that is not the default."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic."""

    name: str
    id: str
    partitions: list[PartitionFacts]
    configs: list[ConfigFacts]

    def as_object(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def gather(client: Any, bootstrap: str, topic: Any) -> TopicFacts:
    """Ask the broker for everything about one topic. May raise KafkaException."""
    from confluent_kafka import TopicCollection

    spec = admin_api().OffsetSpec
    name, numbers = topic.topic, sorted(topic.partitions)
    starts = _offsets(client, name, numbers, spec.earliest())
    ends = _offsets(client, name, numbers, spec.latest())
    sizes = _sizes(bootstrap, name)
    described = client.describe_topics(TopicCollection([name]), request_timeout=REQUEST_S)
    return TopicFacts(
        name=name,
        id=_url_safe(str(described[name].result(REQUEST_S).topic_id)),
        partitions=[
            PartitionFacts(
                partition=number,
                leader=topic.partitions[number].leader,
                replicas=list(topic.partitions[number].replicas),
                isr=list(topic.partitions[number].isrs),
                start_offset=starts[number],
                end_offset=ends[number],
                size=sizes.get(number),
            )
            for number in numbers
        ],
        configs=_configs(client, name),
    )


def _offsets(client: Any, topic: str, numbers: list[int], spec: Any) -> dict[int, int]:
    from confluent_kafka import TopicPartition

    asked = {TopicPartition(topic, number): spec for number in numbers}
    answers = client.list_offsets(asked, request_timeout=REQUEST_S)
    return {place.partition: answer.result(REQUEST_S).offset for place, answer in answers.items()}


def _configs(client: Any, topic: str) -> list[ConfigFacts]:
    api = admin_api()
    resource = api.ConfigResource(api.ResourceType.TOPIC, topic)
    answer = client.describe_configs([resource], request_timeout=REQUEST_S)[resource]
    return [
        ConfigFacts(entry.name, entry.value, api.ConfigSource(entry.source).name)
        for entry in answer.result(REQUEST_S).values()
        if entry.source != api.ConfigSource.DEFAULT_CONFIG.value
    ]


def _sizes(bootstrap: str, topic: str) -> dict[int, int]:
    """Bytes of each partition: the one thing confluent-kafka has no question for."""
    from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest

    sizes: dict[int, int] = {}
    host, port = addresses(bootstrap)[0]
    try:
        with Link(host, port, timeout_s=REQUEST_S) as link:
            answer = link.call(
                _DESCRIBE_LOG_DIRS,
                _DESCRIBE_LOG_DIRS_VERSION,
                DescribeLogDirsRequest(topics=None),
            )
    except (OSError, DecodeError) as error:
        raise BarnabasError(f"The broker does not tell the sizes of its logs: {error}.") from error
    for directory in answer.results:
        for found in directory.topics:
            if found.name == topic:
                sizes |= {each.partition_index: each.partition_size for each in found.partitions}
    return sizes


def _url_safe(topic_id: str) -> str:
    """As Kafka and the files write ids; the client library writes plain base64."""
    return topic_id.replace("+", "-").replace("/", "_")
