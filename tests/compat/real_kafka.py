"""A real Apache Kafka 4.x in one process, as the yardstick for answers and for file formats.

The jars come from Maven Central once and are kept under ~/.cache/barnabas. Maven and Java are
needed, so only `make test-clients` and the differential probe come here.

    python -m tests.compat.real_kafka [key=value ...]    runs one in the foreground
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

KAFKA_VERSION: Final = "4.3.1"
CACHE: Final = Path(os.environ.get("BARNABAS_TEST_CACHE", str(Path.home() / ".cache" / "barnabas")))
START_WAIT_S: Final = 90.0
STOP_WAIT_S: Final = 30.0
TOOL_WAIT_S: Final = 90.0
_POM: Final = Path(__file__).parent / "clients" / "java" / "kafka-rig.pom.xml"
_CLUSTER_ID: Final = "QmFybmFiYXNDb21wYXQwMQ"


class RealKafkaError(Exception):
    """The rig could not do what was asked; the message holds the tool's own words."""


def available() -> bool:
    """Whether a real Kafka can be had here: the jars are cached, or Maven can bring them."""
    if shutil.which("java") is None:
        return False
    return _stamp().exists() or shutil.which("mvn") is not None


def jars() -> Path:
    """The directory with Kafka's jars; brought from Maven Central on first use."""
    stamp = _stamp()
    directory = stamp.parent / "jars"
    if stamp.exists():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    command = [
        "mvn", "-q", "-B", "-f", str(_POM), f"-Dkafka.version={KAFKA_VERSION}",
        "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={directory}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise RealKafkaError(f"Maven could not bring Kafka's jars:\n{done.stdout}{done.stderr}")
    stamp.touch()
    return directory


def java(*arguments: str) -> list[str]:
    """The command line of a small JVM with Kafka's classes; log4j's default prints errors only."""
    return ["java", "-Xmx768m", "-XX:+UseSerialGC", "-cp", f"{jars()}/*", *arguments]


def run_tool(*arguments: str, wait_s: float = TOOL_WAIT_S) -> str:
    """Run one of Kafka's own command line tools and return what it printed."""
    done = subprocess.run(
        java(*arguments), capture_output=True, text=True, timeout=wait_s, check=False
    )
    if done.returncode != 0:
        raise RealKafkaError(f"{arguments[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class RealKafka:
    """One combined broker and controller in KRaft mode, on ports of its own, in a directory.

    Without `directory` a temporary one is made and removed again at the end.
    """

    def __init__(
        self, config: Mapping[str, str] | None = None, *, directory: Path | None = None
    ) -> None:
        self._config = dict(config or {})
        self._owns_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="real-kafka-"))
        self.log_dir = self.directory / "data"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        """What the broker wrote to its console."""
        return (self.directory / "console.log").read_text(errors="replace")

    def start(self) -> None:
        """Format the storage when it is new, start the process and wait until it answers."""
        self.port, controller_port = _free_port(), _free_port()
        properties = self.directory / "server.properties"
        properties.write_text(self._properties(controller_port))
        run_tool(
            "kafka.tools.StorageTool", "format", "--ignore-formatted",
            "-t", _CLUSTER_ID, "-c", str(properties),
        )  # fmt: skip
        with (self.directory / "console.log").open("wb") as console:
            self._process = subprocess.Popen(
                java("kafka.Kafka", str(properties)), stdout=console, stderr=subprocess.STDOUT
            )
        self._await_port()

    def stop(self) -> None:
        """Shut down cleanly, so that the log directory is complete; the files stay."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        self.stop()
        if self._owns_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _properties(self, controller_port: int) -> str:
        listener = f"PLAINTEXT://127.0.0.1:{self.port}"
        values = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"{listener},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": listener,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._config,
        }
        return "".join(f"{key}={value}\n" for key, value in values.items())

    def _await_port(self) -> None:
        deadline = time.monotonic() + START_WAIT_S
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                raise RealKafkaError(f"Kafka ended while starting:\n{self.output}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise RealKafkaError(f"Kafka did not open its port:\n{self.output}")


def _stamp() -> Path:
    return CACHE / f"kafka-{KAFKA_VERSION}" / "complete"


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def main() -> None:
    """Run one until the standard input closes or an interrupt arrives."""
    config = dict(argument.split("=", 1) for argument in sys.argv[1:])
    with RealKafka(config) as kafka:
        print(kafka.bootstrap_servers, flush=True)
        try:
            sys.stdin.read()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
