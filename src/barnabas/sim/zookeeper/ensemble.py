"""The ensemble as a test sees it: its clients, what it stores, and all that can go wrong."""

import random
from collections.abc import Callable, Mapping

from barnabas.ports.coordination import Node
from barnabas.sim.loop import SimLoop
from barnabas.sim.zookeeper.client import SimCoordination
from barnabas.sim.zookeeper.connection import Connection
from barnabas.sim.zookeeper.faults import Faults
from barnabas.sim.zookeeper.server import Server
from barnabas.sim.zookeeper.tree import Transaction


class Ensemble:
    """`members` servers on one simulated machine, from the loop's seed."""

    def __init__(
        self,
        loop: SimLoop,
        *,
        machine: str = "zk",
        members: int = 3,
        session_timeout_s: float = 6.0,
        connect_timeout_s: float = 15.0,
    ) -> None:
        self.machine = machine
        self.faults = Faults()
        self._loop = loop
        self._chance = random.Random(f"{loop.seed}/zookeeper")
        self._session_timeout_s = session_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._server = Server(loop, self._chance, loop.trace, self.faults, members)
        self._clients: list[SimCoordination] = []
        self._cut_requests: dict[str, None] = {}
        self._cut_answers: dict[str, None] = {}
        self._paused: dict[str, None] = {}

    def client(self, machine: str) -> SimCoordination:
        """What a process on `machine` uses: the coordination port, not yet open."""
        client = SimCoordination(
            self._loop,
            self._server,
            machine,
            connect=self._connection,
            paused=lambda: machine in self._paused,
            pick=self._chance.uniform,
            session_timeout_s=self._session_timeout_s,
            connect_timeout_s=self._connect_timeout_s,
        )
        self._clients = [each for each in self._clients if not each.ended]
        self._clients.append(client)
        return client

    # What is true, without asking: for invariants.

    def get(self, path: str) -> Node | None:
        """What the leader has at a path, now."""
        return self._server.tree.get(path)

    def below(self, path: str) -> Mapping[str, Node]:
        """What the leader has below a path, now."""
        return self._server.tree.below(path)

    @property
    def zxid(self) -> int:
        """How many transactions there were."""
        return self._server.tree.zxid

    @property
    def sessions(self) -> Mapping[int, str]:
        """The sessions that live, and the machine of each."""
        return {number: each.machine for number, each in self._server.sessions.living.items()}

    def breaks(self, machine: str) -> int:
        """How often chance has broken a connection of that machine."""
        return self._server.breaks[machine]

    def on_commit(self, told: Callable[[Transaction], None]) -> None:
        """Call `told` with each transaction at the moment it is decided."""
        self._server.committed.append(told)

    # Faults.

    def cut(self, machine: str, *, requests: bool = True, answers: bool = True) -> None:
        """A machine's requests, or the answers to it, or both, do not get through."""
        self._note(f"cut {machine} {requests} {answers}")
        if requests:
            self._cut_requests[machine] = None
        if answers:
            self._cut_answers[machine] = None

    def heal(self, machine: str) -> None:
        """They do again, and what waited travels on."""
        self._note(f"heal {machine}")
        self._cut_requests.pop(machine, None)
        self._cut_answers.pop(machine, None)
        self._try_again(machine)

    def pause(self, machine: str) -> None:
        """The process on a machine stands still: it sends, hears and notices nothing."""
        self._note(f"pause {machine}")
        self._paused[machine] = None

    def resume(self, machine: str) -> None:
        """It goes on, and finds out what happened meanwhile."""
        self._note(f"resume {machine}")
        self._paused.pop(machine, None)
        self._try_again(machine)

    def lose_next(self, machine: str, *, after: bool, count: int = 1) -> None:
        """The machine's next commits get no answer: `after` they took effect, or before."""
        key = (machine, after)
        self._server.lose_next[key] = self._server.lose_next.get(key, 0) + count

    def break_connection(self, machine: str) -> None:
        """The connections of a machine break; what is on the way is lost."""
        self._note(f"break {machine}")
        for session in self._server.sessions.living.values():
            if session.machine == machine and session.connection is not None:
                self._server.break_off(session.connection)

    def expire(self, machine: str) -> None:
        """The sessions of a machine end now, as if they had run out."""
        self._note(f"expire {machine}")
        for session in [*self._server.sessions.living.values()]:
            if session.machine == machine:
                self._server.end(session)

    def kill(self, machine: str) -> None:
        """The process on a machine dies: its clients do nothing more, its sessions run out."""
        self._note(f"kill {machine}")
        for client in self._clients:
            if client.machine == machine:
                client.kill()

    def lose_quorum(self) -> None:
        """Too few servers are left: nobody is answered, and no session runs out."""
        self._note("quorum lost")
        self._server.lose_quorum()

    def regain_quorum(self) -> None:
        """There are enough again; every session has its full time before it."""
        self._note("quorum")
        self._server.regain_quorum()

    def _connection(self, client: SimCoordination) -> Connection:
        machine = client.machine
        connection = Connection(
            client,
            self._loop,
            self._chance,
            # Before the first request has arrived it is a handshake, which goes both ways.
            held_to_server=lambda: (
                self._requests_held(machine)
                or (not connection.established and self._answers_held(machine))
            ),
            held_to_client=lambda: self._answers_held(machine),
        )
        return connection

    def _requests_held(self, machine: str) -> bool:
        return (
            machine in self._paused
            or machine in self._cut_requests
            or self._loop.network.is_cut(machine, self.machine)
        )

    def _answers_held(self, machine: str) -> bool:
        return (
            machine in self._paused
            or machine in self._cut_answers
            or self._loop.network.is_cut(self.machine, machine)
        )

    def _try_again(self, machine: str) -> None:
        for client in self._clients:
            if client.machine == machine:
                client.try_again()

    def _note(self, words: str) -> None:
        self._loop.trace.note(f"zk {words}")
