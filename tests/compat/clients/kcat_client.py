"""kcat (librdkafka's command line tool, an older librdkafka) behind the common port."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from tests.compat.port import (
    CODECS,
    FETCH_WAIT_MS,
    PRODUCE_BYTES_MAX,
    WAIT_S,
    Can,
    Client,
    ClientError,
    Delivery,
    Message,
    Sending,
    Spec,
    Start,
    Time,
)

_FORMAT: Final = r"%o %p %T %K %S\n%k%s\n%h\n"
_NULL: Final = -1
_ERRORS: Final = {
    "Broker: Message size too large": "MESSAGE_TOO_LARGE",
    "Broker: Broker failed to validate record": "INVALID_RECORD",
    "Broker: Unknown topic or partition": "UNKNOWN_TOPIC_OR_PARTITION",
}


class KcatClient(Client):
    """A process for every call, or for a run of messages with one key and the same headers."""

    name = "kcat"
    codecs = CODECS
    can = frozenset(
        {
            Can.NULL_VALUES,
            Can.ACKS_ZERO,
            Can.IDEMPOTENCE,
            Can.AUTO_CREATION,
            Can.OUT_OF_RANGE_RESET,
            Can.INVALID_RECORD_ERROR,
            Can.DESCRIBE_CLUSTER,
        }
    )

    def close(self) -> None:
        """Nothing stays between calls."""

    def produce(
        self, topic: str, messages: Sequence[Message], sending: Sending | None = None
    ) -> list[Delivery]:
        results: list[Delivery] = []
        shape = lambda one: (one.partition, one.key, one.headers, one.value is None)  # noqa: E731
        for _, run in groupby(messages, key=shape):
            alike = list(run)
            error = self._produce_alike(topic, alike, sending or Sending())
            results += [Delivery(error=error)] * len(alike)
        return results

    def _produce_alike(self, topic: str, alike: list[Message], sending: Sending) -> str | None:
        first = alike[0]
        arguments = ["-P", "-t", topic, "-p", str(first.partition), "-z", sending.codec]
        arguments += ["-X", f"acks={sending.acks}", "-X", f"message.max.bytes={PRODUCE_BYTES_MAX}"]
        arguments += ["-X", f"enable.idempotence={str(sending.idempotent).lower()}"]
        for name, value in first.headers:
            arguments += ["-H", f"{name}={(value or b'').decode()}"]
        command = [text.encode() for text in arguments]
        if first.value is None:
            # An empty file would be passed over; an empty value after a key is sent as null.
            lines = ((first.key or b"") + b":\n") * len(alike)
            done = self._run(*command, b"-Z", b"-K:", given=lines)
        else:
            done = self._send_files(command, alike)
        return None if done.returncode == 0 else _error(done.stderr.decode(errors="replace"))

    def _send_files(
        self, command: list[bytes], alike: list[Message]
    ) -> subprocess.CompletedProcess[bytes]:
        key = alike[0].key
        with tempfile.TemporaryDirectory() as directory:
            paths = [Path(directory) / str(n) for n in range(len(alike))]
            for path, message in zip(paths, alike, strict=True):
                path.write_bytes(message.value or b"")
            keyed = [] if key is None else [b"-k", key]
            return self._run(*command, *keyed, *(str(path).encode() for path in paths))

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        start: Start = Spec.EARLIEST,
        wait_s: float = WAIT_S,
        fetch_wait_ms: int = FETCH_WAIT_MS,
    ) -> list[Message]:
        command = [
            "-C", "-q", "-u", "-t", topic, "-p", str(partition), "-o", _start(start),
            "-c", str(count), "-f", _FORMAT, "-X", "auto.offset.reset=earliest",
            "-X", f"fetch.wait.max.ms={fetch_wait_ms}",
        ]  # fmt: skip
        try:
            done = self._run(*(text.encode() for text in command), wait_s=wait_s)
        except subprocess.TimeoutExpired as over:
            return list(_messages(over.stdout or b""))
        if done.returncode != 0:
            raise ClientError(_error(done.stderr.decode(errors="replace")))
        return list(_messages(done.stdout))

    def brokers(self) -> set[str]:
        return {row["name"] for row in self.listing()["brokers"]}

    def listing(self) -> Any:
        """What `kcat -L -J` says of the cluster."""
        return json.loads(self._run(b"-L", b"-J").stdout)

    def offset(self, topic: str, start: Start, partition: int = 0) -> int | None:
        if not isinstance(start, Time):
            raise NotImplementedError
        asked = f"{topic}:{partition}:{start.ms}"
        said = self._run(b"-Q", b"-t", asked.encode()).stdout.decode()
        return int(said.rsplit(" ", 1)[1])

    def _run(
        self, *arguments: bytes, given: bytes = b"", wait_s: float = WAIT_S
    ) -> subprocess.CompletedProcess[bytes]:
        program = shutil.which("kcat") or shutil.which("kafkacat") or "kcat"
        command = [program.encode(), b"-b", self.bootstrap.encode(), *arguments]
        return subprocess.run(
            command, input=given, capture_output=True, timeout=wait_s, check=False
        )


def _start(start: Start) -> str:
    if isinstance(start, int):
        return str(start)
    if isinstance(start, Time):
        return f"s@{start.ms}"
    return "beginning" if start is Spec.EARLIEST else "end"


def _messages(output: bytes) -> Iterator[Message]:
    at = 0
    while at < len(output):
        line_end = output.index(b"\n", at)
        offset, partition, timestamp, key_size, size = map(int, output[at:line_end].split())
        key_end = line_end + 1 + max(key_size, 0)
        value_end = key_end + max(size, 0)
        headers_end = output.index(b"\n", value_end + 1)
        yield Message(
            value=None if size == _NULL else output[key_end:value_end],
            key=None if key_size == _NULL else output[line_end + 1 : key_end],
            headers=tuple(_headers(output[value_end + 1 : headers_end])),
            timestamp=timestamp,
            partition=partition,
            offset=offset,
        )
        at = headers_end + 1


def _headers(text: bytes) -> Iterator[tuple[str, bytes | None]]:
    for pair in text.split(b",") if text else ():
        name, value = pair.split(b"=", 1)
        yield name.decode(), None if value == b"NULL" else value


def _error(said: str) -> str:
    return next((name for words, name in _ERRORS.items() if words in said), said.strip())
