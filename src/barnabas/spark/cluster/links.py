"""The open links of one thread to the brokers of one cluster."""

import random
import socket
import ssl
from collections.abc import Iterable
from functools import cached_property
from typing import Final

from barnabas.link.broker import Broker
from barnabas.link.sync import Link
from barnabas.model.errors import DecodeError
from barnabas.spark.cluster.connection import Connection, Server
from barnabas.spark.errors import SparkJobError

_METADATA: Final = 3


class Links:
    """Opened when they are needed, kept until they break."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._kept: dict[Server, Broker] = {}
        self._ever_reached = False

    @cached_property
    def _tls(self) -> ssl.SSLContext | None:
        tls = self._connection.tls
        return None if tls is None else tls.context()

    def close(self) -> None:
        """Hang up everywhere; whoever asks again opens again."""
        while self._kept:
            self._kept.popitem()[1].close()

    def to(self, server: Server) -> Broker:
        """The link to one broker. OSError where it is away, SparkJobError where it never will."""
        kept = self._kept.get(server)
        if kept is not None and not kept.closed:
            return kept
        try:
            broker = self._open(server)
        except OSError as problem:
            where = str(server)
            if server not in self._connection.servers:
                where += ", where a broker says that it listens (advertised.listeners),"
            raise ConnectionError(f"{where} can not be reached: {_words(problem)}") from problem
        self._kept[server] = broker
        return broker

    def any(self, known: Iterable[Server]) -> Broker:
        """A link to some broker: an open one, or one of the `known`, or of those in the options."""
        for kept in self._kept.values():
            if not kept.closed:
                return kept
        others = [server for server in known if server not in self._connection.servers]
        servers = [*self._connection.servers, *others]
        random.shuffle(servers)
        problems: dict[Server, OSError | SparkJobError] = {}
        for server in servers:
            try:
                broker = self._kept[server] = self._open(server)
            except (OSError, SparkJobError) as problem:
                problems[server] = problem
            else:
                self._ever_reached = True
                return broker
        self._give_up(problems)
        told = "; ".join(f"{server}: {_words(problem)}" for server, problem in problems.items())
        raise ConnectionError(
            f"no broker can be reached ({told}), so check that one runs there, that "
            "kafka.bootstrap.servers names it, and that nothing stands between"
        )

    def _give_up(self, problems: dict[Server, OSError | SparkJobError]) -> None:
        """Raise where waiting can not help: only the first time, for brokers do move."""
        if self._ever_reached:
            return
        if all(isinstance(problem, SparkJobError) for problem in problems.values()):
            raise next(iter(problems.values()))
        if all(isinstance(problem, socket.gaierror) for problem in problems.values()):
            names = ", ".join(server.host for server in problems)
            raise SparkJobError(
                f"No address is known for {names}: check the spelling of kafka.bootstrap.servers, "
                "and whether this machine can look the name up."
            )

    def _open(self, server: Server) -> Broker:
        connection = self._connection
        try:
            link = Link(
                server.host,
                server.port,
                client_id=connection.client_id,
                timeout_s=connection.request_timeout_s,
                connect_timeout_s=connection.connect_timeout_s,
                tls=self._tls,
            )
            broker = Broker(link)
            # Asked at once: a stranger who answers here would be a riddle later.
            broker.version(_METADATA)
        except ssl.SSLEOFError:
            raise
        except ssl.SSLError as problem:
            raise SparkJobError(
                f"{server} does not agree on TLS ({problem.reason or problem}): check that it is a "
                "listener with TLS, that kafka.ssl.truststore.location holds the authority which "
                "signed its certificate, and that the certificate names this host."
            ) from problem
        except DecodeError as problem:
            raise SparkJobError(
                f"{server} answers, but does not speak Kafka's protocol ({problem}): check the "
                "port, and whether kafka.security.protocol should be SSL."
            ) from problem
        return broker


def _words(problem: Exception) -> str:
    if isinstance(problem, ssl.SSLEOFError | ConnectionResetError):
        return "it hung up at once, as one does who expects TLS, or does not"
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return str(problem)
