"""A network of named machines in one process.

Code runs on the machine named by `on_machine()`; tasks and connections started there stay there.
"localhost" and "127.0.0.1" mean the machine one is on; any other host name is a machine's name.
There is no IPv6.
Possible faults: any latency (`delays`), any segmentation, a connection that breaks at any segment
(`break_chance`, `break_all`), two machines that can not reach each other for a while, or one the
other (`cut`, `heal`: bytes wait, connects time out), a machine whose process dies
(`kill_machine`), and one without power (`unplug`, `plug`), of which nobody hears anything.
"""

import asyncio
import contextlib
import contextvars
import errno
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from barnabas.sim.trace import Trace
from barnabas.sim.transport import WINDOW_BYTES, SimTransport

CONNECT_S_MAX: Final = 127.0
"""How long Linux repeats a SYN before it says ETIMEDOUT."""

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1"})
_FIRST_FREE_PORT: Final = 49_152

_machine: contextvars.ContextVar[str] = contextvars.ContextVar("machine", default="localhost")

NOWHERE: Final = contextvars.Context()
"""What happens between machines belongs to no process: bytes travel on without their sender."""

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


@contextlib.contextmanager
def on_machine(name: str) -> Iterator[None]:
    """What is started inside runs on the machine `name`."""
    token = _machine.set(name)
    try:
        yield
    finally:
        _machine.reset(token)


