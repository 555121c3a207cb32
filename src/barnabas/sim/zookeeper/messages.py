"""What clients and servers of a simulated ensemble say to each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from barnabas.ports.coordination import Op


class Kind(Enum):
    """What is asked for."""

    GET = "get"
    CHILDREN = "children"
    TREE = "tree"
    SYNC = "sync"
    COMMIT = "commit"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Request:
    """One question on a connection; answers come in the order of the questions."""

    number: int
    kind: Kind
    path: str = "/"
    operations: Sequence[Op] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the question with this number, and how far the member was that gave it."""

    number: int
    value: object
    error: Exception | None
    zxid: int


@dataclass(frozen=True, slots=True)
class Welcome:
    """The answer to a connection: the session it belongs to (0: that one is over)."""

    session: int
    timeout_s: float
    zxid: int
