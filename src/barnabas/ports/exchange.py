"""One request and its answer, between the room that carries frames and the room that knows APIs."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

Address: TypeAlias = tuple[str, int]

Frames: TypeAlias = Sequence[bytes | bytearray | memoryview]
"""One answer's pieces, without the 4-byte size. They are sent after the call that returned them,
without being copied: nothing may change them any more, and none may show the request's frame,
whose memory is used again for the next one."""


@final
@dataclass(frozen=True, slots=True)
class Later:
    """The answer has to be waited for; the frame is gone by the time `coroutine` runs.

    `overlaps`: the connection's next requests are dispatched meanwhile, their answers queue
    behind this one, and it is cancelled when the peer goes. Up to `REQUESTS_IN_FLIGHT_MAX` such
    answers can be held at once, so a request whose answer can be large should not overlap.
    Otherwise this connection rests until it is done, and it runs to its end even when the
    peer goes, unless it `only_waits`: then nothing is lost by cancelling it.

    A future serves as well: where somebody else does the work, there needs not be a task to wait.
    """

    coroutine: "Coroutine[Any, Any, Frames | None] | asyncio.Future[Frames | None]"
    overlaps: bool
    only_waits: bool = False


@final
@dataclass(slots=True, eq=False)
class Peer:
    """Who is at the other end of one connection, for as long as it lasts."""

    id: int
    remote: Address
    local: Address
    """Our own address, as this client reached it."""

    software: str = ""
    """What the client calls itself, once it has said so."""

    state: Any = None
    """Whatever the dispatching room wants to remember about this connection."""


Reply: TypeAlias = Frames | Later | None
"""None: this request has no answer (Produce with acks=0)."""

Dispatch: TypeAlias = Callable[[Peer, memoryview], Reply]
"""Handles one frame (without its size), which is writable, and valid only until the call returns.

A DecodeError closes the connection with one line in the log; any other exception does so with
its traceback. Other connections never notice.
"""
