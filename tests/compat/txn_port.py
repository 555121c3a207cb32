"""What every client library is asked to do with transactions: an adapter each, one table above.

One client has one producer. Values are text, to a partition that is named; what is sent has been
answered when `send` returns.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self

WAIT_S: Final = 60.0
"""How long anything may take that must happen; nothing passes or fails by being quick."""
SILENCE_S: Final = 0.7
"""How long to look when nothing may come."""
TIMEOUT_MS: Final = 60_000
FENCED: Final = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})


class TxnRefusedError(Exception):
    """The library says that it cannot be done."""

    def __init__(self, name: str, detail: str = "") -> None:
        super().__init__(f"{name}: {detail}")
        self.fenced = name in FENCED


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A consume-transform-produce loop: every value comes out with an exclamation mark.

    Partitions keep their numbers. Of every `abort_every` transactions the last is aborted, and
    what was in it is read again.
    """

    source: str
    target: str
    group: str
    count: int
    abort_every: int = 3
    batch: int = 7


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a partition is read."""

    committed: bool = True
    linger_s: float = 0.0
    """How long to look after the last value that must come."""


COMMITTED: Final = Reading()
UNCOMMITTED: Final = Reading(committed=False)
LINGERING: Final = Reading(linger_s=SILENCE_S)


class TxnClient(ABC):
    """One library, with one transactional producer and readers."""

    name: ClassVar[str]
    sends_offsets: ClassVar[bool] = True
    """Whether a user can say which offsets go with a transaction."""
    claims_again: ClassVar[bool] = False
    """Whether it takes its transactional id anew with every transaction."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def open(self, transactional_id: str, timeout_ms: int = TIMEOUT_MS) -> None:
        """Become the producer of this transactional id."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction."""

    @abstractmethod
    def send(self, topic: str, partition: int, values: Sequence[str]) -> None:
        """Write values, and wait until they are answered."""

    @abstractmethod
    def offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Let a group's offsets be part of the transaction."""

    @abstractmethod
    def commit(self) -> None:
        """Commit."""

    @abstractmethod
    def abort(self) -> None:
        """Abort."""

    @abstractmethod
    def read(self, topic: str, partition: int, until: str, how: Reading = COMMITTED) -> list[str]:
        """Everything in a partition, up to and with the value `until` or a while longer."""

    @abstractmethod
    def copy(self, job: Copy, transactional_id: str) -> None:
        """Run a consume-transform-produce loop until `count` records are committed."""

    @abstractmethod
    def close(self) -> None:
        """Go away, whatever is open."""