class SimNetwork:
    """Who listens where, who is connected to whom, and what goes wrong."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, chance: random.Random, trace: Trace
    ) -> None:
        self.random = chance
        self.nowhere = NOWHERE.copy()
        self.break_chance = 0.0
        """How likely a segment's arrival is the moment its connection breaks."""
        self._loop = loop
        self._trace = trace
        self._listeners: dict[tuple[str, int], SimServer] = {}
        self._connections: dict[SimTransport, SimTransport] = {}
        self.delays: dict[frozenset[str], float] = {}
        """By how many seconds, at most, what two machines send each other is later than usual."""
        self._cuts: set[tuple[str, str]] = set()
        self._unplugged: set[str] = set()
        self._heals: list[asyncio.Future[None]] = []
        self._next_port = _FIRST_FREE_PORT

    # Chance.

    def latency(self, one: str = "", other: str = "") -> float:
        """Seconds until something arrives: mostly short, now and then a retransmission."""
        extra = 0.0
        if self.delays:
            extra = self.random.uniform(0, self.delays.get(frozenset((one, other)), 0.0))
        if self.random.random() < 0.01:
            return extra + self.random.uniform(0.01, 0.4)
        return extra + self.random.uniform(0.00005, 0.002)

    def segment_bytes(self) -> int:
        """How much travels in one piece: mostly a lot, sometimes a packet, sometimes a sliver."""
        kind = self.random.random()
        if kind < 0.8:
            return WINDOW_BYTES
        return self.random.randint(1, 1460 if kind < 0.95 else 16)

    # Faults.

    def breaks_now(self, sender: SimTransport) -> bool:
        """Whether the connection breaks as a segment arrives; then both ends are told."""
        if self.break_chance <= 0 or self.random.random() >= self.break_chance:
            return False
        self._break(sender)
        return True

    def break_all(self, machine: str | None = None) -> None:
        """Break every connection, or every connection of one machine."""
        for client, server in list(self._connections.items()):
            if machine is None or machine in (client.machine, server.machine):
                self._break(client)

    def cut(self, one: str, other: str, *, both: bool = True) -> None:
        """From now on nothing of the one reaches the other; `both`: and the other way round."""
        self._trace.note(f"cut {one} {other} {both}")
        self._cuts.add((one, other))
        if both:
            self._cuts.add((other, one))

    def heal(self, one: str, other: str) -> None:
        """They can again, and what waited travels on."""
        self._trace.note(f"heal {one} {other}")
        self._cuts -= {(one, other), (other, one)}
        self._travel_on()

    def is_cut(self, one: str, other: str) -> bool:
        """Whether what the one sends does not reach the other now."""
        if not self._cuts and not self._unplugged:
            return False
        down = self._unplugged
        return (one, other) in self._cuts or one in down or other in down

    def unplug(self, machine: str) -> None:
        """A machine loses power: nobody is told, and whatever is sent to it waits."""
        self._trace.note(f"unplug {machine}")
        self._unplugged.add(machine)
        self._end_process(machine)

    def plug(self, machine: str) -> None:
        """It is there again: who still believes in an old connection learns better."""
        self._trace.note(f"plug {machine}")
        self._unplugged.discard(machine)
        self._travel_on()

    def kill_machine(self, name: str) -> None:
        """The process on a machine dies: its peers see resets, its own protocols nothing."""
        self._trace.note(f"kill {name}")
        self._end_process(name)

    def _end_process(self, name: str) -> None:
        for place in [place for place in self._listeners if place[0] == name]:
            self._listeners[place].close()
        for ends in list(self._connections.items()):
            for end in ends:
                if end.machine == name:
                    end.mute()

    def _travel_on(self) -> None:
        for client, server in self._connections.items():
            client.travel_on()
            server.travel_on()
        heals, self._heals = self._heals, []
        for waiting in heals:
            if not waiting.done():
                waiting.set_result(None)

    # Connecting.

    async def connect(
        self, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        """Reach a listener, or raise what a real connect would."""
        here = _machine.get()
        there = here if host in _LOOPBACK else host
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                await asyncio.sleep(self.latency(here, there))
                while self.is_cut(here, there) or self.is_cut(there, here):
                    waiting = self._loop.create_future()
                    self._heals.append(waiting)
                    await waiting
        except TimeoutError as error:
            raise TimeoutError(errno.ETIMEDOUT, f"connect to {host}:{port} timed out") from error
        server = self._listeners.get((there, port))
        if server is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {host}:{port}")
        self._trace.note(f"connect {here} {there}:{port}")
        client_end, server_end = self._pair(here, there, port)
        server.accept(server_end)
        protocol = factory()
        client_end.start(protocol)
        return client_end, protocol

    def listen(self, server: "SimServer", machine: str, port: int) -> int:
        """Take a port (0: any free one) and return it."""
        if port == 0:
            port = self._free_port()
        if (machine, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, f"port {port} of {machine} is taken")
        self._listeners[machine, port] = server
        return port

    def forget(self, machine: str, port: int) -> None:
        """Give a port back."""
        self._listeners.pop((machine, port), None)

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port - 1

    def _pair(self, here: str, there: str, port: int) -> tuple[SimTransport, SimTransport]:
        same = here == there
        client_address = ("127.0.0.1" if same else here, self._free_port())
        server_address = ("127.0.0.1" if same else there, port)
        client = SimTransport(
            self._loop,
            self,
            contextvars.copy_context(),
            machine=here,
            addresses=(client_address, server_address),
        )
        server = SimTransport(
            self._loop,
            self,
            self._listeners[there, port].context.copy(),
            machine=there,
            addresses=(server_address, client_address),
        )
        client.join(server)
        server.join(client)
        self._connections[client] = server
        client.on_lost = lambda: self._forget_if_over(client)
        return client, server

    def _forget_if_over(self, client: SimTransport) -> None:
        server = self._connections.get(client)
        if client.lost and server is not None and server.lost:
            del self._connections[client]

    def server_end_lost(self, end: SimTransport) -> None:
        """A server's end is over; the connection is when the client's is too."""
        for client, server in self._connections.items():
            if server is end:
                self._forget_if_over(client)
                return

    def _break(self, end: SimTransport) -> None:
        for client, server in list(self._connections.items()):
            if end in (client, server):
                self._trace.note(f"break {client.get_extra_info('sockname')}")
                client.reset()
                server.reset()


class SimSocket:
    """What a server shows of its socket: the address."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def getsockname(self) -> tuple[str, int]:
        """Host and port it listens on."""
        return self._address


class SimServer(asyncio.AbstractServer):
    """A listener. `wait_closed` also waits for the connections, as asyncio does since 3.12."""

    def __init__(self, network: SimNetwork, factory: ProtocolFactory, host: str, port: int) -> None:
        if ":" in host:
            raise OSError(errno.EADDRNOTAVAIL, f"simulated machines have no IPv6: {host}")
        self.context = contextvars.copy_context()
        self._network = network
        self._factory = factory
        self._host = host
        self._machine = _machine.get()
        self._loop = asyncio.get_running_loop()
        self._port = network.listen(self, self._machine, port)
        self._serving = False
        self._closed = False
        self._open_ends: dict[SimTransport, None] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._backlog: list[SimTransport] = []

    @property
    def sockets(self) -> Sequence[SimSocket]:
        """One, while it listens."""
        return () if self._closed else (SimSocket((self._host, self._port)),)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The simulated loop."""
        return self._loop

    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return self._serving

    async def start_serving(self) -> None:
        """Accept connections, those that wait already included."""
        self._serving = not self._closed
        backlog, self._backlog = self._backlog, []
        for end in backlog:
            self.accept(end)

    async def serve_forever(self) -> None:
        """Accept until cancelled."""
        await self.start_serving()
        try:
            await self._loop.create_future()
        finally:
            self.close()

    def close(self) -> None:
        """Stop listening. Connections that were accepted live on."""
        if not self._closed:
            self._closed = True
            self._serving = False
            self._network.forget(self._machine, self._port)
            for end in self._backlog:
                end.abort()
            self._wake_if_over()

    async def wait_closed(self) -> None:
        """Return once closed and every accepted connection has ended."""
        if not self._closed or self._open_ends:
            waiting: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiting)
            await waiting

    def accept(self, end: SimTransport) -> None:
        """A connection comes in."""
        if not self._serving:
            self._backlog.append(end)
            return
        self._open_ends[end] = None
        end.on_lost = lambda: self._end_lost(end)
        self._loop.call_soon(self._start, end, context=self.context)

    def _start(self, end: SimTransport) -> None:
        try:
            end.start(self._factory())
        except Exception as error:  # noqa: BLE001 - reported, and the connection is refused
            message = {"message": "accepting a connection failed", "exception": error}
            self._loop.call_exception_handler(message)
            end.abort()

    def _end_lost(self, end: SimTransport) -> None:
        self._open_ends.pop(end, None)
        self._network.server_end_lost(end)
        self._wake_if_over()

    def _wake_if_over(self) -> None:
        if self._closed and not self._open_ends:
            waiters, self._waiters = self._waiters, []
            for waiting in waiters:
                if not waiting.done():
                    waiting.set_result(None)
