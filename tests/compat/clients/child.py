"""A client library of another language: a child process that is told what to do in JSON lines.

Requests are objects with "op"; answers are {"ok": ...} or {"error": Kafka's name, "detail": ...}.
Bytes travel as base64. The child ends when its standard input closes.
"""

import base64
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.compat.clients.json_child import ChildRefusal, JsonChild
from tests.compat.port import (
    FETCH_WAIT_MS,
    PRODUCE_BYTES_MAX,
    WAIT_S,
    Change,
    Client,
    ClientError,
    Delivery,
    Message,
    Sending,
    Spec,
    Start,
    Time,
)

ANSWER_WAIT_S: Final = 3 * WAIT_S
SOURCES: Final = Path(__file__).parent


class ChildClient(Client):
    """Passes every call on to the child."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._child = JsonChild(self.name, self.command(), ANSWER_WAIT_S)
        self._ask("connect", bootstrap=bootstrap, max_bytes=PRODUCE_BYTES_MAX)

    @classmethod
    @abstractmethod
    def command(cls) -> list[str]:
        """How to start the child; builds it first where that is needed."""

    def produce(
        self, topic: str, messages: Sequence[Message], sending: Sending | None = None
    ) -> list[Delivery]:
        how = sending or Sending()
        results = self._ask(
            "produce",
            topic=topic,
            codec=how.codec,
            acks=how.acks,
            idempotent=how.idempotent,
            messages=[_to_json(message) for message in messages],
        )
        return [
            Delivery(row.get("partition", -1), row.get("offset", -1), row.get("error"))
            for row in results
        ]

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        start: Start = Spec.EARLIEST,
        wait_s: float = WAIT_S,
        fetch_wait_ms: int = FETCH_WAIT_MS,
    ) -> list[Message]:
        rows = self._ask(
            "consume",
            topic=topic,
            count=count,
            partition=partition,
            start=_start(start),
            wait_ms=int(wait_s * 1000),
            fetch_wait_ms=fetch_wait_ms,
        )
        return [_from_json(row) for row in rows]

    def create_topic(
        self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None
    ) -> None:
        self._ask("create_topic", topic=topic, partitions=partitions, configs=configs or {})

    def delete_topic(self, topic: str) -> None:
        self._ask("delete_topic", topic=topic)

    def topics(self) -> set[str]:
        return set(self._ask("topics"))

    def partitions(self, topic: str) -> int:
        return int(self._ask("partitions", topic=topic))

    def create_partitions(self, topic: str, total: int) -> None:
        self._ask("create_partitions", topic=topic, total=total)

    def configs(self, topic: str) -> dict[str, str | None]:
        return dict(self._ask("configs", topic=topic))

    def alter_config(self, topic: str, key: str, value: str, change: Change = Change.SET) -> None:
        self._ask("alter_config", topic=topic, key=key, value=value, change=change.value)

    def offset(self, topic: str, start: Start, partition: int = 0) -> int | None:
        found = int(self._ask("offset", topic=topic, partition=partition, start=_start(start)))
        return None if found < 0 else found

    def delete_records(self, topic: str, before: int, partition: int = 0) -> int:
        return int(self._ask("delete_records", topic=topic, partition=partition, before=before))

    def brokers(self) -> set[str]:
        return set(self._ask("brokers"))

    def log_dir_bytes(self, topic: str, partition: int = 0) -> int:
        return int(self._ask("log_dir_bytes", topic=topic, partition=partition))

    def producers(self, topic: str, partition: int = 0) -> list[int]:
        return list(self._ask("producers", topic=topic, partition=partition))

    def config_resources(self) -> dict[str, set[str]]:
        found = self._ask("config_resources")
        return {kind: set(names) for kind, names in found.items()}

    def close(self) -> None:
        self._child.close(WAIT_S)

    def _ask(self, op: str, **values: Any) -> Any:
        try:
            return self._child.ask(op, **values)
        except ChildRefusal as refusal:
            raise ClientError(refusal.name, refusal.detail) from None


def _start(start: Start) -> dict[str, Any]:
    if isinstance(start, int):
        return {"offset": start}
    return {"time": start.ms} if isinstance(start, Time) else {"spec": start.value}


def _to_json(message: Message) -> dict[str, Any]:
    return {
        "value": _pack(message.value),
        "key": _pack(message.key),
        "headers": [[name, _pack(value)] for name, value in message.headers],
        "timestamp": message.timestamp,
        "partition": message.partition,
    }


def _from_json(row: dict[str, Any]) -> Message:
    return Message(
        value=_unpack(row["value"]),
        key=_unpack(row["key"]),
        headers=tuple((name, _unpack(value)) for name, value in row["headers"]),
        timestamp=row["timestamp"],
        partition=row["partition"],
        offset=row["offset"],
    )


def _pack(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _unpack(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
