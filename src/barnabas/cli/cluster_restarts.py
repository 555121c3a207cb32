"""How one broker is restarted: by a signal to its process, or by a command of the operator's."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from barnabas.log.names import LOCK
from barnabas.model.errors import BarnabasError
from barnabas.node.local_cluster import cluster_of, pid_file
from barnabas.operating.snapshot import BrokerFacts

Restart = Callable[[BrokerFacts], None]
"""Have a broker stopped and started; it need not be back when this returns."""


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
            if not _holds(process, path.with_suffix("") / LOCK):
                # Whoever has that number now has nothing to do with it.
                raise ProcessLookupError("it is not the broker of that directory")
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


def _holds(process: int, lock: Path) -> bool:
    """Whether a process has the lock of a data directory open, as far as the system tells."""
    if not Path("/proc/self/fd").is_dir():
        return True
    try:
        return any(os.path.samestat(lock.stat(), each) for each in _open_files(process))
    except FileNotFoundError:
        return False


def _open_files(process: int) -> Iterator[os.stat_result]:
    for each in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # Closed meanwhile.
            yield each.stat()


def restart_by_command(template: str, timeout_s: float) -> Restart:
    """Run a shell command for each; it ends with 0 when it was done, or begun."""

    def restart(broker: BrokerFacts) -> None:
        command = filled_in(template, broker)
        try:
            # The shell is the operator's own. It stays in our process group: in another one, ssh
            # and sudo could not ask for a password.
            done = subprocess.run(
                command, shell=True, capture_output=True, text=True, check=False, timeout=timeout_s
            )
        except subprocess.TimeoutExpired as error:
            raise BarnabasError(
                f"`{command}` has not ended within {timeout_s:g} s, and was killed; what it has "
                f"started may go on. Whether broker {broker.id} was restarted is not known, and "
                "nothing else was."
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
