"""A real Spark cluster on this machine, from the pip package: one master, some workers."""

import contextlib
import errno
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from barnabas.spark.errors import SparkJobError
from barnabas.spark.installation import spark_home
from barnabas.spark.java import find_java
from barnabas.spark.supervisor import Pauses
from barnabas.spark.watchdog import POLITE_S, Watchdog, send

_START_S: Final = 240.0
_LOOK_S: Final = 0.1
_ASK_S: Final = 10.0
_UI_PORT: Final = 8080
_MEMORY: Final = re.compile(r"[1-9]\d*[mMgG]")
_LIGHT: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Master and workers have little to do: they shall start soon and leave the cores to jobs."""
_WORKERS_MAX: Final = 200
"""Each has an address of its own in 127.0.0.0/24."""


class Change(NamedTuple):
    """Something that happened to a worker."""

    worker: int
    event: str
    """`died` or `back`."""
    sentence: str


@dataclass(slots=True)
class Daemon:
    """One Java process: the master or a worker."""

    name: str
    host: str
    port: int
    log: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the process, which also leads a process group; 0 when there is none."""
        return self.process.pid if self.process is not None else 0

    @property
    def is_running(self) -> bool:
        """Whether the process is there; it may not have registered yet."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """End it and its executors as a machine that loses power would."""
        if self.process is not None:
            send(self.pid, signal.SIGKILL)
            self.process.wait()

    def last_words(self) -> str:
        """The line of its log that most likely says why it ended."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()[-200:]
        except OSError:
            return ""
        telling = [line for line in lines if re.search(r"ERROR|Exception|Error:", line)]
        return (telling or lines or [""])[-1].strip()


@dataclass(slots=True)
class Worker(Daemon):
    """A worker, and when it is started again after it died."""

    number: int = 0
    pauses: Pauses = field(default_factory=Pauses)
    is_missing: bool = False
    again_at: float = 0.0


