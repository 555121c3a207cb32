"""A real PostgreSQL of the test's own, from Debian's packages, as a user who is not root."""

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DEBIAN = "/usr/lib/postgresql/*/bin"
START_S = 60.0


def programs() -> Path | None:
    """Where `initdb` and `pg_ctl` are; None when PostgreSQL is not installed."""
    for directory in sorted(glob.glob(_DEBIAN), reverse=True):
        if (Path(directory) / "initdb").exists():
            return Path(directory)
    found = shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


@contextmanager
def running() -> Iterator[str]:
    """Starts a server in a temporary directory and yields how to connect to it."""
    where = programs()
    if where is None:
        raise RuntimeError("PostgreSQL is not installed: apt-get install postgresql")
    directory = Path(tempfile.mkdtemp(prefix="barnabas-postgres-"))
    user = _owner(directory)
    data = directory / "data"
    port = _free_port()
    options = f"-p {port} -c listen_addresses=127.0.0.1 -k {directory} -c fsync=off"
    try:
        _run(user, str(where / "initdb"), "-D", str(data), "-U", "barnabas", "-A", "trust", "-N")
        _run(
            user, str(where / "pg_ctl"), "-D", str(data), "-w", "-t", str(int(START_S)),
            "-l", str(directory / "log"), "-o", options, "start",
        )  # fmt: skip
        try:
            yield f"host=127.0.0.1 port={port} user=barnabas dbname=postgres"
        finally:
            _run(user, str(where / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _owner(directory: Path) -> str | None:
    """PostgreSQL refuses to run as root; Debian's package has made a user for it."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam("postgres")
    os.chown(directory, entry.pw_uid, entry.pw_gid)
    return "postgres"


def _run(user: str | None, *command: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=2 * START_S, check=False, user=user,
        cwd="/",
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
