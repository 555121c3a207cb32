"""Real ZooKeeper servers as processes of this machine: one, or an ensemble."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from barnabas.model.check import require
from barnabas.model.errors import BarnabasError
from barnabas.world.zookeeper_jars import find_jars, find_java

TICK_MS: Final = 500
"""ZooKeeper's unit of time. Sessions last two ticks at least: short ones can be tried."""

_SESSION_MS_MAX: Final = 60_000
_READY_S: Final = 60.0
_STOP_S: Final = 15.0
_LOOK_S: Final = 0.05
_SERVES: Final = b"Mode: "
"""What the answer to `srvr` holds when, and only when, the server serves clients."""

_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

_LOG4J: Final = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""
_LOGBACK: Final = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %-5level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""

_WHEN_WE_ARE_GONE: Final = 'read -r line; [ "$line" = done ] || kill -TERM "$1"'
"""A shell that reads from us: when we die without a word, the server is stopped too."""


def free_ports(count: int, host: str = "127.0.0.1") -> Sequence[int]:
    """Ports that nobody listens at now, all different."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            listener = stack.enter_context(socket.socket())
            listener.bind((host, 0))
            found.append(int(listener.getsockname()[1]))
        return found


class ZooKeeperServer:
    """One server. `peers` are the `server.N` lines of its ensemble, none for a server alone."""

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        number: int = 1,
        peers: Mapping[int, str] | None = None,
        settings: Mapping[str, str] | None = None,
        heap: str = "128m",
        sync: bool = True,
    ) -> None:
        """`settings` go into zoo.cfg as they are. Not `sync`: for tests, power loss loses data."""
        self.directory = directory
        self.host = host
        self.number = number
        self.port = port or free_ports(1, host)[0]
        self._peers = peers or {}
        self._settings = settings or {}
        self._heap = heap
        self._sync = sync
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    @property
    def connect(self) -> str:
        """Where clients find it."""
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        """What the server has to say."""
        return self.directory / "zookeeper.log"

    @property
    def pid(self) -> int:
        """Its process."""
        process = self._process
        if process is None:
            raise BarnabasError(f"The ZooKeeper server at {self.connect} is not started.")
        return process.pid

    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; `wait_ready` says when it serves.

        Raises BarnabasError without Java, without jars, and when the port is taken.
        """
        require(not self.is_running(), "the server runs already")
        command = [find_java(), *self._options(), _MAIN, str(self._write_files())]
        self._check_port()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                # Ctrl-C is for us: we stop the servers, and after what needs them.
                start_new_session=True,
            )
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WHEN_WE_ARE_GONE, "sh", str(self._process.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def wait_ready(self, timeout_s: float = _READY_S) -> None:
        """Return once it serves clients.

        Raises BarnabasError when it died, or does not within the time.
        """
        deadline = time.monotonic() + timeout_s
        while _SERVES not in self.ask("srvr"):
            if not self.is_running():
                raise BarnabasError(
                    f"The ZooKeeper server at {self.connect} ended at once ({self.last_words()}); "
                    f"see {self.log}."
                )
            if time.monotonic() > deadline:
                raise BarnabasError(
                    f"The ZooKeeper server at {self.connect} does not serve after {timeout_s:g} s; "
                    f"see {self.log}."
                )
            time.sleep(_LOOK_S)

    def ask(self, word: str) -> bytes:
        """The answer to one of ZooKeeper's four-letter words; empty when there is none."""
        try:
            with socket.create_connection((self.host, self.port), timeout=5) as link:
                link.sendall(word.encode())
                parts = []
                while part := link.recv(65536):
                    parts.append(part)
                return b"".join(parts)
        except OSError:
            return b""

    def stop(self) -> None:
        """End it in an orderly way, or by force if that takes too long."""
        process = self._process
        if process is not None:
            # A stopped process (SIGSTOP) would not hear the other signal.
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._forget()

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._forget()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process lives."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def __enter__(self) -> Self:
        """Start, and wait until it serves."""
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def _forget(self) -> None:
        self._process = None
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.communicate(b"done\n")

    def _options(self) -> Sequence[str]:
        options = [
            f"-Xmx{self._heap}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
            "-Dzookeeper.admin.enableServer=false",
            "-Dzookeeper.4lw.commands.whitelist=*",
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            f"-Dlogback.configurationFile={self.directory / 'logback.xml'}",
        ]
        if not self._sync:
            options.append("-Dzookeeper.forceSync=no")
        return [*options, "-cp", os.pathsep.join(map(str, find_jars()))]

    def _write_files(self) -> Path:
        data = self.directory / "data"
        try:
            data.mkdir(parents=True, exist_ok=True)
            (data / "myid").write_text(f"{self.number}\n")
            (self.directory / "log4j2.properties").write_text(_LOG4J)
            (self.directory / "logback.xml").write_text(_LOGBACK)
            configuration = self.directory / "zoo.cfg"
            configuration.write_text(self._configuration(data))
        except OSError as error:
            raise BarnabasError(
                f"ZooKeeper can not use the directory {self.directory}: {error.strerror}."
            ) from error
        return configuration

    def _configuration(self, data: Path) -> str:
        lines = {
            "dataDir": str(data),
            "clientPortAddress": self.host,
            "clientPort": str(self.port),
            "tickTime": str(TICK_MS),
            # On a busy machine a server may stand still for seconds; an election costs more.
            "initLimit": "40",
            "syncLimit": "12",
            "minSessionTimeout": str(2 * TICK_MS),
            "maxSessionTimeout": str(_SESSION_MS_MAX),
            "maxClientCnxns": "0",
            "autopurge.purgeInterval": "1",
            **{f"server.{number}": where for number, where in self._peers.items()},
            **self._settings,
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    def _check_port(self) -> None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.port))
            except OSError as error:
                raise BarnabasError(
                    f"ZooKeeper can not listen at {self.connect} ({error.strerror}): choose "
                    "another port, or stop what listens there."
                ) from error

    def last_words(self) -> str:
        """What its log says of why it ended."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        told = [line for line in lines if "Exception" in line or "ERROR" in line] or lines
        return told[-1].strip()[:300] if told else "it said nothing"
