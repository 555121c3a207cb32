"""What the cluster agrees on: a small tree of versioned nodes, as ZooKeeper keeps it.

A single broker keeps the same tree in SQLite; a cluster keeps it in ZooKeeper.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

ANY_VERSION = -1


@dataclass(frozen=True, slots=True)
class Node:
    """What is stored at a path. `version` counts the changes of `data`, from 0."""

    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Create:
    """Make a node; its parent must exist. `ephemeral`: gone when this session ends."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


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


class Coordination(Protocol):
    """The tree. Paths begin with "/" and have no trailing slash; the root "/" always exists."""

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
        """Call `changed` on the loop after anything at or below `path` changed; may coalesce."""
        ...

    async def close(self) -> None:
        """End the session: its ephemeral nodes vanish."""
        ...
