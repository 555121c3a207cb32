"""A well-formed request of every API at every version, and where in it the lengths stand.

Built from the same field descriptions as the broker's own reader, but by a writer of our own:
hostile frames begin as these, with a length or some bytes changed.
"""

import struct
from dataclasses import Field, dataclass, fields
from typing import Any, Final, NamedTuple
from uuid import UUID

from tests.chaos.talk import batch_of

from barnabas.api.table import SERVED
from barnabas.wire.apis import APIS, Api
from barnabas.wire.headers import request_header
from barnabas.wire.messages import version_type
from barnabas.wire.primitives import uvarint
from barnabas.wire.tolerant import field_type

CORRELATION_ID: Final = 0x0BADF00D
_CLIENT: Final = "hostile"
_VICTIM: Final = "victim"
_DESTRUCTIVE: Final = frozenset(
    {"delete_topics", "delete_records", "create_partitions", "alter_configs",
     "incremental_alter_configs"}
)  # fmt: skip


class Length(NamedTuple):
    """Where a length stands in a frame, and how it is written there."""

    at: int
    size: int
    kind: str
    """array, string or bytes"""


@dataclass(frozen=True)
class Form:
    """One request, without the length in front."""

    api: Api
    version: int
    frame: bytes
    body_at: int
    lengths: tuple[Length, ...]
    records: tuple[int, int]
    """Where its record batch begins and ends; (0, 0) without one."""

    def __str__(self) -> str:
        return f"{self.api.name} v{self.version}"

    @property
    def is_flexible(self) -> bool:
        """Whether lengths are varints."""
        return self.api.is_flexible(self.version)

    def with_length(self, length: Length, value: int) -> bytes:
        """The frame with another length in that place; -1 is null."""
        if self.is_flexible:
            patch = uvarint(value + 1 & 0xFFFFFFFF)
        else:
            patch = value.to_bytes(2 if length.kind == "string" else 4, "big", signed=True)
        return self.frame[: length.at] + patch + self.frame[length.at + length.size :]


_NO_ID: Final = UUID(int=7)
_BATCH: Final = batch_of(b"hello", b"world")


@dataclass(frozen=True)
class Stage:
    """What the requests are about."""

    topic: str = "target"
    topic_id: UUID = _NO_ID
    batch: bytes = _BATCH


_TEXTS: Final = {"resource_name": "{topic}", "name": "{topic}", "topic": "{topic}"}
_NUMBERS: Final = {
    "acks": -1, "api_key": 0, "config_operation": 0, "count": 2, "coordinator_type": 0,
    "current_leader_epoch": -1, "endpoint_type": 1, "fetch_offset": 0, "leader_epoch": 0,
    "max_bytes": 1 << 20, "min_bytes": 0, "max_wait": 0, "num_partitions": 1, "offset": 0,
    "partition_max_bytes": 1 << 20, "producer_id": -1, "producer_epoch": -1, "replica_id": -1,
    "replication_factor": 1, "resource_type": 2, "response_partition_limit": 100,
    "session_epoch": -1, "timestamp": -1, "last_fetched_epoch": -1, "log_start_offset": -1,
}  # fmt: skip
_NULL_TEXTS: Final = frozenset({"transactional_id", "cluster_id"})
_TRUE: Final = frozenset({"validate_only"})
_EMPTY: Final = frozenset({"assignments"})
"""Arrays that would contradict the numbers beside them."""

_FORMS: Final = {
    "int8": struct.Struct(">b"), "int16": struct.Struct(">h"), "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"), "uint16": struct.Struct(">H"), "float64": struct.Struct(">d"),
    "bool": struct.Struct(">?"), "timedelta_i32": struct.Struct(">i"),
    "timedelta_i64": struct.Struct(">q"), "error_code": struct.Struct(">h"),
}  # fmt: skip


class _Writer:
    """Writes one entity after the header, every array with one element."""

    def __init__(self, api: Api, version: int, stage: Stage) -> None:
        self.out = bytearray(request_header(api.key, version, CORRELATION_ID, _CLIENT))
        self.lengths: list[Length] = []
        self.records = (0, 0)
        self._flexible = api.is_flexible(version)
        self._stage = stage
        self._topic = _VICTIM if api.name in _DESTRUCTIVE else stage.topic

    def entity(self, kind: Any) -> None:
        for field in fields(kind):
            if "tag" not in field.metadata:
                self._field(field, kind.__name__)
        if self._flexible:
            self.out += b"\x00"

    def _field(self, field: Field[Any], owner: str) -> None:
        inner, is_array, is_nullable, is_entity = field_type(field)
        if is_array:
            self._length(0 if field.name in _EMPTY else 1, "array")
            if field.name in _EMPTY:
                return
        elif is_entity and is_nullable:
            self.out += b"\xff"
            return
        if is_entity:
            self.entity(inner)
        else:
            self._primitive(field.metadata["kafka_type"], field.name, owner, is_nullable)

    def _length(self, value: int, kind: str) -> None:
        if self._flexible:
            encoded = uvarint(value + 1)
        else:
            encoded = value.to_bytes(2 if kind == "string" else 4, "big", signed=True)
        self.lengths.append(Length(len(self.out), len(encoded), kind))
        self.out += encoded

    def _primitive(self, kafka_type: str, name: str, owner: str, is_nullable: bool) -> None:
        if kafka_type == "string":
            self._text(name, owner, is_nullable)
        elif kafka_type == "records":
            self._length(len(self._stage.batch), "bytes")
            self.records = len(self.out), len(self.out) + len(self._stage.batch)
            self.out += self._stage.batch
        elif kafka_type == "bytes":
            self._length(2, "bytes")
            self.out += b"by"
        elif kafka_type == "uuid":
            named = "topic" in name and self._topic == self._stage.topic
            self.out += self._stage.topic_id.bytes if named else bytes(16)
        elif kafka_type == "bool":
            self.out.append(name in _TRUE)
        else:
            self.out += _FORMS[kafka_type].pack(_NUMBERS.get(name, 0))

    def _text(self, name: str, owner: str, is_nullable: bool) -> None:
        if is_nullable and name in _NULL_TEXTS:
            self._length(-1, "string")
            return
        if "Config" in owner and name in ("name", "value"):
            text = "retention.ms" if name == "name" else "100000"
        elif "configuration" in name:
            text = "retention.ms"
        else:
            text = _TEXTS.get(name, "{topic}" if "topic" in name else "x")
        encoded = text.format(topic=self._topic).encode()
        self._length(len(encoded), "string")
        self.out += encoded


def form_of(key: int, version: int, stage: Stage) -> Form:
    """The form of one API at one version."""
    api = APIS[key]
    writer = _Writer(api, version, stage)
    body_at = len(writer.out)
    writer.entity(version_type(key, version, "request"))
    return Form(
        api, version, bytes(writer.out), body_at, tuple(writer.lengths), writer.records
    )  # fmt: skip


def served_forms(stage: Stage) -> list[Form]:
    """Every version of every API the broker serves."""
    return [form_of(key, version, stage) for key in SERVED for version in _versions(key)]


def newest_forms(stage: Stage) -> list[Form]:
    """The newest version of every API the broker serves."""
    return [form_of(key, APIS[key].max_version, stage) for key in SERVED]


def other_forms(stage: Stage) -> list[Form]:
    """Every version of every API of Kafka's that the broker does not serve."""
    return [
        form_of(key, version, stage)
        for key in APIS
        if key not in SERVED
        for version in _versions(key)
    ]


def _versions(key: int) -> range:
    return range(APIS[key].min_version, APIS[key].max_version + 1)
