"""Kafka's own Java client as a writer and a reader of numbers."""

import subprocess
import threading
from collections.abc import Callable
from typing import IO

from tests.compat.clients.java_program import SMALL, java_command
from tests.failover.traffic import PARTITIONS, Client


def java_writer(bootstrap: str) -> Callable[[Client], None]:
    def write(client: Client) -> None:
        def told(number: int, partition: int, offset: int) -> None:
            client.notes.sent = max(client.notes.sent, number + 1)
            client.notes.acknowledge(number, partition, offset)

        _run("write", bootstrap, client, told)

    return write


def java_reader(bootstrap: str) -> Callable[[Client], None]:
    def read(client: Client) -> None:
        def told(number: int, partition: int, offset: int) -> None:
            client.notes.see(partition, offset, number)

        _run("read", bootstrap, client, told)

    return read


def _run(role: str, bootstrap: str, client: Client, told: Callable[[int, int, int], None]) -> None:
    """Until the client is to stop; then the program ends by itself."""
    words = [role, bootstrap, client.notes.topic, str(PARTITIONS)]
    with subprocess.Popen(
        [*java_command("Numbers", *SMALL), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        threading.Thread(target=_end, args=(client, process.stdin), daemon=True).start()
        for line in process.stdout:
            if line.startswith("!"):
                client.notes.problems.append(f"java {role}r: {line.strip()}")
            elif line.startswith("sent "):
                client.notes.sent = int(line.split()[1])
            else:
                number, partition, offset = map(int, line.split())
                told(number, partition, offset)
    if process.returncode != 0:
        client.notes.problems.append(f"java {role}r: exit code {process.returncode}")


def _end(client: Client, stdin: IO[str]) -> None:
    client.stopping.wait()
    stdin.write("end\n")
    stdin.flush()
