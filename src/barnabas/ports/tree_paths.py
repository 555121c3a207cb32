"""The paths of the coordination tree, and how much of it one commit may carry."""

from collections.abc import Sequence
from typing import Final

from barnabas.model.check import require
from barnabas.ports.coordination import Create, Delete, Op, SetData, TooLargeError

COMMIT_BYTES_MAX: Final = 1_000_000
"""ZooKeeper closes the connection when a request is longer than `jute.maxbuffer` (1,048,575 bytes
unless an operator says otherwise), which looks like any other lost answer. So it is never sent."""

_FRAME_BYTES: Final = 128
"""What the protocol adds to path and data of one operation, generously: headers, version, ACL."""


def check_path(path: str) -> None:
    """Raise unless `path` is the path of a node: a wrong one is our own mistake."""
    well_formed = path == "/" or (
        path.startswith("/") and not path.endswith("/") and "//" not in path
    )
    require(well_formed, f"not the path of a node: {path!r}")


def check_operations(operations: Sequence[Op]) -> None:
    """Raise unless every operation has a proper path. The root is there for ever."""
    for operation in operations:
        check_path(operation.path)
        if isinstance(operation, Delete):
            require(operation.path != "/", "the root can not be deleted")


def prefix_of(path: str) -> str:
    """What the path of everything below begins with."""
    return "/" if path == "/" else path + "/"


def parent_of(path: str) -> str:
    """The node above; that of the root is the root."""
    return path.rpartition("/")[0] or "/"


def check_size(operations: Sequence[Op], prefix_bytes: int = 0) -> None:
    """Raise TooLargeError when ZooKeeper would not take these at once."""
    size = 0
    for operation in operations:
        size += _FRAME_BYTES + prefix_bytes + len(operation.path.encode())
        if isinstance(operation, Create | SetData):
            size += len(operation.data)
    if size > COMMIT_BYTES_MAX:
        raise TooLargeError(
            f"{len(operations)} operations of {size} bytes are more than ZooKeeper takes at once "
            f"({COMMIT_BYTES_MAX} bytes); do them in several commits."
        )
