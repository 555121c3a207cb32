"""The servers of a simulated ensemble: they answer connections, and the leader decides commits.

A request that arrives is put behind those of the same connection that are not answered yet, as
ZooKeeper does it. Reads are answered from the copy of the member that the client is connected to;
commits are decided by the leader at once, and answered when that member has them too.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Final

from barnabas.ports.coordination import CoordinationError, Delete
from barnabas.sim.network import NOWHERE
from barnabas.sim.trace import Trace
from barnabas.sim.zookeeper.connection import Connection
from barnabas.sim.zookeeper.faults import Faults
from barnabas.sim.zookeeper.member import Member
from barnabas.sim.zookeeper.messages import Answer, Kind, Request, Welcome
from barnabas.sim.zookeeper.sessions import Session, Sessions
from barnabas.sim.zookeeper.tree import Transaction, Tree

SESSION_TIMEOUT_S_MIN: Final = 0.1


class Server:
    """All members together, with or without a quorum."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        chance: random.Random,
        trace: Trace,
        faults: Faults,
        members: int,
    ) -> None:
        self.faults = faults
        self.quorum = True
        self.sessions = Sessions(loop, lambda: chance.uniform(0, faults.expiry_slack_s), self.end)
        self.committed: list[Callable[[Transaction], None]] = []
        """Called with each transaction at the moment it is decided."""
        self.lose_next: dict[tuple[str, bool], int] = {}
        """How many commits of a machine lose their answer: (machine, after it took effect)."""
        self.breaks: Counter[str] = Counter()
        """How often chance has broken a connection of a machine."""
        self._loop = loop
        self._chance = chance
        self._trace = trace
        self._leader = Member(loop)
        self._members = [self._leader, *(Member(loop) for _ in range(members - 1))]
        self._place: dict[Connection, Member] = {}
        self._limbo: list[tuple[Session, Request]] = []

    @property
    def tree(self) -> Tree:
        """What is true: the leader's copy."""
        return self._leader.tree

    # Connections and sessions.

    def connect(self, connection: Connection, session: int, timeout_s: float, zxid: int) -> None:
        """A client arrives, with its session (0: none yet) and the newest thing it has seen."""
        connection.established = True
        if not self.quorum:
            connection.break_off()
            return
        if session == 0:
            found = self.sessions.begin(
                connection.peer.machine, max(timeout_s, SESSION_TIMEOUT_S_MIN)
            )
            self._trace.note(f"zk session {found.number} {found.machine}")
        elif session not in self.sessions.living:
            over = Welcome(0, 0.0, self.tree.zxid)
            connection.to_client.send(lambda: connection.peer.welcomed(connection, over))
            return
        else:
            found = self.sessions.living[session]
        self._attach(connection, found, zxid)

    def _attach(self, connection: Connection, session: Session, zxid: int) -> None:
        if session.connection is not None:
            # From here on what the older connection still brings is refused: the session moved.
            session.connection.break_off()
            self._leave(session.connection)
        self.sessions.heard(session)
        session.connection = connection
        connection.session = session.number
        # A member that is behind what the client has seen does not take it.
        member = self._chance.choice([each for each in self._members if each.tree.zxid >= zxid])
        self._place[connection] = member
        member.connections[connection] = None
        welcome = Welcome(session.number, session.timeout_s, member.tree.zxid)
        connection.to_client.send(lambda: connection.peer.welcomed(connection, welcome))

    def break_off(self, connection: Connection) -> None:
        """Close a connection; the session lives on for its time."""
        connection.break_off()
        self._leave(connection)

    def _leave(self, connection: Connection) -> None:
        member = self._place.pop(connection, None)
        if member is not None:
            member.connections.pop(connection, None)

    def end(self, session: Session) -> None:
        """The session is over, in time or by force: its ephemeral nodes go, in one transaction."""
        self._trace.note(f"zk over {session.number} {session.machine}")
        self.sessions.end(session)
        # Like ZooKeeper's closeSession this is a step of the tree even when there is no such node.
        gone = [Delete(path) for path in self.tree.owned_by(session.number)]
        self._commit(self.tree.decide(gone, session.number))
        if session.connection is not None:
            self.break_off(session.connection)

    def lose_quorum(self) -> None:
        """Nobody is answered any more. Commits that arrive just now may or may not survive."""
        self.quorum = False
        self.sessions.halt()
        for session in self.sessions.living.values():
            if session.connection is not None:
                # Not all at once: what arrives in between is in nobody's hands.
                self._loop.call_later(
                    self._chance.uniform(0, 0.1),
                    self.break_off,
                    session.connection,
                    context=NOWHERE,
                )

    def regain_quorum(self) -> None:
        """There is a leader again: it settles what was left open before it hears anybody."""
        self.quorum = True
        limbo, self._limbo = self._limbo, []
        for session, request in limbo:
            if request.kind is Kind.COMMIT and self._chance.random() < 0.5:
                self._try_commit(session, request)
        self.sessions.go_on()

    # Requests.

    def arrived(self, connection: Connection, request: Request) -> None:
        """A request has come in."""
        session = self.sessions.living.get(connection.session)
        if not connection.served or session is None or session.connection is not connection:
            self.break_off(connection)
            return
        if not self.quorum:
            self._limbo.append((session, request))
            return
        self.sessions.heard(session)
        if self._breaks(connection, request, after=False):
            self.break_off(connection)
            return
        connection.work.append(request)
        self._serve(connection)

    def _serve(self, connection: Connection) -> None:
        while connection.served and connection.work and not connection.busy:
            connection.busy = True
            self._start(connection, connection.work[0])

    def _start(self, connection: Connection, request: Request) -> None:
        member = self._place[connection]
        tree = member.tree
        match request.kind:
            case Kind.GET:
                self._answer(connection, request, tree.get(request.path))
            case Kind.CHILDREN:
                self._answer(connection, request, tree.children(request.path))
            case Kind.TREE:
                # Node by node, as a real client must read it: names now, what they hold later.
                names = list(tree.below(request.path))
                self._loop.call_later(
                    self._chance.uniform(0, 0.002),
                    self._finish_tree,
                    connection,
                    request,
                    names,
                    context=NOWHERE,
                )
            case Kind.SYNC:
                member.when_at(self.tree.zxid, lambda: self._answer(connection, request, None))
            case Kind.COMMIT:
                self._decide(connection, request, member)
            case Kind.CLOSE:
                self._answer(connection, request, None)
                self.end(self.sessions.living[connection.session])

    def _finish_tree(self, connection: Connection, request: Request, names: list[str]) -> None:
        if connection.served:
            tree = self._place[connection].tree
            found = {name: tree.get(name) for name in names}
            present = {name: node for name, node in found.items() if node is not None}
            self._answer(connection, request, present)
            self._serve(connection)

    def _decide(self, connection: Connection, request: Request, member: Member) -> None:
        session = self.sessions.living[connection.session]
        error = self._try_commit(session, request)
        if self._breaks(connection, request, after=True):
            self.break_off(connection)
            return
        member.when_at(self.tree.zxid, lambda: self._answer(connection, request, None, error))

    def _try_commit(self, session: Session, request: Request) -> CoordinationError | None:
        if session.number not in self.sessions.living:
            return None
        try:
            transaction = self.tree.decide(request.operations, session.number)
        except CoordinationError as error:
            return error
        self._commit(transaction)
        return None

    def _commit(self, transaction: Transaction) -> None:
        self._trace.note(f"zk {transaction.zxid} {transaction.session} {list(transaction.changes)}")
        for member in self._members[1:]:
            member.follow(transaction, self._chance.uniform(0, self.faults.lag_s))
        self._leader.follow(transaction, 0)
        for told in self.committed:
            told(transaction)

    def _answer(
        self,
        connection: Connection,
        request: Request,
        value: object,
        error: Exception | None = None,
    ) -> None:
        if not connection.served:
            return
        connection.work.popleft()
        connection.busy = False
        answer = Answer(request.number, value, error, self._place[connection].tree.zxid)
        connection.to_client.send(lambda: connection.peer.answered(connection, answer))
        if connection.work:
            self._loop.call_soon(self._serve, connection, context=NOWHERE)

    def _breaks(self, connection: Connection, request: Request, *, after: bool) -> bool:
        machine = connection.peer.machine
        if request.kind is Kind.COMMIT and self.lose_next.get((machine, after), 0) > 0:
            self.lose_next[machine, after] -= 1
            self._trace.note(f"zk lost {machine} {after}")
            return True
        likely = self.faults.break_after if after else self.faults.break_before
        if likely > 0 and self._chance.random() < likely:
            self.breaks[machine] += 1
            return True
        return False
