"""What the suites ask a broker by raw requests: topics, configs, whole partitions."""

import time
from collections.abc import Mapping
from typing import Any, Final

from tests.compat.raw import from_plain, to_plain

from barnabas.link.sync import Link
from barnabas.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.fetch_client import encode_fetch_request
from barnabas.wire.headers import request_header
from barnabas.wire.messages import newest_type
from barnabas.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from barnabas.wire.records.record import NewRecord, encode_batch

Place = tuple[str, int]
"""A topic's name and a partition's number."""

FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
INIT_PRODUCER_ID: Final = 22
DESCRIBE_CONFIGS: Final = 32
INCREMENTAL_ALTER_CONFIGS: Final = 44
_NEWEST: Final = {2: 11, 3: 13, 19: 7, 20: 6, 22: 5, 32: 4, 44: 1}
_TOPIC_RESOURCE: Final = 2
_FETCH_BYTES: Final = 8 * 1024 * 1024
_FETCH_VERSION: Final = 12
_PRODUCE_VERSION: Final = 12


class RefusedError(Exception):
    """The broker said no; the message is Kafka's name of the error."""


def ask(link: Link, key: int, body: Mapping[str, Any]) -> dict[str, Any]:
    """Ask one API at its newest version: dictionary in, dictionary out."""
    request = from_plain(newest_type(key, "request"), dict(body))
    answer: dict[str, Any] = to_plain(link.call(key, _NEWEST[key], request))
    return answer


def _accept(row: Mapping[str, Any]) -> None:
    if row["error_code"] != "NONE":
        raise RefusedError(row["error_code"])


def create_topic(
    link: Link, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    """Create a topic with one replica."""
    rows = [{"name": key, "value": value} for key, value in (configs or {}).items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": rows}
    answer = ask(link, CREATE_TOPICS, {"topics": [topic], "timeout": 10_000})
    _accept(answer["topics"][0])


def delete_topic(link: Link, name: str) -> None:
    """Delete a topic by name."""
    answer = ask(link, DELETE_TOPICS, {"topics": [{"name": name, "topic_id": None}]})
    _accept(answer["responses"][0])


def set_config(link: Link, topic: str, key: str, value: str) -> None:
    """Set one key of a topic."""
    change = {"name": key, "config_operation": 0, "value": value}
    resource = {"resource_type": _TOPIC_RESOURCE, "resource_name": topic, "configs": [change]}
    answer = ask(link, INCREMENTAL_ALTER_CONFIGS, {"resources": [resource]})
    _accept(answer["responses"][0])


def config_of(link: Link, topic: str, key: str) -> str | None:
    """One key of a topic as the broker describes it."""
    resource = {
        "resource_type": _TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": [key],
    }  # fmt: skip
    (result,) = ask(link, DESCRIBE_CONFIGS, {"resources": [resource]})["results"]
    _accept(result)
    value: str | None = result["configs"][0]["value"]
    return value


def topics(link: Link) -> dict[str, dict[str, Any]]:
    """Every topic by name, as Metadata describes it."""
    answer = ask(link, METADATA, {"topics": None, "allow_auto_topic_creation": False})
    return {topic["name"]: topic for topic in answer["topics"]}


def leader_epochs(link: Link) -> dict[Place, int]:
    """The leader epoch of every partition."""
    return {
        (name, row["partition_index"]): row["leader_epoch"]
        for name, topic in topics(link).items()
        for row in topic["partitions"]
    }


def new_producer_id(link: Link) -> tuple[int, int]:
    """A producer id and its epoch."""
    answer = ask(link, INIT_PRODUCER_ID, {"transactional_id": None})
    _accept(answer)
    return answer["producer_id"], answer["producer_epoch"]


def offset_of(link: Link, place: Place, timestamp: int, *, committed: bool = False) -> int:
    """An offset by time: -1 asks for the end (of what is committed), -2 for the start."""
    row = {"partition_index": place[1], "timestamp": timestamp}
    topics = [{"name": place[0], "partitions": [row]}]
    body = {"replica_id": -1, "isolation_level": int(committed), "topics": topics}
    (result,) = ask(link, LIST_OFFSETS, body)["topics"][0]["partitions"]
    _accept(result)
    offset: int = result["offset"]
    return offset


def batch_of(
    *values: bytes | None, codec: int = 0, producer: tuple[int, int, int] | None = None
) -> bytes:
    """A batch of records without keys; `producer` is (id, epoch, base sequence)."""
    now_ms = int(time.time() * 1000)
    records: list[NewRecord] = [(now_ms, None, value, []) for value in values]
    number, epoch, sequence = producer or (-1, -1, -1)
    return encode_batch(
        records, codec=codec, producer_id=number, producer_epoch=epoch, base_sequence=sequence
    )


def produce_request(place: Place, batch: bytes | None, acks: int = -1) -> ProduceRequest:
    """A Produce request for one partition."""
    records = None if batch is None else memoryview(bytearray(batch))
    topic = ProduceTopic(place[0], None, [ProducePartition(place[1], records)])
    return ProduceRequest(None, acks, 30_000, [topic])


def produce(link: Link, place: Place, batch: bytes) -> int:
    """Append a batch; its first offset."""
    answer = link.produce(_PRODUCE_VERSION, produce_request(place, batch))
    if answer is None:
        raise RefusedError("no answer")
    result = answer.topics[0].partitions[0]
    if result.error:
        raise RefusedError(_error_name(result.error))
    return result.base_offset


def _error_name(code: int) -> str:
    from barnabas.model.errors import ErrorCode

    return ErrorCode(code).name.upper()


def _fetch_request(place: Place, offset: int, max_bytes: int) -> FetchRequest:
    part = FetchPartition(place[1], -1, offset, -1, -1, max_bytes)
    topic = FetchTopic(place[0], None, [part])
    return FetchRequest(-1, -1, 0, 0, max_bytes, 0, 0, -1, [topic], [])


def fetch_frame(place: Place, offset: int) -> bytes:
    """The frame of a Fetch, for whoever sends frames."""
    body = encode_fetch_request(_FETCH_VERSION, _fetch_request(place, offset, _FETCH_BYTES))
    return request_header(FETCH, _FETCH_VERSION, 0) + body


def fetch(link: Link, place: Place, offset: int, max_bytes: int = _FETCH_BYTES) -> bytes:
    """What lies at an offset, at least one batch; empty at the end."""
    answer = link.fetch(_FETCH_VERSION, _fetch_request(place, offset, max_bytes))
    result = answer.topics[0].partitions[0]
    if result.error:
        raise RefusedError(_error_name(result.error))
    return bytes(result.records or b"")
