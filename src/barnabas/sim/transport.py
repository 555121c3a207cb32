"""Two ends of a simulated TCP connection, behind asyncio's own transport interface.

Bytes leave the send buffer in segments of any size, travel for a while, and wait at the other
end until the protocol there reads them. No more than WINDOW_BYTES are under way or waiting, so a
reader that pauses is felt by the writer, first as a growing buffer and then as `pause_writing`.
Order is always kept. A reset may overtake and destroy what is still travelling, as TCP's does.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from barnabas.model.check import require

if TYPE_CHECKING:
    from barnabas.sim.network import SimNetwork

WINDOW_BYTES: Final = 64 * 1024
READ_BYTES_MAX: Final = 256 * 1024
_HIGH_WATER_BYTES: Final = 64 * 1024


class _End:
    """The sender will send no more."""


class _Reset:
    """The connection is gone."""


_END: Final = _End()
_RESET: Final = _Reset()


class SimTransport(asyncio.Transport):
    """One end. Protocol callbacks run in `context`, so that tasks they start know their machine."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        network: "SimNetwork",
        context: contextvars.Context,
        *,
        machine: str,
        addresses: tuple[tuple[str, int], tuple[str, int]],
    ) -> None:
        super().__init__({"sockname": addresses[0], "peername": addresses[1]})
        self.machine = machine
        self.on_lost: Callable[[], None] | None = None
        self._loop = loop
        self._network = network
        self._context = context
        self._protocol: asyncio.BaseProtocol | None = None
        self._peer: SimTransport | None = None
        self._outgoing = bytearray()
        self._end_wanted = self._end_sent = False
        self._travelling: deque[tuple[float, bytes | _End | _Reset]] = deque()
        self._travelling_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._arrived = bytearray()
        self._end_arrived = self._end_told = False
        self._reading = True
        self._delivering = False
        self._closing = self._lost = False
        self._muted = False
        self._write_paused = False
        self.set_write_buffer_limits()

    # What the network does with an end.

    def join(self, peer: "SimTransport") -> None:
        """Say where the bytes go."""
        self._peer = peer

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """Give the end its protocol and tell it so."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._deliver_soon()

    def travel_on(self) -> None:
        """Carry what is on the way, now that the machines can reach each other again."""
        if self._travelling and self._timer is None:
            due = max(self._travelling[0][0], self._loop.time())
            self._timer = self._loop.call_at(due, self._land, context=self._network.nowhere)

    def reset(self) -> None:
        """The connection breaks for this end: what it had not read and not sent is gone."""
        self._fail(ConnectionResetError(104, "Connection reset by peer"))

    def mute(self) -> None:
        """The process at this end is dead: its protocol hears nothing more."""
        self._muted = True
        self.abort()

    @property
    def lost(self) -> bool:
        """Whether this end is over."""
        return self._lost

    # asyncio.Transport: reading.

    def is_reading(self) -> bool:
        """Whether data is delivered."""
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        """Deliver nothing until `resume_reading`."""
        self._reading = False

    def resume_reading(self) -> None:
        """Deliver again."""
        self._reading = True
        self._deliver_soon()

    # asyncio.Transport: writing.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send, now or when the window allows. Ignored once closing, as asyncio does."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data must be bytes-like, not {type(data).__name__}")
        if self._end_wanted:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not self._closing:
            self._outgoing += data
            self._send()
            self._check_high_water()

    def can_write_eof(self) -> bool:
        """A half of the connection can be closed."""
        return True

    def write_eof(self) -> None:
        """Say, after what is buffered, that no more will come."""
        if not self._closing and not self._end_wanted:
            self._end_wanted = True
            self._send()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When to pause and resume the protocol's writing."""
        if high is None:
            high = _HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high}) must be >= low ({low}) must be >= 0")
        self._high, self._low = high, low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Low and high water."""
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        """Bytes that have not left yet."""
        return len(self._outgoing)

    # asyncio.Transport: ending.

    def is_closing(self) -> bool:
        """Whether closing or closed."""
        return self._closing

    def close(self) -> None:
        """Read no more, send what is buffered, then end."""
        if not self._closing:
            self._closing = True
            self._arrived.clear()
            self._send()

    def abort(self) -> None:
        """End at once; what is buffered is lost and the other end sees a reset."""
        if not self._lost:
            if self._network.random.random() < 0.5:
                self._travelling.clear()
                self._travelling_bytes = 0
            self._depart(_RESET)
            self._fail(None)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the connection to another protocol."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Whoever is called with what arrives."""
        require(self._protocol is not None, "the transport has no protocol yet")
        return self._protocol  # type: ignore[return-value]

    # Leaving.

    def _other(self) -> "SimTransport":
        require(self._peer is not None, "the transport is not joined to another")
        return self._peer  # type: ignore[return-value]

    def _send(self) -> None:
        """Let go what the window allows; when all is gone, let the end follow."""
        while self._outgoing:
            room = WINDOW_BYTES - self._travelling_bytes - len(self._other()._arrived)
            if room <= 0:
                return
            size = min(len(self._outgoing), room, self._network.segment_bytes())
            segment = bytes(self._outgoing[:size])
            del self._outgoing[:size]
            self._travelling_bytes += size
            self._depart(segment)
        if (self._end_wanted or self._closing) and not self._end_sent:
            self._end_sent = True
            self._depart(_END)
        if self._closing and not self._lost:
            self._lose(None)

    def _latency(self) -> float:
        return self._network.latency(self.machine, self._other().machine)

    def _depart(self, item: bytes | _End | _Reset) -> None:
        # Only the first has a timer, so nothing overtakes: the others wait for those before them.
        self._travelling.append((self._loop.time() + self._latency(), item))
        if not self._network.is_cut(self.machine, self._other().machine):
            self.travel_on()

    def _land(self) -> None:
        """The first of what travels reaches the other end, unless the way is cut."""
        self._timer = None
        other = self._other()
        if not self._travelling or self._network.is_cut(self.machine, other.machine):
            return
        _, item = self._travelling.popleft()
        if isinstance(item, bytes):
            self._travelling_bytes -= len(item)
            if self._network.breaks_now(self):
                return
        other._receive(item)
        self.travel_on()

    def _window_opened(self) -> None:
        if not self._lost:
            self._send()
            if self._write_paused and len(self._outgoing) <= self._low:
                self._write_paused = False
                self._tell("resume_writing", self.get_protocol().resume_writing)

    def _check_high_water(self) -> None:
        if len(self._outgoing) > self._high and not self._write_paused:
            self._write_paused = True
            self._tell("pause_writing", self.get_protocol().pause_writing)

    # Arriving.

    def _receive(self, item: bytes | _End | _Reset) -> None:
        if isinstance(item, _Reset):
            self.reset()
        elif self._lost:
            if isinstance(item, bytes):
                # Nobody is there to read it: the sender must learn that it was in vain.
                self._depart(_RESET)
        elif isinstance(item, _End):
            self._end_arrived = True
        elif not self._closing:
            self._arrived += item
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        waiting = self._arrived or (self._end_arrived and not self._end_told)
        ready = self._reading and not self._closing and self._protocol is not None
        if waiting and ready and not self._delivering:
            self._delivering = True
            self._loop.call_soon(self._deliver, context=self._context)

    def _deliver(self) -> None:
        """One read, as one turn of a real loop does for one socket."""
        self._delivering = False
        if self._closing or not self._reading:
            return
        try:
            if self._arrived:
                self._feed()
            elif not self._end_told:
                self._end_told = True
                if not self._stream_protocol().eof_received():
                    self.close()
        except Exception as error:  # noqa: BLE001 - reported, and the connection is ended
            self._report("Fatal error: protocol failed on received data.", error)
            self._depart(_RESET)
            self._fail(error)
        self._deliver_soon()

    def _feed(self) -> None:
        protocol = self.get_protocol()
        if isinstance(protocol, asyncio.BufferedProtocol):
            buffer = memoryview(protocol.get_buffer(-1)).cast("B")
            if not buffer.nbytes:
                raise RuntimeError("get_buffer() returned an empty buffer")
            size = min(buffer.nbytes, len(self._arrived))
            buffer[:size] = self._arrived[:size]
            del self._arrived[:size]
            protocol.buffer_updated(size)
        else:
            data = bytes(self._arrived[:READ_BYTES_MAX])
            del self._arrived[:READ_BYTES_MAX]
            self._stream_protocol().data_received(data)
        other = self._other()
        if other._outgoing:
            later = self._latency()
            self._loop.call_later(later, other._window_opened, context=other._context)

    def _stream_protocol(self) -> asyncio.Protocol:
        # BufferedProtocol has the same eof_received, and data_received is not asked of it.
        return self.get_protocol()  # type: ignore[return-value]

    # Ending.

    def _fail(self, error: Exception | None) -> None:
        if not self._lost:
            self._closing = True
            self._outgoing.clear()
            self._arrived.clear()
            self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        self._lost = True
        if self._muted:
            self._say_lost(error)
        else:
            self._loop.call_soon(self._say_lost, error, context=self._context)

    def _say_lost(self, error: Exception | None) -> None:
        if self._protocol is not None and not self._muted:
            self._protocol.connection_lost(error)
        if self.on_lost is not None:
            self.on_lost()

    def _tell(self, what: str, callback: Callable[[], Any]) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - as asyncio: reported, the connection lives on
            self._report(f"protocol.{what}() failed", error)

    def _report(self, message: str, error: Exception) -> None:
        context = {
            "message": message,
            "exception": error,
            "transport": self,
            "protocol": self._protocol,
        }
        self._loop.call_exception_handler(context)
