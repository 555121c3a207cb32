"""`Message`: one record as a consumer hands it out."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.client.errors import LedgerError, config_error
from barnabas.model.topics import TopicPartition

if TYPE_CHECKING:
    import confluent_kafka

Headers = tuple[tuple[str, bytes | None], ...]
HeadersGiven = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]
"""A mapping, or pairs where a name comes twice."""


class Transaction(Protocol):
    """What a ledger lends to the loop: a DB-API cursor inside the open transaction.

    From SqliteLedger it is a sqlite3.Cursor, from PostgresLedger a psycopg.Cursor.
    """

    @property
    def rowcount(self) -> int:
        """How many rows the last statement touched."""

    def execute(self, sql: Any, parameters: Any = ..., /) -> Any:
        """Run one statement."""

    def executemany(self, sql: Any, parameters: Any, /) -> Any:
        """Run one statement for many rows."""

    def fetchone(self) -> Any:
        """The next row of an answer."""

    def fetchall(self) -> Any:
        """All rows of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One record: where it stands, what it says.

    `timestamp` is in milliseconds since 1970, as Kafka has it; `time` is the same as a datetime.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    opened: Transaction | None = None
    """The transaction of an exactly-once consumer; `transaction` is the way to it."""

    @property
    def place(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def text(self) -> str:
        """The value as UTF-8; "" for a tombstone. UnicodeDecodeError when it is no text."""
        return "" if self.value is None else self.value.decode()

    @property
    def key_text(self) -> str | None:
        """The key as UTF-8."""
        return None if self.key is None else self.key.decode()

    def json(self) -> Any:
        """The value read as JSON; None for a tombstone."""
        return None if self.value is None else json.loads(self.value)

    @property
    def is_tombstone(self) -> bool:
        """Whether the value is null, which deletes the key from a compacted topic."""
        return self.value is None

    @property
    def time(self) -> datetime | None:
        """When it was written, in UTC."""
        return None if self.timestamp is None else from_milliseconds(self.timestamp)

    def header(self, name: str) -> bytes | None:
        """The last header of that name, as in Kafka; None when there is none."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    @property
    def transaction(self) -> Transaction:
        """The open transaction: what is done through it counts exactly once."""
        if self.opened is None:
            raise LedgerError(
                "This message has no transaction: only a consumer with "
                'delivery="exactly-once" and a ledger opens one.'
            )
        return self.opened


def message_from(raw: "confluent_kafka.Message", opened: Transaction | None = None) -> Message:
    """A record as confluent-kafka has it."""
    kind, milliseconds = raw.timestamp()
    return Message(
        topic=raw.topic() or "",
        partition=raw.partition() or 0,
        offset=raw.offset() or 0,
        key=raw.key(),
        value=raw.value(),
        headers=header_pairs(raw.headers() or ()),
        timestamp=milliseconds if kind else None,
        opened=opened,
    )


def header_pairs(given: HeadersGiven) -> Headers:
    """Headers as Kafka has them: pairs, in order, values as bytes."""
    pairs = given.items() if isinstance(given, Mapping) else given
    return tuple(
        (name, value.encode() if isinstance(value, str) else value) for name, value in pairs
    )


def payload(what: str, given: object) -> bytes | None:
    """A key or value as bytes; text becomes UTF-8."""
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return given.encode()
    if not isinstance(given, bytearray | memoryview):
        config_error(
            f"A {what} is bytes, str or None, not {type(given).__name__}: encode it "
            f"(json.dumps(…)), or give the producer a {what}_serializer."
        )
    return bytes(given)


def from_milliseconds(milliseconds: int) -> datetime:
    """Exactly, for any time a datetime can tell."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def to_milliseconds(moment: datetime) -> int:
    """Milliseconds since 1970; a datetime without a zone is refused, because it could be any."""
    if moment.tzinfo is None:
        config_error(
            f"{moment} has no time zone: write datetime(…, tzinfo=UTC), or moment.astimezone()."
        )
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
