"""How to reach a cluster: what a job's `kafka.*` options say about it, and nothing else."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.spark.cluster.tls import TLS_OPTIONS, Tls
from barnabas.spark.errors import SparkJobError

_SERVERS: Final = "kafka.bootstrap.servers"
_CLIENT_ID: Final = "kafka.client.id"
_PROTOCOL: Final = "kafka.security.protocol"
_REQUEST_MS: Final = "kafka.request.timeout.ms"
_CONNECT_MS: Final = "kafka.socket.connection.setup.timeout.ms"
_PATIENCE_MS: Final = "kafka.default.api.timeout.ms"

CONNECTION_OPTIONS: Final = TLS_OPTIONS | {
    _SERVERS,
    _CLIENT_ID,
    _PROTOCOL,
    _REQUEST_MS,
    _CONNECT_MS,
    _PATIENCE_MS,
}
"""Every option that is read here, as Spark hands it over: in lower case."""

_SERVER: Final = re.compile(
    # Kafka's own clients take the name of a listener in front, too.
    r"(?:[A-Za-z]\w*://)?(?P<host>\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[\w.-]+):(?P<port>[0-9]{1,5})"
)
_LIKE_THIS: Final = "for instance broker1:9092,broker2:9092"


class Server(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """As it is written in a list of servers."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Connection:
    """Travels from the driver to the tasks, and is the key under which a process keeps links."""

    servers: tuple[Server, ...]
    client_id: str = "barnabas-spark"
    request_timeout_s: float = 30.0
    connect_timeout_s: float = 10.0
    patience_s: float = 60.0
    """How long to ask again when a broker is away, a leader is missing or a transaction ends.

    A question that is asked by then still has its own time for an answer.
    """
    tls: Tls | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "Connection":
        """From Kafka's options, their names in lower case; SparkJobError for what can not be."""
        if not options.get(_SERVERS, "").strip(" ,"):
            raise SparkJobError(f"The option {_SERVERS} is missing: {_LIKE_THIS}.")
        for name in options:
            if name.startswith("kafka.sasl."):
                raise SparkJobError(_no_sasl(name))
        return cls(
            servers=parse_servers(options[_SERVERS]),
            client_id=options.get(_CLIENT_ID) or "barnabas-spark",
            request_timeout_s=_seconds(options, _REQUEST_MS, 30_000),
            connect_timeout_s=_seconds(options, _CONNECT_MS, 10_000),
            patience_s=_seconds(options, _PATIENCE_MS, 60_000),
            tls=_tls(options),
        )

    def __str__(self) -> str:
        """The servers, as the option has them."""
        return ",".join(map(str, self.servers))


def parse_servers(text: str) -> tuple[Server, ...]:
    """`host:port,host:port`; SparkJobError that quotes what is not."""
    servers = []
    for entry in filter(None, map(str.strip, text.split(","))):
        found = _SERVER.fullmatch(entry)
        if found is None or not 0 < int(found["port"]) < 65_536:
            raise SparkJobError(
                f"{_SERVERS} is {text!r}, and {entry!r} in it is not host:port: {_LIKE_THIS}."
            )
        host = found["host"].removeprefix("[").removesuffix("]")
        servers.append(Server(host, int(found["port"])))
    return tuple(dict.fromkeys(servers))


def _tls(options: Mapping[str, str]) -> Tls | None:
    protocol = options.get(_PROTOCOL, "PLAINTEXT").strip().upper()
    if protocol == "SSL":
        return Tls.from_options(options)
    if protocol.startswith("SASL"):
        raise SparkJobError(_no_sasl(f"{_PROTOCOL}={protocol}"))
    if protocol != "PLAINTEXT":
        raise SparkJobError(f"{_PROTOCOL} is {protocol!r}: PLAINTEXT or SSL is what it can be.")
    given = sorted(TLS_OPTIONS & options.keys())
    if given:
        raise SparkJobError(
            f"{given[0]} is set, but {_PROTOCOL} is PLAINTEXT: set that to SSL, or leave it out."
        )
    return None


def _no_sasl(what: str) -> str:
    return (
        f"{what} asks for SASL, which this data source does not speak: use a PLAINTEXT listener, "
        f"or {_PROTOCOL}=SSL with a client certificate (kafka.ssl.keystore.location)."
    )


def _seconds(options: Mapping[str, str], name: str, default_ms: int) -> float:
    text = options.get(name, str(default_ms)).strip()
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**31):
        raise SparkJobError(f"{name} is {text!r}: give milliseconds, such as {default_ms}.")
    return int(text) / 1000
