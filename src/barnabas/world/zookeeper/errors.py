"""kazoo's exceptions, in the words of the port."""

from collections.abc import Sequence
from typing import Final

from kazoo import exceptions as kazoo
from kazoo.handlers.threading import KazooTimeoutError

from barnabas.ports.coordination import (
    BadVersionError,
    CoordinationError,
    CoordinationLostError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    SessionOverError,
)

_REFUSALS: Final[dict[type[Exception], type[CoordinationError]]] = {
    kazoo.NodeExistsError: NodeExistsError,
    kazoo.NoNodeError: NoNodeError,
    kazoo.BadVersionError: BadVersionError,
    kazoo.NotEmptyError: NotEmptyError,
}

_SAID_NO: Final[dict[type[Exception], str]] = {
    kazoo.NoChildrenForEphemeralsError: "the node above is ephemeral and can not have children",
    kazoo.NoAuthError: "ZooKeeper's ACLs do not allow it: check zookeeper.auth",
    kazoo.InvalidACLError: "ZooKeeper does not know who we are: check zookeeper.auth",
    kazoo.BadArgumentsError: "ZooKeeper takes it for malformed",
    kazoo.MarshallingError: "ZooKeeper takes it for malformed",
    kazoo.UnimplementedError: "this ZooKeeper is too old",
}

_UNKNOWN_OUTCOME: Final = (
    kazoo.ConnectionLoss,
    kazoo.ConnectionClosedError,
    kazoo.OperationTimeoutError,
    kazoo.RequestTimeoutError,
    kazoo.SessionMovedError,
    KazooTimeoutError,
)

_NOT_TO_BLAME: Final = (kazoo.RolledBackError, kazoo.RuntimeInconsistency)
"""What ZooKeeper says of the operations before and after the one that failed."""


def translated(error: BaseException, about: str = "") -> Exception:
    """The port's error for one of kazoo's."""
    # ConnectionClosedError is a SessionExpiredError to kazoo, but nothing has expired.
    if isinstance(error, _UNKNOWN_OUTCOME):
        return CoordinationLostError(f"ZooKeeper gave no answer ({type(error).__name__})")
    if isinstance(error, kazoo.SessionExpiredError | kazoo.AuthFailedError):
        return SessionOverError(f"the ZooKeeper session is over ({type(error).__name__})")
    for kind, ours in _REFUSALS.items():
        if isinstance(error, kind):
            return ours(about)
    for kind, words in _SAID_NO.items():
        if isinstance(error, kind):
            return CoordinationError(f"{about}: {words}")
    # Whatever this is, nobody knows what was done: the careful answer.
    return CoordinationLostError(f"ZooKeeper failed ({error!r})")


def first_failure(operations: Sequence[Op], results: Sequence[object]) -> Exception | None:
    """Which of the operations of a multi failed, and how; None when all were done."""
    for operation, result in zip(operations, results, strict=True):
        if isinstance(result, Exception) and not isinstance(result, _NOT_TO_BLAME):
            return translated(result, operation.path)
    if any(isinstance(result, Exception) for result in results):
        return CoordinationError("ZooKeeper refused without a reason")
    return None
