"""What every client library is asked to do, in one shape: an adapter per library, one table above.

Errors carry Kafka's own names, whatever the library calls them.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar, Final, Self

from kio.schema.errors import ErrorCode

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PRODUCE_BYTES_MAX: Final = 16 << 20
"""The clients' own limit, far above the broker's: the broker shall be the one who refuses."""
WAIT_S: Final = 30.0
"""How long a client may wait for what must come; nothing passes or fails by being quick."""
SILENCE_S: Final = 0.5
"""How long to look when nothing may come."""

FETCH_WAIT_MS: Final = 100
"""How long one fetch may be held by the broker; short, because closing clients wait for it."""

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, kw_only=True)
class Message:
    """A record as a user sees it; a broker fills in offset and, when it is None, the timestamp."""

    value: bytes | None = b""
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int = 0
    offset: int = -1


@dataclass(frozen=True)
class Delivery:
    """What became of one produced message: its place, or the name of Kafka's error."""

    partition: int = -1
    offset: int = -1
    error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Sending:
    """How to produce."""

    codec: str = "none"
    acks: int = -1
    idempotent: bool = False


class Spec(Enum):
    """An offset named by its meaning."""

    EARLIEST = "earliest"
    LATEST = "latest"
    MAX_TIMESTAMP = "max_timestamp"


@dataclass(frozen=True)
class Time:
    """The first offset whose record is not older than this."""

    ms: int


Start = int | Spec | Time


class Change(Enum):
    """What to do to a config key."""

    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    SUBTRACT = "subtract"


class Can(Enum):
    """What some libraries offer and others do not."""

    BINARY_KEYS = auto()
    NULL_HEADER_VALUES = auto()
    DUPLICATE_HEADERS = auto()
    NULL_VALUES = auto()
    EMPTY_VALUES = auto()
    TIMESTAMPS = auto()
    TIMES_OUT_OF_ORDER = auto()
    PLACES = auto()
    ACKS_ZERO = auto()
    IDEMPOTENCE = auto()
    AUTO_CREATION = auto()
    ADMIN = auto()
    ALTER_CONFIGS = auto()
    INCREMENTAL_CONFIGS = auto()
    CREATE_PARTITIONS = auto()
    DELETE_RECORDS = auto()
    LIST_OFFSETS = auto()
    MAX_TIMESTAMP = auto()
    SEEK_TIME = auto()
    OUT_OF_RANGE_RESET = auto()
    INVALID_RECORD_ERROR = auto()
    CONFIG_ERRORS = auto()
    DESCRIBE_CLUSTER = auto()
    DESCRIBE_LOG_DIRS = auto()
    DESCRIBE_PRODUCERS = auto()
    LIST_CONFIG_RESOURCES = auto()


class ClientError(Exception):
    """The broker, or the library, said no."""

    def __init__(self, name: str, detail: str = "") -> None:
        super().__init__(f"{name}: {detail}" if detail else name)
        self.name = name


def error_name(code: int) -> str:
    """Kafka's own name of an error; a library's private error is named by its number."""
    return ErrorCode(code).name.upper() if code in ErrorCode._value2member_map_ else str(code)


class Client(ABC):
    """One library, connected to one broker. Methods outside `can` are never called."""

    name: ClassVar[str]
    codecs: ClassVar[tuple[str, ...]]
    can: ClassVar[frozenset[Can]]

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def twin(self) -> Self:
        """Another one of the same kind, to be used from another thread."""
        return type(self)(self.bootstrap)

    @abstractmethod
    def close(self) -> None:
        """Let go of connections and processes."""

    @abstractmethod
    def produce(
        self, topic: str, messages: Sequence[Message], sending: Sending | None = None
    ) -> list[Delivery]:
        """Send all, in order and in as few batches as the library makes; wait for each."""

    @abstractmethod
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
        """Up to `count` messages of one partition; fewer when the wait is over.

        An offset out of range starts from the earliest.
        """

    def create_topic(
        self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None
    ) -> None:
        """Create it, with one replica."""
        raise NotImplementedError

    def delete_topic(self, topic: str) -> None:
        """Delete it."""
        raise NotImplementedError

    def topics(self) -> set[str]:
        """The names of all."""
        raise NotImplementedError

    def partitions(self, topic: str) -> int:
        """How many it has; UNKNOWN_TOPIC_OR_PARTITION when it is not there."""
        raise NotImplementedError

    def create_partitions(self, topic: str, total: int) -> None:
        """Grow it to this many."""
        raise NotImplementedError

    def configs(self, topic: str) -> dict[str, str | None]:
        """Every config key of a topic with its value."""
        raise NotImplementedError

    def alter_config(self, topic: str, key: str, value: str, change: Change = Change.SET) -> None:
        """Change one key."""
        raise NotImplementedError

    def offset(self, topic: str, start: Start, partition: int = 0) -> int | None:
        """Ask for an offset by meaning or time; None when no record is that young."""
        raise NotImplementedError

    def delete_records(self, topic: str, before: int, partition: int = 0) -> int:
        """Forget what is older; returns the new earliest offset."""
        raise NotImplementedError

    def brokers(self) -> set[str]:
        """host:port of every broker of the cluster."""
        raise NotImplementedError

    def log_dir_bytes(self, topic: str, partition: int = 0) -> int:
        """How many bytes the partition has on disk."""
        raise NotImplementedError

    def producers(self, topic: str, partition: int = 0) -> list[int]:
        """The last sequence number of each producer a partition remembers."""
        raise NotImplementedError

    def config_resources(self) -> dict[str, set[str]]:
        """The names of all resources that have configs, by kind in lower case."""
        raise NotImplementedError
