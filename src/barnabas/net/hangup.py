"""What only the socket knows: that a peer has gone unheard, and that its bytes may go with it."""

import asyncio
import select
import socket
import struct
from typing import Final

_NO_LINGER: Final = struct.pack("ii", 1, 0)
_GONE: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


def has_hung_up(transport: asyncio.BaseTransport) -> bool:
    """Whether the peer has closed its side, also when bytes before that lie unread.

    A transport whose reading is paused does not notice. (Where the system has no POLLRDHUP, only
    a reset is seen.)
    """
    descriptor = _descriptor(transport)
    if descriptor < 0:
        return False
    poller = select.poll()
    poller.register(descriptor, _GONE)
    return any(events & _GONE for _, events in poller.poll(0))


def reset_at_close(transport: asyncio.BaseTransport) -> None:
    """Let the close be a reset: else the kernel keeps megabytes for a peer that never reads."""
    if _descriptor(transport) >= 0:
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)


def _descriptor(transport: asyncio.BaseTransport) -> int:
    """The socket's descriptor; -1 when it is closed already, or none (in a simulation)."""
    sock = transport.get_extra_info("socket")
    return -1 if sock is None else int(sock.fileno())
