"""One connection: cuts frames, dispatches them, sends answers in order, and knows when to rest.

The connection rests (`_resting`) while an exclusive request runs, while too many requests are in
flight, while the peer has too much to read, and at the end of its turn. Bytes that arrive
meanwhile stay in the inbox; reading is paused only when some do, because a client that waits for
its answer sends nothing, and because a paused socket can not tell us that the peer has gone.
"""

import asyncio
import logging
from functools import partial
from typing import Any, Protocol, cast

from barnabas.model.errors import DecodeError
from barnabas.net.complaints import Complaints
from barnabas.net.hangup import has_hung_up, reset_at_close
from barnabas.net.inbox import Inbox
from barnabas.net.limits import NetLimits
from barnabas.net.outbox import Outbox, Slot
from barnabas.net.watch import Sight, Watch
from barnabas.ports.exchange import Address, Dispatch, Frames, Later, Peer

_logger = logging.getLogger(__name__)


class Host(Protocol):
    """What a connection needs from the listener that accepted it."""

    limits: NetLimits
    dispatch: Dispatch
    complaints: Complaints
    loop: asyncio.AbstractEventLoop

    def enter(self, connection: "Connection", remote: Address) -> int | None:
        """A new connection's id, or None when it is refused."""

    def leave(self, connection: "Connection") -> None:
        """An admitted connection is gone."""

    def outlive(self, task: "asyncio.Future[Any]") -> None:
        """Hold on to a task whose connection is gone until it is done."""


