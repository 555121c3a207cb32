"""`barnabas up --brokers N`: a cluster on this machine, in the foreground, looked after."""

import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self

from barnabas import __version__
from barnabas.cli.quick import Choices
from barnabas.config.broker_config import BrokerConfig
from barnabas.model.errors import BarnabasError
from barnabas.node.local_broker import LOOK_S, LocalBroker
from barnabas.node.local_cluster import LocalCluster, free_ports

_PAUSE_S: Final = 1.0
_PAUSE_S_MAX: Final = 30.0
_HEALTHY_S: Final = 5.0
"""A broker that served for so long was well: only those who die at once wait longer each time."""

_SHARED_OUT: Final = ("log.dirs", "log.dir", "listeners")
"""Keys of which each broker gets its own share."""
_REFUSED: Final = ("node.id", "broker.id", "advertised.listeners", "zookeeper.connect")
"""Keys that can not be the same for several brokers, or come with the command."""


class _StopError(Exception):
    """A signal has come."""


def serve_cluster(choices: Choices, brokers: int, config: BrokerConfig) -> None:
    """Run ZooKeeper and the brokers until SIGINT or SIGTERM."""
    settings = _settings(config)
    host, port = config.listeners[0].host, config.listeners[0].port
    with _directory(config, choices.memory) as directory:
        cluster = LocalCluster(
            directory,
            _ports(host, port, brokers),
            host=host,
            settings=settings,
            ensemble=choices.ensemble or 1,
            hear=lambda number, line: _tell(f"broker {number} | {line}"),
            log_level=choices.log_level,
            pid_files=True,
        )
        with _Signals() as signals:
            try:
                cluster.start(signals.heed)
                _tell_ready(cluster, choices.memory)
                _Supervision(cluster, signals).run()
            except _StopError:
                _stop(cluster, signals)
            except BaseException:
                cluster.kill()
                raise


class _Signals:
    """Counts SIGINT and SIGTERM. They are heeded where nothing is left half done."""

    def __init__(self) -> None:
        self._heard = 0
        self._heeded = 0
        self._before: dict[int, Any] = {}

    def heed(self) -> None:
        """Raise _StopError, once for each signal."""
        if self._heeded < self._heard:
            self._heeded += 1
            raise _StopError

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._heard += 1


class _Supervision:
    """Whoever dies is started again, after a moment."""

    def __init__(self, cluster: LocalCluster, signals: _Signals) -> None:
        self._cluster = cluster
        self._signals = signals
        self._pauses = dict.fromkeys(cluster.brokers, _PAUSE_S)
        self._ready_at = dict.fromkeys(cluster.brokers, time.monotonic())
        self._start_at: dict[int, float] = {}
        self._zookeeper_at = 0.0
        self._starting: set[int] = set()

    def run(self) -> None:
        """Until a signal comes."""
        while True:
            time.sleep(LOOK_S)
            self._signals.heed()
            self._look_after_zookeeper()
            for broker in self._cluster.brokers.values():
                self._look_after(broker)

    def _look_after_zookeeper(self) -> None:
        if time.monotonic() < self._zookeeper_at:
            return
        for server in self._cluster.zookeeper.dead():
            _tell(f"The ZooKeeper server at {server.connect} has ended; it is started again.")
            server.kill()  # Nothing is left to kill: it forgets the process.
            try:
                server.start()
            except BarnabasError as error:
                _tell(str(error))
            self._zookeeper_at = time.monotonic() + _PAUSE_S

    def _look_after(self, broker: LocalBroker) -> None:
        number, now = broker.number, time.monotonic()
        if number in self._start_at:
            if now >= self._start_at[number]:
                del self._start_at[number]
                self._starting.add(number)
                del self._ready_at[number]
                broker.start()
            return
        if number in self._starting:
            try:
                if not broker.is_ready():
                    return
            except BarnabasError as error:
                _tell(str(error))
            else:
                self._starting.discard(number)
                self._ready_at[number] = now
                _tell(f"Broker {number} is back at {broker.bootstrap}, as process {broker.pid}.")
        how = broker.ended()
        if how is not None:
            self._starting.discard(number)
            pause_s = self._next_pause(number, now)
            _tell(f"Broker {number} {how}; it is started again in {pause_s:g} s.")
            self._start_at[number] = now + pause_s

    def _next_pause(self, number: int, now: float) -> float:
        if now - self._ready_at.setdefault(number, now) >= _HEALTHY_S:
            self._pauses[number] = _PAUSE_S
        pause_s = self._pauses[number]
        self._pauses[number] = min(2 * pause_s, _PAUSE_S_MAX)
        return pause_s


def _stop(cluster: LocalCluster, signals: _Signals) -> None:
    """In an orderly way; a second signal does not wait for that."""
    _tell("Stopping the brokers, one after another. The next signal ends all of them at once.")
    try:
        cluster.stop(signals.heed)
    except _StopError:
        cluster.kill()
        raise BarnabasError(
            "The brokers were ended at once; they look through their logs at the next start."
        ) from None


@contextlib.contextmanager
def _directory(config: BrokerConfig, memory: bool) -> Iterator[Path]:
    if not memory:
        yield Path(config.log_dir).absolute()
        return
    with tempfile.TemporaryDirectory(prefix="barnabas-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def _settings(config: BrokerConfig) -> dict[str, str]:
    """What was set by flags and environment, for every broker."""
    for key in _REFUSED:
        if key in config.static:
            raise BarnabasError(
                f"{key} can not be set for several brokers at once: leave it out, or start each "
                "broker of the cluster with `barnabas broker`."
            )
    return {key: text for key, text in config.static.items() if key not in _SHARED_OUT}


def _ports(host: str, first: int, brokers: int) -> Sequence[int]:
    if first == 0:
        return free_ports(brokers, host)
    if first + brokers > 65536:
        raise BarnabasError(f"{brokers} brokers do not fit between port {first} and 65535.")
    return range(first, first + brokers)


def _tell_ready(cluster: LocalCluster, memory: bool) -> None:
    where = (
        "Everything is in a temporary directory and ends with it."
        if memory
        else f"Data is in {cluster.directory}."
    )
    kills = ", ".join(f"kill -9 {each.pid} (broker {each.number})" for each in _all(cluster))
    print(
        f"Barnabas {__version__} is ready at {cluster.bootstrap_servers} with "
        f"{len(cluster.brokers)} brokers; Ctrl-C stops it. {where} ZooKeeper is at "
        f"{cluster.zookeeper.connect}.\n"
        f"To see the others take over, kill one, and it comes back by itself: {kills}.",
        flush=True,
    )


def _all(cluster: LocalCluster) -> list[LocalBroker]:
    return list(cluster.brokers.values())


def _tell(line: str) -> None:
    # Somebody who has closed our output does not want the brokers to stop.
    with contextlib.suppress(BrokenPipeError):
        print(line, file=sys.stderr, flush=True)
