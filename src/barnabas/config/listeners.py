"""Listener addresses: `NAME://host:port`, and which of them are safe to open."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.config.keys import invalid

PLAINTEXT: Final = "PLAINTEXT"

_ADDRESS = re.compile(r"([A-Za-z0-9_-]+)://(\[[0-9a-fA-F:.%]+\]|[^:/\[\]\s]*):([0-9]{1,5})")
_BARE_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[^:/\[\]\s]+):([0-9]{1,5})")
_LOOPBACK_V4 = re.compile(r"127\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}")
_EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Listener:
    """One address with the name of its listener. Port 0 means: any free one."""

    name: str
    protocol: str
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        host = self.host.lower()
        return host in ("localhost", "::1") or bool(_LOOPBACK_V4.fullmatch(host))

    @property
    def is_every_address(self) -> bool:
        """Whether it means all of the machine's addresses, which no client can connect to."""
        return self.host in _EVERY_ADDRESS

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_address(key: str, text: str) -> tuple[str, int]:
    """`host:port`, as a pair. Port 0 means: any free one."""
    found = _BARE_ADDRESS.fullmatch(text.strip())
    if not found or int(found[2]) > 65535:
        raise invalid(key, text, "expected host:port, for example 127.0.0.1:9644")
    return found[1].strip("[]"), int(found[2])


def parse_protocol_map(key: str, entries: Iterable[str]) -> dict[str, str]:
    """`NAME:PROTOCOL` entries. PLAINTEXT is always known by its own name."""
    protocols = {PLAINTEXT: PLAINTEXT}
    for entry in entries:
        name, colon, protocol = (part.strip() for part in entry.partition(":"))
        if not name or not colon or not protocol:
            raise invalid(key, entry, "expected NAME:PROTOCOL")
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_listeners(
    key: str, entries: Iterable[str], protocols: Mapping[str, str]
) -> tuple[Listener, ...]:
    """The listeners of a list such as `PLAINTEXT://127.0.0.1:9092`, each name once."""
    listeners: dict[str, Listener] = {}
    for entry in entries:
        listener = _parse(key, entry, protocols)
        if listener.name in listeners:
            raise invalid(key, entry, f"listener {listener.name} is named twice")
        listeners[listener.name] = listener
    return tuple(listeners.values())


def check_reachable(listeners: Iterable[Listener], *, allow_insecure: bool) -> None:
    """Refuse to open an unprotected listener to others unless the operator said so."""
    for listener in listeners:
        if not listener.is_loopback and not allow_insecure:
            raise invalid(
                "listeners",
                listener,
                "a PLAINTEXT listener beyond loopback lets anyone on the network read and write; "
                "set allow.insecure=true if that is meant",
            )


def _parse(key: str, entry: str, protocols: Mapping[str, str]) -> Listener:
    found = _ADDRESS.fullmatch(entry.strip())
    if not found:
        raise invalid(
            key, entry, "expected NAME://host:port, for example PLAINTEXT://localhost:9092"
        )
    name, host, port = found[1].upper(), found[2].strip("[]"), int(found[3])
    if port > 65535:
        raise invalid(key, entry, "a port is at most 65535")
    protocol = protocols.get(name)
    if protocol is None:
        raise invalid(key, entry, f"listener.security.protocol.map has no protocol for {name}")
    if protocol != PLAINTEXT:
        raise invalid(key, entry, f"protocol {protocol} is not available, only PLAINTEXT is")
    return Listener(name, protocol, host, port)