class Connection(asyncio.BufferedProtocol):
    """Carries one peer's frames; see the module for when it rests."""

    __slots__ = (
        "_closing",
        "_exclusive",
        "_full",
        "_host",
        "_inbox",
        "_outbox",
        "_paused",
        "_resting",
        "_stopping",
        "_transport",
        "_turn_over",
        "_watch",
        "peer",
        "requests",
    )

    _inbox: Inbox
    _outbox: Outbox
    _transport: asyncio.Transport
    _watch: Watch
    peer: Peer

    def __init__(self, host: Host) -> None:
        self._host = host
        self.requests = 0
        self._closing = False
        self._exclusive = False
        self._full = False
        self._paused = False
        self._resting = False
        self._stopping = False
        self._turn_over = False

    def __repr__(self) -> str:
        host, port = self.peer.remote
        return f"connection {self.peer.id} from {host}:{port}"

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the peer or turn it away before anything is spent on it."""
        self._transport = cast(asyncio.Transport, transport)
        remote = _address(transport, "peername")
        number = self._host.enter(self, remote)
        if number is None:
            self._closing = self._resting = True
            self._transport.abort()
            return
        limits = self._host.limits
        self.peer = Peer(number, remote, _address(transport, "sockname"))
        self._inbox = Inbox(limits)
        self._outbox = Outbox(self._transport)
        self._watch = Watch(limits, self._host.loop.time())
        self._transport.set_write_buffer_limits(high=limits.outbox_bytes_max)

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:  # noqa: ARG002
        """Where the transport shall put the next bytes."""
        inbox = self._inbox
        return inbox.room() if inbox.end else inbox.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes were put there."""
        inbox = self._inbox
        inbox.end += nbytes
        inbox.received += nbytes
        if inbox.end < inbox.goal:
            return
        if not self._resting:
            self._work()
        elif self._closing or self._stopping:
            inbox.discard()
        else:
            self._pause()

    def pause_writing(self) -> None:
        """The peer reads more slowly than it asks."""
        self._full = self._resting = True

    def resume_writing(self) -> None:
        """It has caught up. Transports say so even inside write(), hence not at once."""
        self._full = False
        self._host.loop.call_soon(self._proceed)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """The peer is gone, or we closed; admitted connections only are known to the host."""
        refused = not hasattr(self, "peer")
        self._closing = self._resting = True
        if not refused:
            self._abandon()
            self._host.leave(self)

    # Requests

    def _work(self) -> None:
        try:
            self._dispatch_frames()
            self._outbox.flush()
        except Exception as error:  # noqa: BLE001 - _fail logs it
            self._fail(error)

    def _dispatch_frames(self) -> None:
        host, peer, inbox, outbox = self._host, self.peer, self._inbox, self._outbox
        for _ in range(host.limits.frames_per_turn_max):
            frame = inbox.next_frame()
            if frame is None:
                return
            self.requests += 1
            reply = host.dispatch(peer, frame)
            # Whoever kept the frame gets an error at its next use instead of another's bytes.
            frame.release()
            if isinstance(reply, Later):
                self._wait_for(reply)
            elif reply is not None:
                outbox.put(reply)
            if (self._full or outbox.waiting) and not self._may_dispatch():
                self._rest()
                return
        self._turn_over = True
        self._rest()
        host.loop.call_soon(self._next_turn)

    def _may_dispatch(self) -> bool:
        """Whether nothing stands in the way of the next frame."""
        limits, outbox = self._host.limits, self._outbox
        return not (
            self._exclusive
            or self._full
            or self._turn_over
            or self._stopping
            or self._closing
            or len(outbox.waiting) >= limits.requests_in_flight_max
            or (outbox.queued_bytes and outbox.unsent_bytes > limits.outbox_bytes_max)
        )

    def _rest(self) -> None:
        self._resting = True
        if self._inbox.partial:
            self._pause()

    def _pause(self) -> None:
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _next_turn(self) -> None:
        self._turn_over = False
        self._proceed()

    def _proceed(self) -> None:
        """Take up work again if nothing stands in the way any more."""
        if not self._resting or not self._may_dispatch():
            return
        self._resting = False
        self._work()
        if not self._resting:
            self._read_on()

    def _read_on(self) -> None:
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    # Answers that had to be waited for

    def _wait_for(self, later: Later) -> None:
        answer = later.coroutine
        task = answer if isinstance(answer, asyncio.Future) else self._host.loop.create_task(answer)
        cancellable = later.overlaps or later.only_waits
        slot = self._outbox.reserve(task, overlaps=later.overlaps, cancellable=cancellable)
        self._exclusive = not later.overlaps
        task.add_done_callback(partial(self._finished, slot))

    def _finished(self, slot: Slot, task: "asyncio.Future[Frames | None]") -> None:
        if not slot.overlaps:
            self._exclusive = False
        if self._closing:
            self._log_late_failure(task)
            return
        try:
            if slot.ready or slot.ended_well():
                self._outbox.collect(slot)
                self._outbox.flush()
            else:
                task.result()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - _fail logs it
            self._fail(error)
            return
        if self._stopping and not self._outbox.waiting:
            self.close()
        else:
            self._proceed()

    def _log_late_failure(self, task: "asyncio.Future[Frames | None]") -> None:
        """Nobody is left to answer, but a failure of ours must still be seen."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, DecodeError):
            _logger.error("A request of %r failed after its peer had gone.", self, exc_info=error)

    def _fail(self, error: BaseException) -> None:
        """End this connection; what was answered before still goes out."""
        if isinstance(error, DecodeError):
            self._host.complaints.say("decode", f"Closing {self!r}: {error}.")
        else:
            _logger.error("A request of %r failed; closing it.", self, exc_info=error)
        self._outbox.flush()
        self.close()

    # The end

    def close(self) -> None:
        """Take no more requests, give up those in flight, send what is written, then close."""
        if not self._closing:
            self._closing = self._resting = True
            self._transport.close()
            self._abandon()

    def abort(self) -> None:
        """Close without sending what is left."""
        self._closing = self._resting = True
        reset_at_close(self._transport)
        self._transport.abort()
        self._abandon()

    def finish(self) -> None:
        """Take no more requests; close once those in flight are answered.

        What still comes is read and dropped: closing a socket with unread bytes resets it, and
        a reset can destroy answers on their way.
        """
        self._stopping = self._resting = True
        self._inbox.discard()
        if not self._outbox.waiting:
            self.close()
        else:
            self._read_on()

    def _abandon(self) -> None:
        """Requests that only wait are cancelled, others run to their end unheard."""
        self._inbox.discard()
        self._inbox.shrink()
        while self._outbox.waiting:
            slot = self._outbox.waiting.popleft()
            if slot.task is None or slot.task.done():
                continue
            if slot.cancellable:
                slot.task.cancel()
            self._host.outlive(slot.task)

    def sweep(self, now: float) -> None:
        """Called every few seconds: close whoever takes too long, give back idle memory."""
        reason = self._watch.look(now, self._sight())
        if reason is not None:
            self._host.complaints.say("wait", f"Closing {self!r}: {reason}.")
            if self._full or self._closing:
                self.abort()
            else:
                self.close()
        elif self._paused and has_hung_up(self._transport):
            self.abort()
        elif self._watch.quiet:
            self._inbox.shrink()

    def _sight(self) -> Sight:
        return Sight(
            received=self._inbox.received,
            sent=self._outbox.sent,
            requests=self.requests,
            partial=self._inbox.partial and not self._resting,
            busy=bool(self._outbox.waiting),
            full=self._full or self._closing,
        )

    @property
    def traffic(self) -> tuple[int, int, int]:
        """Requests, bytes in, bytes out."""
        return self.requests, self._inbox.received, self._outbox.written


def _address(transport: asyncio.BaseTransport, name: str) -> Address:
    """The host and port; a peer that has gone already has none."""
    address = transport.get_extra_info(name)
    return (str(address[0]), int(address[1])) if address else ("", 0)
