"""Hosts of their own for every process: network namespaces on one bridge, and what can be cut.

Nothing of it touches the machine's own network: the bridge lives in a namespace, too. Where
namespaces can not be made everything runs on loopback, through a proxy.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

from barnabas.node.local_cluster import free_ports

PREFIX: Final = "bnbchaos-"
CLIENTS: Final = "clients"
_SWITCH: Final = f"{PREFIX}switch"
_NAMESPACES: Final = Path("/run/netns")
_CLONE_NEWNET: Final = 0x40000000
_PROXY: Final = Path(__file__).with_name("proxy.py")
_NOBODY: Final = "02:77:00:00:00:ff"
"""A hardware address that no host has: what is sent there is lost without a word."""


class NoNetworkError(Exception):
    """Why there can be no namespaces here."""


class Network:
    """Hosts by name, each with an address; `with Network([...]) as network: …`.

    Within the block this thread, and those that it starts, are on the host of the clients.
    """

    how = "each on a host of its own (network namespaces)"

    def __init__(self, hosts: Sequence[str]) -> None:
        self.addresses = {CLIENTS: "10.77.0.1"} | {
            name: f"10.77.0.{number}" for number, name in enumerate(hosts, 11)
        }
        self._cuts: set[tuple[str, str]] = set()
        self._slow: set[str] = set()
        self._lock: IO[str] | None = None
        self._own: int | None = None

    def __enter__(self) -> "Network":
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise NoNetworkError("namespaces need root and iproute2")
        self._lock = (Path(tempfile.gettempdir()) / f"{PREFIX}lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise SystemExit("Another chaos run uses the network: wait until it ends.") from None
        try:
            _remove_leftovers()
            self._make()
            self._own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            _enter(CLIENTS)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave nothing behind."""
        if self._own is not None:
            _set_namespace(self._own)
            os.close(self._own)
            self._own = None
        _remove_leftovers()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @contextlib.contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """What this thread starts meanwhile runs on that host."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            _enter(host)
            yield
        finally:
            _set_namespace(before)
            os.close(before)

    def before(self, host: str, port: int) -> int:
        """Where others find what listens at this port of a host: there."""
        return port

    def runs(self, host: str, pid: int) -> None:
        """Which process is on a host: whoever is told by `inside`."""

    # What can be broken

    def cut(self, sender: str, receiver: str) -> None:
        """What one host sends to the other is lost from now on; the other way it arrives.

        (A blackhole route would be noticed by new connections at once, and by old ones never.)
        """
        self._cuts.add((sender, receiver))
        _ip("-n", PREFIX + sender, "neigh", "replace", self.addresses[receiver],
            "lladdr", _NOBODY, "dev", "eth0", "nud", "permanent")  # fmt: skip

    def slow_down(self, host: str, kbit: int) -> None:
        """What a host sends goes out slowly, and what does not fit into its queue is lost."""
        self._slow.add(host)
        _run("ip", "netns", "exec", PREFIX + host, "tc", "qdisc", "add", "dev", "eth0", "root",
             "tbf", "rate", f"{kbit}kbit", "burst", "16kbit", "latency", "800ms")  # fmt: skip

    def heal(self) -> None:
        """Everything arrives again."""
        for sender, receiver in self._cuts:
            _ip("-n", PREFIX + sender, "neigh", "del", self.addresses[receiver], "dev", "eth0")
        for host in self._slow:
            _run("ip", "netns", "exec", PREFIX + host,
                 "tc", "qdisc", "del", "dev", "eth0", "root")  # fmt: skip
        self._cuts.clear()
        self._slow.clear()

    # Inside

    def _make(self) -> None:
        try:
            _ip("netns", "add", _SWITCH)
            _ip("-n", _SWITCH, "link", "add", "bridge", "type", "bridge")
            _ip("-n", _SWITCH, "link", "set", "bridge", "up")
            for number, (host, address) in enumerate(self.addresses.items()):
                name, port = PREFIX + host, f"port{number}"
                _ip("netns", "add", name)
                _ip("-n", _SWITCH, "link", "add", port, "type", "veth",
                    "peer", "name", "eth0", "netns", name)  # fmt: skip
                _ip("-n", _SWITCH, "link", "set", port, "master", "bridge", "up")
                _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
                for device in ("lo", "eth0"):
                    _ip("-n", name, "link", "set", device, "up")
        except subprocess.CalledProcessError as error:
            _remove_leftovers()
            raise NoNetworkError(f"this system makes no namespaces: {error.stderr}") from error


class Loopback(Network):
    """Where there are no namespaces: everybody on one host, a proxy before each listener."""

    how = "all on loopback, a proxy before each listener"

    def __init__(self, hosts: Sequence[str]) -> None:
        super().__init__(hosts)
        self.addresses = dict.fromkeys(self.addresses, "127.0.0.1")
        self._proxy: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Network":
        self._proxy = subprocess.Popen(
            [sys.executable, str(_PROXY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A group of its own: it is needed until the end, whoever hears Ctrl-C before.
            process_group=0,
        )
        return self

    def close(self) -> None:
        """The proxy ends."""
        if self._proxy is not None:
            self._proxy.kill()
            self._proxy.communicate()
            self._proxy = None

    @contextlib.contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """Everybody is here."""
        yield

    def before(self, host: str, port: int) -> int:
        """Where others find what listens at this port."""
        (found,) = free_ports(1)
        self._order({"listen": found, "host": host, "to": port})
        return found

    def runs(self, host: str, pid: int) -> None:
        """Which process is on a host."""
        self._order({"pid": pid, "host": host})

    def cut(self, sender: str, receiver: str) -> None:
        """What one host sends to the other waits."""
        self._order({"cut": [sender, receiver]})

    def slow_down(self, host: str, kbit: int) -> None:
        """What a host sends goes out slowly."""
        self._order({"slow": host, "rate": kbit * 125})

    def heal(self) -> None:
        """Everything arrives again."""
        self._order({"heal": True})

    def _order(self, order: dict[str, object]) -> None:
        proxy = self._proxy
        assert proxy is not None
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        proxy.stdin.write(f"{json.dumps(order)}\n".encode())
        proxy.stdin.flush()
        if proxy.stdout.readline() != b"done\n":
            raise RuntimeError(f"the proxy did not {order}")


def _remove_leftovers() -> None:
    """Of a run that died: its processes, which have nobody to talk to, and its namespaces."""
    if not _NAMESPACES.is_dir():
        return
    for name in sorted(each.name for each in _NAMESPACES.iterdir()):
        if name.startswith(PREFIX):
            for pid in _ip("netns", "pids", name).split():
                with contextlib.suppress(ProcessLookupError):
                    if int(pid) != os.getpid():
                        os.kill(int(pid), signal.SIGKILL)
            _ip("netns", "del", name)


def _enter(host: str) -> None:
    descriptor = os.open(_NAMESPACES / (PREFIX + host), os.O_RDONLY)
    try:
        _set_namespace(descriptor)
    finally:
        os.close(descriptor)


def _set_namespace(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _ip(*arguments: str) -> str:
    return _run("ip", *arguments)


def _run(*command: str) -> str:
    # In a group of its own, so that Ctrl-C does not leave it half done.
    done = subprocess.run(command, check=True, capture_output=True, text=True, process_group=0)
    return done.stdout
