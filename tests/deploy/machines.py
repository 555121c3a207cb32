"""Machines with names and addresses of their own, as network namespaces of this one.

Each has its own loopback and ports, so that all can listen at 0.0.0.0:9092 as in containers,
and finds the others by name. Needs root and `ip`.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

_PREFIX: Final = f"deploy{os.getpid()}-"
_SWITCH: Final = f"{_PREFIX}switch"
_NETWORK: Final = "10.94.0"
# A file system of its own for what it mounts, which goes when it ends.
_BEGIN: Final = 'mount --bind "$0" /etc/hosts && exec "$@"'


def available() -> bool:
    """Whether machines can be made here."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"{_PREFIX}try"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if tried.returncode != 0:
        return False
    _ip("netns", "del", name)
    return True


class Machines:
    """For as long as a `with` block; what still runs on them then is killed."""

    def __init__(self, names: Sequence[str], folder: Path) -> None:
        self._names = names
        self._hosts = folder / "hosts"

    def start(
        self, machine: str, command: Sequence[str], environment: dict[str, str], output: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """A process on one of them; both of its outputs go to the file."""
        return subprocess.Popen(
            [*self._on(machine), *command],
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def run(self, machine: str, command: Sequence[str], given: str | None = None) -> str:
        """What a command on one of them prints. Raises AssertionError when it fails."""
        done = subprocess.run(
            [*self._on(machine), *command],
            input=given,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def __enter__(self) -> Self:
        addresses = {name: f"{_NETWORK}.{at}" for at, name in enumerate(self._names, 1)}
        lines = [f"{address} {name}" for name, address in addresses.items()]
        self._hosts.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        try:
            _ip("netns", "add", _SWITCH)
            _ip("-n", _SWITCH, "link", "add", "switch", "type", "bridge")
            _ip("-n", _SWITCH, "link", "set", "switch", "up")
            for at, (name, address) in enumerate(addresses.items()):
                self._plug_in(f"port{at}", _PREFIX + name, address)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._remove()

    def _on(self, machine: str) -> list[str]:
        return ["ip", "netns", "exec", _PREFIX + machine, "sh", "-c", _BEGIN, str(self._hosts)]

    def _plug_in(self, port: str, namespace: str, address: str) -> None:
        _ip("netns", "add", namespace)
        ends = ("type", "veth", "peer", "name", "eth0", "netns", namespace)
        _ip("-n", _SWITCH, "link", "add", port, *ends)
        _ip("-n", _SWITCH, "link", "set", port, "master", "switch", "up")
        _ip("-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", namespace, "link", "set", "eth0", "up")
        _ip("-n", namespace, "link", "set", "lo", "up")

    def _remove(self) -> None:
        there = [line.split()[0] for line in _ip("netns", "list").splitlines()]
        for namespace in there:
            if namespace.startswith(_PREFIX):
                for pid in _ip("netns", "pids", namespace).split():
                    os.kill(int(pid), 9)
                _ip("netns", "del", namespace)


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
