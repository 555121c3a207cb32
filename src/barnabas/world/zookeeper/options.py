"""How a ZooKeeper is reached: where, as whom, and how long to wait."""

import ssl
from dataclasses import dataclass

from kazoo.hosts import collect_hosts

from barnabas.model.errors import BarnabasError


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM format. Without a certificate of our own, only the servers show theirs.

    Without `key`, the certificate's file holds the key too.
    """

    ca: str
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = None
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """`connect` is "host:port,host:port/chroot"; the chroot is made when it is not there."""

    connect: str
    session_timeout_s: float = 18.0
    """What is asked for; the servers have the last word."""
    connect_timeout_s: float = 18.0
    auth: str | None = None
    """"user:password" for ZooKeeper's digest scheme. Then nobody else may read what is written."""
    tls: Tls | None = None

    def check(self) -> None:
        """Raise BarnabasError, one sentence, when something is wrong that no server need tell."""
        self._parsed()
        if self.auth is not None and not all(self.auth.partition(":")):
            raise BarnabasError("zookeeper.auth should be USER:PASSWORD.")
        if self.tls is not None:
            _check_files(self.tls)

    def hosts(self) -> tuple[tuple[str, int], ...]:
        """Every server. Raises BarnabasError when `connect` can not be understood."""
        return self._parsed()[0]

    def chroot(self) -> str:
        """Below which node everything is: "" for the whole tree."""
        return self._parsed()[1]

    def servers(self) -> str:
        """`connect` without the chroot."""
        return self.connect.partition("/")[0]

    def _parsed(self) -> tuple[tuple[tuple[str, int], ...], str]:
        try:
            hosts, chroot = collect_hosts(self.connect)
        except ValueError as error:
            raise BarnabasError(
                f"zookeeper.connect is {self.connect!r}, and should be HOST:PORT,HOST:PORT/PATH "
                f"({error})."
            ) from error
        return tuple(hosts), (chroot or "").rstrip("/")


def _check_files(tls: Tls) -> None:
    """kazoo would find out only as it connects, and try again and again."""
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(tls.ca)
    except OSError as error:
        raise BarnabasError(f"The authority's file {tls.ca} can not be used: {error}.") from error
    if tls.certificate is not None:
        try:
            context.load_cert_chain(tls.certificate, tls.key, tls.key_password or "")
        except OSError as error:
            raise BarnabasError(
                f"The certificate {tls.certificate} with the key {tls.key or 'in it'} can not be "
                f"used: {error}."
            ) from error
