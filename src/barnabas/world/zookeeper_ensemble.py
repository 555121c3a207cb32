"""Several real ZooKeeper servers on this machine that are one ensemble."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from barnabas.model.errors import BarnabasError
from barnabas.world.zookeeper_folder import ZooKeeperFolder
from barnabas.world.zookeeper_server import ZooKeeperServer, free_ports


class ZooKeeperEnsemble:
    """`count` servers, each with a folder below `directory`; at `port` and the ports after it."""

    def __init__(
        self,
        directory: Path,
        count: int = 1,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        settings: Mapping[str, str] | None = None,
        sync: bool = True,
    ) -> None:
        self.directory = directory
        self._folder = ZooKeeperFolder(directory, str(count))
        ports = free_ports(count, host) if port == 0 else range(port, port + count)
        peers: dict[int, str] = {}
        if count > 1:
            inner = iter(free_ports(2 * count, host))
            for number in range(1, count + 1):
                peers[number] = f"{host}:{next(inner)}:{next(inner)}"
        self.servers: Sequence[ZooKeeperServer] = [
            ZooKeeperServer(
                directory / f"server-{number}",
                port=each,
                host=host,
                number=number,
                peers=peers,
                settings=settings,
                sync=sync,
            )
            for number, each in enumerate(ports, 1)
        ]

    @property
    def connect(self) -> str:
        """What clients are told: all servers, with commas."""
        return ",".join(server.connect for server in self.servers)

    def start(self) -> None:
        """Start every server and wait until all of them serve.

        Raises BarnabasError when one does not; then none runs.
        """
        self._folder.take()
        try:
            for server in self.servers:
                server.start()
            for server in self.servers:
                server.wait_ready()
        except BaseException:
            for server in self.servers:
                server.kill()
            self._folder.give_back()
            raise

    def stop(self) -> None:
        """Stop every server."""
        for server in self.servers:
            server.stop()
        self._folder.give_back()

    def dead(self) -> Iterator[ZooKeeperServer]:
        """The servers whose processes have ended by themselves."""
        return (server for server in self.servers if not server.is_running())

    def leader(self) -> ZooKeeperServer:
        """The one that leads now. Raises BarnabasError when none does."""
        for server in self.servers:
            if any(mode in server.ask("srvr") for mode in (b"Mode: leader", b"Mode: standalone")):
                return server
        raise BarnabasError(f"No server of {self.connect} leads.")

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()
