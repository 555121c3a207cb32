"""How one broker is restarted: by a signal to its process, or by a command of the operator's."""

import os
import select
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from barnabas.model.errors import BarnabasError
from barnabas.node.local_cluster import cluster_of, pid_file
from barnabas.operating.snapshot import BrokerFacts

Restart = Callable[[BrokerFacts], None]
"""Have a broker stopped and started; it need not be back when this returns."""

_CONNECT_S: Final = 5.0


def restart_by_pid(directory: str, cluster_id: str) -> Restart:
    """Stop brokers of `barnabas up --brokers N`, which starts them again by itself."""

    def restart(broker: BrokerFacts) -> None:
        path = pid_file(Path(directory), broker.id)
        try:
            process = int(path.read_text())
            if cluster_of(Path(directory), broker.id) != cluster_id:
                raise BarnabasError(
                    f"Broker {broker.id} of {directory} belongs to another cluster than the one "
                    "that is to be restarted: name the right directory with --data, or say with "
                    "--command how a broker is restarted."
                )
            os.kill(process, signal.SIGTERM)
        except FileNotFoundError as error:
            raise BarnabasError(
                f"There is no {path}: name the directory of `barnabas up --brokers N` with --data, "
                "or say with --command how a broker is restarted."
            ) from error
        except (ValueError, ProcessLookupError, PermissionError) as error:
            raise BarnabasError(
                f"The process that {path} names can not be stopped ({error}): is `barnabas up` "
                "running there?"
            ) from error

    return restart


def restart_by_command(template: str, timeout_s: float) -> Restart:
    """Run a shell command for each; it ends with 0 when it was done, or begun."""

    def restart(broker: BrokerFacts) -> None:
        command = filled_in(template, broker)
        try:
            done = subprocess.run(  # The shell is the operator's own.
                command, shell=True, capture_output=True, text=True, check=False, timeout=timeout_s
            )
        except subprocess.TimeoutExpired as error:
            raise BarnabasError(
                f"`{command}` has not ended within {timeout_s:g} s: whether broker {broker.id} was "
                "restarted is not known, and nothing else was."
            ) from error
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            why = f": {said[-1]}" if said else ""
            raise BarnabasError(
                f"`{command}` ended with exit code {done.returncode}{why}; broker {broker.id} may "
                "not be restarted, and nothing else was."
            )

    return restart


def filled_in(template: str, broker: BrokerFacts) -> str:
    """The command for one broker. Other braces stay, as shells use them too."""
    for name, value in (("id", broker.id), ("host", broker.host), ("port", broker.port)):
        template = template.replace(f"{{{name}}}", str(value))
    return template


class Connection:
    """A connection on which nothing is said: it breaks when the process at its end stops."""

    def __init__(self, broker: BrokerFacts) -> None:
        try:
            self._socket = socket.create_connection((broker.host, broker.port), _CONNECT_S)
        except OSError as error:
            raise BarnabasError(
                f"Broker {broker.id} does not answer at {broker.address} ({error}): nothing more "
                "is restarted."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def is_broken(self) -> bool:
        """Whether the other end has hung up."""
        if not select.select([self._socket], [], [], 0)[0]:
            return False
        try:
            return self._socket.recv(1) == b""
        except OSError:
            return True
