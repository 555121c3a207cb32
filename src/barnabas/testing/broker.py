"""`Broker`: a real one, for as long as a `with` block lasts; any Kafka client can use it."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from barnabas.config.layers import AT_HOME, load_broker_config
from barnabas.node.thread import BrokerThread


class Broker:
    """A broker on a thread of this process: `with Broker() as broker: broker.bootstrap_servers`.

    `memory` keeps everything in memory; otherwise files go to `data`, or to a temporary
    directory that is removed at the end. `config` takes any broker key, by its Kafka name.
    """

    def __init__(
        self,
        *,
        memory: bool = True,
        data: str | Path | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
        config: Mapping[str, object] | None = None,
    ) -> None:
        self._memory = memory
        self._data = None if data is None else str(data)
        self._temporary: str | None = None
        self._listener = f"PLAINTEXT://{host}:{port}"
        self._config = {key: text_of(value) for key, value in (config or {}).items()}
        self._thread: BrokerThread | None = None

    def start(self) -> Self:
        """Start; the broker answers when this returns."""
        if self._thread is not None:
            raise RuntimeError("this broker is running already")
        flags = {"listeners": self._listener, "log.dirs": self.data} | self._config
        config = load_broker_config(defaults=AT_HOME, flags=flags)
        self._thread = BrokerThread(config, memory=self._memory)
        return self

    def stop(self) -> None:
        """Stop cleanly. On disk, `start` brings everything back."""
        if self._thread is not None:
            thread, self._thread = self._thread, None
            thread.stop()

    @property
    def data(self) -> str:
        """The data directory; in memory, only a name."""
        if self._memory:
            return "memory"
        if self._data is None:
            self._data = self._temporary = tempfile.mkdtemp(prefix="barnabas-")
        return self._data

    @property
    def host(self) -> str:
        """Where it listens."""
        return self._running().address[0]

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._running().address[1]

    @property
    def bootstrap_servers(self) -> str:
        """What every Kafka client wants to know."""
        return f"{self.host}:{self.port}"

    def _running(self) -> BrokerThread:
        if self._thread is None:
            raise RuntimeError("the broker is not running: use it in a `with` block, or start it")
        return self._thread

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        finally:
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)


def text_of(value: object) -> str:
    """A value as configuration files have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
