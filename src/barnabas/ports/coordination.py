"""What the cluster agrees on: a small tree of versioned nodes, as ZooKeeper keeps it.

A single broker keeps the same tree in SQLite; a cluster keeps it in ZooKeeper.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

ANY_VERSION = -1


@dataclass(frozen=True, slots=True)
class Node:
    """What is stored at a path. `version` counts the changes of `data`, from 0.

    `created` is a number that rises from node to node, over all paths and sessions: a node that
    was removed and made again has another one. `owner` is the session that an ephemeral node ends
    with; 0 for any other node.
    """

    data: bytes
    version: int
    created: int = field(default=0, compare=False)
    owner: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Create:
    """Make a node; its parent must exist. `ephemeral`: gone when this session ends.

    `sequence`: ten digits are appended to the path, higher than those of every earlier node that
    was made so under the same parent.
    """

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace a node's data if it still has `version`."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a node without children if it still has `version`."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Require that a node exists with `version`; changes nothing."""

    path: str
    version: int


Op = Create | SetData | Delete | Check


class CoordinationError(Exception):
    """The tree refused, and nothing of the commit was done."""


class NodeExistsError(CoordinationError):
    """Create: there is such a node already."""


class NoNodeError(CoordinationError):
    """There is no such node, or no parent for it."""


class BadVersionError(CoordinationError):
    """Somebody changed the node meanwhile."""


class NotEmptyError(CoordinationError):
    """Delete: the node has children."""


class TooLargeError(CoordinationError):
    """More than the store takes at once: nothing was sent. Do it in several commits."""


class CoordinationLostError(Exception):
    """There was no answer: what was asked for may have been done, or may not, or may yet be."""


class SessionOverError(CoordinationLostError):
    """The session has ended, and its ephemeral nodes with it: `open` begins another."""


class SessionEvent(Enum):
    """What can happen to a session."""

    CONNECTED = "connected"
    """It is in touch with the store, for the first time or again."""
    SUSPENDED = "suspended"
    """It is not. Whether it lives on is for the store to say."""
    OVER = "over"
    """It has ended: everything that depended on it is somebody else's to take."""


class Coordination(Protocol):
    """The tree. Paths begin with "/" and have no trailing slash; the root "/" always exists.

    Everything but `session`, `proven_s` and `listen` raises CoordinationLostError while the store
    can not be reached, and SessionOverError once the session has ended.
    """

    @property
    def session(self) -> int:
        """The number of this session; never 0 once it is open."""
        ...

    @property
    def session_timeout_s(self) -> float:
        """For how long the store keeps a session that it does not hear of."""
        ...

    def proven_s(self) -> float:
        """The latest moment (of the monotonic clock) at which the session is known to have lived:
        when the newest of all requests that were answered had been *sent*."""
        ...

    def listen(self, told: Callable[[SessionEvent], None]) -> None:
        """Call `told` on the loop with what happens to the session, until `close` is called."""
        ...

    async def open(self) -> None:
        """Begin a session: once at the start, and again after one is over.

        Raises BarnabasError, one sentence, when no store answers in time.
        """
        ...

    async def sync(self) -> None:
        """What is read from now on includes all that anybody had committed before this call."""
        ...

    async def get(self, path: str) -> Node | None:
        """The node, or None."""
        ...

    async def children(self, path: str) -> Sequence[str]:
        """Names of the children, sorted; empty when there is no such node."""
        ...

    async def tree(self, path: str) -> Mapping[str, Node]:
        """Every node strictly below `path`, by full path."""
        ...

    async def commit(self, *operations: Op) -> None:
        """Do all of the operations or none, durably. Raises the error of the first that fails."""
        ...

    def watch(self, path: str, changed: Callable[[], None]) -> None:
        """Call `changed` on the loop after the node at `path` came, went or got other data, or a
        child of it came or went; may coalesce, and may call too often: read again and compare.
        What is asked for after a call is answered with the newest, or there is another call.

        Lasts over sessions, and is called after each (re)connection, for what was missed. The node
        need not exist.
        """
        ...

    async def close(self) -> None:
        """End the session: its ephemeral nodes vanish. The last call; a second does nothing."""
        ...