class StandaloneCluster:
    """A master and workers as processes of this machine; a context manager.

    Raises SparkJobError, with everything stopped again, when Java is missing, a port is taken or a
    process ends at once. Nothing outlives the process that started it, even when that is killed.
    On Linux each worker has an address of its own (127.0.0.2, 127.0.0.3, …), because Spark forgets
    the shuffle files of a whole address when one worker is lost.
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        cores: int = 1,
        memory: str = "1g",
        host: str = "127.0.0.1",
        port: int = 7077,
        ui_port: int | None = None,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        if not 1 <= workers <= _WORKERS_MAX or cores < 1:
            raise SparkJobError(
                f"A cluster has 1 to {_WORKERS_MAX} workers, with at least one core each."
            )
        if ":" in host:
            raise SparkJobError(f"{host} is an IPv6 address: use an IPv4 one, such as 127.0.0.1.")
        if not _MEMORY.fullmatch(memory):
            raise SparkJobError(f"{memory} is no amount of memory: write it as 512m or 2g.")
        self._wanted = workers
        self._cores = cores
        self._memory = memory
        self._host = host
        self._port = port
        self._ui_port = ui_port
        self._own_directory = directory is None
        self.directory = Path(directory or tempfile.gettempdir()).absolute()
        self._watchdog: Watchdog | None = None
        self._home = ""
        self.master = Daemon("master", host, port, Path())
        self.workers: list[Worker] = []

    @property
    def master_url(self) -> str:
        """For `--master` and `session(master=…)`."""
        return f"spark://{self._host}:{self._port}"

    @property
    def ui_url(self) -> str:
        """The master's page for people."""
        return f"http://{self._host}:{self._ui_port}"

    def start(self) -> Self:
        """Start everything, and wait until the master counts every worker as alive."""
        find_java()
        self._home = spark_home()
        self._choose_ports()
        if self._own_directory:
            self.directory = Path(tempfile.mkdtemp(prefix="barnabas-spark-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self._watchdog = Watchdog()
            self._start_master()
            self.workers = [self._new_worker(number) for number in range(1, self._wanted + 1)]
            for worker in self.workers:
                self._start_worker(worker)
            self.wait_until_alive(self._wanted)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop every process; what they wrote stays, unless the directory was a temporary one."""
        started = [each for each in (*self.workers, self.master) if each.process is not None]
        for daemon in started:
            send(daemon.pid, signal.SIGTERM)
        deadline = time.monotonic() + POLITE_S
        while any(each.is_running for each in started) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        for daemon in started:
            daemon.kill()
            daemon.process = None
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None
        if self._own_directory and self.directory.name.startswith("barnabas-spark-"):
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def state(self) -> dict[str, Any]:
        """What the master tells of itself and its workers; OSError when it gives no answer."""
        connection = http.client.HTTPConnection(self._host, self._ui_port, timeout=_ASK_S)
        try:
            connection.request("GET", "/json/")
            answer = connection.getresponse()
            told = json.loads(answer.read())
        except (http.client.HTTPException, ValueError) as error:
            raise OSError(f"{self.ui_url}/json/ gives no answer: {error}") from error
        finally:
            connection.close()
        return dict(told)

    def alive(self) -> set[tuple[str, int]]:
        """Host and port of every worker that is alive in the master's eyes."""
        return {
            (str(worker["host"]), int(worker["port"]))
            for worker in self.state()["workers"]
            if worker["state"] == "ALIVE"
        }

    def wait_until_alive(self, count: int, timeout_s: float = _START_S) -> None:
        """Until the master counts so many workers; SparkJobError when a process ends instead."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._check_running()
            # It may not listen yet.
            with contextlib.suppress(OSError):
                if len(self.alive()) >= count:
                    return
            if time.monotonic() > deadline:
                raise SparkJobError(
                    f"After {timeout_s:.0f} s not all of {count} workers are there: look into the "
                    f"logs in {self.directory}, or ask for fewer workers."
                )
            time.sleep(_LOOK_S)

    def tend(self) -> list[Change]:
        """Start dead workers again, with pauses; what has happened since the last call.

        Raises SparkJobError when the master has died: its cluster is gone with it.
        """
        self._check_master()
        happened: list[Change] = []
        for worker in self.workers:
            if not worker.is_running and not worker.is_missing:
                happened.append(self._lost(worker))
            elif not worker.is_running and time.monotonic() >= worker.again_at:
                self._start_worker(worker)
                worker.again_at = time.monotonic() + worker.pauses.next()
        missing = [worker for worker in self.workers if worker.is_missing and worker.is_running]
        if missing:
            # A master that gives no answer just now is asked again at the next call.
            with contextlib.suppress(OSError):
                alive = self.alive()
                happened += [
                    self._returned(each) for each in missing if (each.host, each.port) in alive
                ]
        return happened

    def _lost(self, worker: Worker) -> Change:
        code = worker.process.returncode if worker.process is not None else 0
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        worker.is_missing = True
        worker.again_at = time.monotonic() + worker.pauses.next()
        sentence = f"Worker {worker.number} (pid {worker.pid}) ended {how}; another is started."
        return Change(worker.number, "died", sentence)

    def _returned(self, worker: Worker) -> Change:
        worker.is_missing = False
        worker.pauses.reset()
        sentence = f"Worker {worker.number} is back (pid {worker.pid})."
        return Change(worker.number, "back", sentence)

    def _check_running(self) -> None:
        self._check_master()
        for worker in self.workers:
            if not worker.is_running and not worker.is_missing:
                raise SparkJobError(_ended_at_once(worker))

    def _check_master(self) -> None:
        if not self.master.is_running:
            raise SparkJobError(_ended_at_once(self.master))

    def _choose_ports(self) -> None:
        self._port = _free_port(self._host, self._port, "--port")
        if self._ui_port is None:
            taken = _is_taken(self._host, _UI_PORT)
            self._ui_port = _free_port(self._host, 0 if taken else _UI_PORT, "--ui-port")
        else:
            self._ui_port = _free_port(self._host, self._ui_port, "--ui-port")

    def _start_master(self) -> None:
        self.master = Daemon("master", self._host, self._port, self.directory / "master.log")
        self._launch(
            self.master,
            "org.apache.spark.deploy.master.Master",
            "--webui-port",
            str(self._ui_port),
        )

    def _new_worker(self, number: int) -> Worker:
        name = f"worker-{number}"
        host = self._host
        if host == "127.0.0.1" and sys.platform == "linux":
            host = f"127.0.0.{number + 1}"
        return Worker(name, host, 0, self.directory / f"{name}.log", number=number)

    def _start_worker(self, worker: Worker) -> None:
        if self._watchdog is not None and worker.process is not None:
            # Executors of a worker that is gone would end by themselves, but not at once.
            send(worker.pid, signal.SIGKILL)
            self._watchdog.forget(worker.pid)
        worker.port = _free_port(worker.host, 0, "--port")
        work = self.directory / worker.name
        self._launch(
            worker,
            "org.apache.spark.deploy.worker.Worker",
            *("--cores", str(self._cores), "--memory", self._memory),
            *("--work-dir", str(work), "--webui-port", "0", self.master_url),
        )

    def _launch(self, daemon: Daemon, kind: str, *arguments: str) -> None:
        command = [os.path.join(self._home, "bin", "spark-class"), kind]
        command += ["--host", daemon.host, "--port", str(daemon.port), *arguments]
        with daemon.log.open("ab") as log:
            daemon.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(daemon.host),
                start_new_session=True,
            )
        if self._watchdog is not None:
            self._watchdog.watch(daemon.pid)

    def _environment(self, host: str) -> dict[str, str]:
        # A master that quietly took the next port would not be found by anybody; and one whose
        # other door (for submissions by HTTP, which Python jobs can not use) is taken hangs.
        fixed = "-Dspark.port.maxRetries=0 -Dspark.master.rest.enabled=false"
        tidy = "-Dspark.worker.cleanup.enabled=true"
        scratch = self.directory / "scratch"
        return os.environ | {
            "SPARK_HOME": self._home,
            "SPARK_LOCAL_IP": socket.gethostbyname(host),
            "SPARK_LOCAL_DIRS": os.environ.get("SPARK_LOCAL_DIRS", str(scratch)),
            "SPARK_DAEMON_JAVA_OPTS": os.environ.get("SPARK_DAEMON_JAVA_OPTS", _LIGHT),
            "SPARK_DAEMON_MEMORY": os.environ.get("SPARK_DAEMON_MEMORY", "512m"),
            "SPARK_MASTER_OPTS": f"{os.environ.get('SPARK_MASTER_OPTS', '')} {fixed}".strip(),
            "SPARK_WORKER_OPTS": f"{os.environ.get('SPARK_WORKER_OPTS', '')} {tidy}".strip(),
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        }


def _ended_at_once(daemon: Daemon) -> str:
    said = daemon.last_words()
    return (
        f"The Spark {daemon.name} has ended{f' ({said})' if said else ''}: its log is {daemon.log}."
    )


def _is_taken(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except PermissionError as error:
            raise SparkJobError(
                f"Port {port} may not be used by this user: take one above 1023."
            ) from error
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True
            raise SparkJobError(
                f"{host} is no address of this machine ({error.strerror}): use 127.0.0.1."
            ) from error
    return False


def _free_port(host: str, port: int, flag: str) -> int:
    """`port`, or any free one for 0; SparkJobError when it is taken."""
    if port and _is_taken(host, port):
        raise SparkJobError(
            f"Port {port} of {host} is in use: stop who uses it, or choose another with {flag} "
            f"({flag} 0 takes any that is free)."
        )
    if port:
        return port
    with socket.socket(socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
