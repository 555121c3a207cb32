"""The compose sample, played: its servers and brokers as processes on machines of the same names.

Brokers start with the sample's own file, arguments and environment; only where data lies is another
place. The ZooKeeper servers are those of `barnabas zookeeper --server`, as in the systemd sample.
"""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.deploy.machines import Machines
from tests.deploy.samples import (
    COMPOSE,
    CONFIG,
    SYSTEMD,
    BrokerSample,
    brokers,
    compose,
    read_env,
    unit_arguments,
    zookeepers,
)

COMMAND: Final = (sys.executable, "-m", "barnabas")
CLIENT: Final = "client"
RECORDS: Final = 10_000
_WAIT_S: Final = 300.0


class Trial:
    """Six machines and one for clients."""

    def __init__(self, folder: Path) -> None:
        self.samples = {sample.host: sample for sample in brokers("compose")}
        self._servers = [each.split(":")[0] for each in zookeepers("compose")]
        self._folder = folder
        self._machines = Machines([*self._servers, *self.samples, CLIENT], folder)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()

    @property
    def bootstrap(self) -> str:
        """Where the brokers are."""
        return ",".join(f"{host}:9092" for host in self.samples)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._machines)
            for number, host in enumerate(self._servers, 1):
                self._start(host, self._zookeeper(number, host), {})
            for sample in self.samples.values():
                self.start(sample)
            for host in self.samples:
                self.wait_until_ready(host)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def start(self, sample: BrokerSample) -> None:
        """Start a broker as the sample says."""
        file = str(COMPOSE.parent / "broker.toml")
        arguments = [file if each == CONFIG else each for each in sample.arguments]
        kept = {"BARNABAS_LOG_DIRS": str(self._data(sample.host))}
        self._start(sample.host, arguments, {**sample.environment, **kept})

    def end(self, host: str, number: signal.Signals) -> int:
        """Send the signal and wait; its exit code."""
        process = self._processes[host]
        process.send_signal(number)
        return process.wait(_WAIT_S)

    def lose_the_disk_of(self, host: str) -> None:
        """All that it had is gone."""
        shutil.rmtree(self._data(host))

    def wait_until_ready(self, host: str) -> None:
        """Until its sample's health check is content."""
        check = _health_check(host)
        command = [sys.executable, *check[check.index("-c") :]]

        def content() -> bool:
            try:
                self._machines.run(host, command)
            except AssertionError:
                return False
            return True

        self.wait_for(f"{host} is ready", content)

    def wait_until_in_sync(self) -> None:
        """Until every partition has three replicas in sync."""

        def whole() -> bool:
            rows = self.partitions()
            return bool(rows) and all(len(row["isr"]) == 3 for row in rows)

        self.wait_for("three replicas are in sync", whole)

    def partitions(self) -> list[dict[str, Any]]:
        """Of the topic, as `topic describe` tells."""
        (topic,) = json.loads(self.ask("topic", "describe", "orders", "--json"))
        return list(topic["partitions"])

    def ask(self, *arguments: str, given: str | None = None) -> str:
        """A command of Barnabas on the machine of clients."""
        return self._machines.run(CLIENT, [*COMMAND, *arguments, "-b", self.bootstrap], given)

    def wait_for(self, what: str, come: Callable[[], bool]) -> None:
        """Ask until it is so; who ended by itself is told."""
        deadline = time.monotonic() + _WAIT_S
        while not come():
            ended = [host for host, each in self._processes.items() if each.poll() is not None]
            if ended:
                raise AssertionError(f"{ended[0]} ended: {self._said(ended[0])[-2000:]}")
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain until {what}")
            time.sleep(0.3)

    def _zookeeper(self, number: int, host: str) -> list[str]:
        """The arguments of the systemd unit, with our names and our place for data."""
        known = read_env(SYSTEMD / "zookeeper.env")
        ours = {
            "ZOOKEEPER_SERVER": str(number),
            "ZOOKEEPER_HOST": host,
            "ZOOKEEPER_PEERS": ",".join(self._servers),
        }
        arguments = unit_arguments("barnabas-zookeeper.service", {**known, **ours})
        arguments[arguments.index("--data") + 1] = str(self._data(host))
        return arguments

    def _start(self, host: str, arguments: list[str], environment: dict[str, str]) -> None:
        with (self._folder / f"{host}.log").open("wb") as log:
            started = self._machines.start(host, [*COMMAND, *arguments], environment, log)
        self._processes[host] = started

    def _data(self, host: str) -> Path:
        return self._folder / f"{host}-data"

    def _said(self, host: str) -> str:
        return (self._folder / f"{host}.log").read_text(errors="replace")


def _health_check(host: str) -> list[str]:
    return list(compose()["services"][host]["healthcheck"]["test"])


def play(folder: Path) -> list[str]:
    """Write, read, kill one, update all; what was counted, a line each. Raises AssertionError."""
    lines = []
    with Trial(folder) as trial:
        lines.append("three ZooKeeper servers and three brokers are ready")
        trial.ask("topic", "create", "orders", "--partitions", "3")
        _write(trial, 0)
        trial.wait_until_in_sync()
        victim = f"broker-{trial.partitions()[0]['leader']}"
        trial.end(victim, signal.SIGKILL)
        _write(trial, RECORDS)
        trial.start(trial.samples[victim])
        trial.wait_until_ready(victim)
        trial.wait_until_in_sync()
        lines.append(
            f"{victim} was killed (kill -9), written to all the same, and is in sync again"
        )
        for host, sample in trial.samples.items():
            code = trial.end(host, signal.SIGTERM)
            if code != 0:
                raise AssertionError(f"{host} ended with {code} when it was told to")
            trial.start(sample)
            trial.wait_until_ready(host)
            trial.wait_until_in_sync()
        lines.append("each broker was stopped and started again, one at a time, as in an update")
        victim = f"broker-{trial.partitions()[0]['leader']}"
        trial.end(victim, signal.SIGKILL)
        trial.lose_the_disk_of(victim)
        _write(trial, 2 * RECORDS)
        trial.start(trial.samples[victim])
        trial.wait_until_ready(victim)
        trial.wait_until_in_sync()
        lines.append(f"{victim} was killed and its data removed; it has copied all of it")
        read = trial.ask("consume", "orders", "--from", "beginning", "--until-end").split()
        found = {int(each) for each in read}
        sent = 3 * RECORDS
        if len(read) != sent or found != set(range(sent)):
            raise AssertionError(f"{len(read)} read, {len(found)} different, of {sent}")
        lines.append(f"{sent:,} records written, {len(read):,} read, none lost, none twice")
    return lines


def _write(trial: Trial, first: int) -> None:
    numbers = range(first, first + RECORDS)
    trial.ask("produce", "orders", given="".join(f"{number}\n" for number in numbers))
