"""The door: binds a port, admits connections, looks after them, and closes them in order."""

import asyncio
import errno
import logging
import socket
from dataclasses import dataclass
from typing import Any

from barnabas.model.check import require
from barnabas.model.errors import BarnabasError
from barnabas.net.admission import Admission
from barnabas.net.complaints import Complaints
from barnabas.net.connection import Connection
from barnabas.net.limits import NetLimits
from barnabas.ports.exchange import Address, Dispatch

_logger = logging.getLogger(__name__)

_BACKLOG = 256
"""Connections the kernel holds until they are accepted: a restart brings all clients at once."""

_LOOPBACKS = ("127.0.0.1", "::1")
"""What "localhost" means; librdkafka tries ::1 first, most others 127.0.0.1."""

_PORT_TRIES = 16
"""How often to look for a free port that is free on both loopbacks."""

_CANCEL_WAIT_S = 1.0
"""How long requests get to notice that they are cancelled at the very end."""

_BIND_PROBLEMS = {
    errno.EADDRINUSE: "is in use: stop the program that listens there, or choose another port",
    errno.EACCES: "needs more rights than this user has: choose a port above 1023",
    errno.EADDRNOTAVAIL: "can not be opened: the host is not an address of this machine",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What went through a listener since it was made."""

    connections_open: int
    connections_total: int
    connections_refused: int
    requests: int
    bytes_in: int
    bytes_out: int


class Listener:
    """Accepts connections and hands each one's frames to `dispatch`."""

    def __init__(self, dispatch: Dispatch, limits: NetLimits | None = None) -> None:
        self.dispatch = dispatch
        self.limits = limits or NetLimits()
        self._admission = Admission(self.limits)
        # (Dictionaries, because they keep an order that is the same in every run.)
        self._connections: dict[Connection, None] = {}
        self._orphans: dict[asyncio.Future[Any], None] = {}
        self._servers: list[asyncio.AbstractServer] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self._settled = asyncio.Event()
        self._stopping = False
        self._total = self._refused = 0
        self._past_requests = self._past_in = self._past_out = 0

    # Start and stop

    async def start(self, host: str, port: int) -> Address:
        """Listen there; port 0 takes a free one. BarnabasError says what is in the way."""
        address = await self.bind(host, port)
        await self.serve()
        return address

    async def bind(self, host: str, port: int) -> Address:
        """Take the address, so that it is known; nobody is let in before `serve`."""
        require(not self._servers, "a listener starts once")
        self.loop = asyncio.get_running_loop()
        self.complaints = Complaints(_logger, self.loop.time)
        try:
            self._address = host, await self._bind(host, port)
        except OSError as error:
            raise bind_problem(host, port, error) from error
        return self._address

    async def serve(self) -> None:
        """Let clients in."""
        try:
            for server in self._servers:
                await server.start_serving()
        except OSError as error:
            self._close_servers()
            raise bind_problem(*self._address, error) from error
        self._schedule_sweep()

    async def _bind(self, host: str, port: int) -> int:
        if host != "localhost":
            return await self._serve(host, port)
        for _ in range(_PORT_TRIES if port == 0 else 1):
            try:
                return await self._serve_loopbacks(port)
            except OSError as error:
                failure = error
                self._close_servers()
        raise failure

    async def _serve(self, host: str, port: int) -> int:
        server = await self.loop.create_server(
            lambda: Connection(self), host, port, backlog=_BACKLOG, start_serving=False
        )
        if not server.sockets:
            raise OSError(errno.EADDRNOTAVAIL, "no such address family")
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def _serve_loopbacks(self, port: int) -> int:
        """Both, on the same port; one is enough where the other family does not exist."""
        absent: OSError | None = None
        for address in _LOOPBACKS:
            try:
                port = await self._serve(address, port)
            except OSError as error:
                if not isinstance(error, socket.gaierror) and error.errno not in (
                    errno.EADDRNOTAVAIL,
                    errno.EAFNOSUPPORT,
                ):
                    raise
                absent = error
        if not self._servers and absent is not None:
            raise absent
        return port

    def limit(self, limits: NetLimits) -> None:
        """Other limits from now on; those of one connection hold for new connections only."""
        self.limits = self._admission.limits = limits

    async def stop(self, grace_s: float) -> None:
        """Accept and read no more; give requests in flight `grace_s` to end; close everything."""
        self._stopping = True
        self._close_servers()
        for connection in tuple(self._connections):
            connection.finish()
        try:
            async with asyncio.timeout(grace_s):
                await self._until_settled()
        except TimeoutError:
            await self._close_by_force()
        if self._sweeper is not None:
            self._sweeper.cancel()

    async def _close_by_force(self) -> None:
        for connection in tuple(self._connections):
            connection.abort()
        for task in self._orphans:
            task.cancel()
        try:
            async with asyncio.timeout(_CANCEL_WAIT_S):
                await self._until_settled()
        except TimeoutError:
            _logger.error("%d requests do not end although cancelled.", len(self._orphans))

    async def _until_settled(self) -> None:
        self._settle()
        await self._settled.wait()

    def _settle(self) -> None:
        if self._stopping and not self._connections and not self._orphans:
            self._settled.set()

    def _close_servers(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    # What connections ask of their host

    def enter(self, connection: Connection, remote: Address) -> int | None:
        """A new connection's id, or None when there is no place for it."""
        refusal = "it is stopping" if self._stopping else self._admission.enter(remote[0])
        if refusal is not None:
            self._refused += 1
            self.complaints.say("refused", f"Refused {remote[0]}:{remote[1]}: {refusal}.")
            return None
        self._connections[connection] = None
        self._total += 1
        return self._total

    def leave(self, connection: Connection) -> None:
        """An admitted connection is gone; its traffic still counts."""
        del self._connections[connection]
        self._admission.leave(connection.peer.remote[0])
        requests, bytes_in, bytes_out = connection.traffic
        self._past_requests += requests
        self._past_in += bytes_in
        self._past_out += bytes_out
        self._settle()

    def outlive(self, task: "asyncio.Future[Any]") -> None:
        """Hold on to a task whose connection is gone: the loop itself would let go of it."""
        self._orphans[task] = None
        task.add_done_callback(self._orphan_done)

    def _orphan_done(self, task: "asyncio.Future[Any]") -> None:
        self._orphans.pop(task, None)
        self._settle()

    # Looking after them

    def _schedule_sweep(self) -> None:
        self._sweeper = self.loop.call_later(self.limits.sweep_interval_s, self._sweep)

    def _sweep(self) -> None:
        self._schedule_sweep()
        now = self.loop.time()
        for connection in tuple(self._connections):
            connection.sweep(now)

    @property
    def counters(self) -> Counters:
        """Added up when asked for, so that a request pays nothing for them."""
        traffic = [connection.traffic for connection in self._connections]
        return Counters(
            connections_open=len(self._connections),
            connections_total=self._total,
            connections_refused=self._refused,
            requests=self._past_requests + sum(each[0] for each in traffic),
            bytes_in=self._past_in + sum(each[1] for each in traffic),
            bytes_out=self._past_out + sum(each[2] for each in traffic),
        )


def bind_problem(host: str, port: int, error: OSError) -> BarnabasError:
    """Why nobody can listen there, in a sentence."""
    if isinstance(error, socket.gaierror):
        return BarnabasError(f"host {host} can not be resolved: {error.strerror}")
    problem = _BIND_PROBLEMS.get(error.errno or 0, f"can not be opened: {error}")
    return BarnabasError(f"port {port} on {host} {problem}")
