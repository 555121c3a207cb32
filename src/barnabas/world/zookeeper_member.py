"""One real ZooKeeper server on this machine; the others of its ensemble run on other machines."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from barnabas.model.errors import BarnabasError
from barnabas.world.zookeeper_folder import ZooKeeperFolder
from barnabas.world.zookeeper_server import ZooKeeperServer

MEMBERS_MIN: Final = 3
"""Of two servers no one may die: one alone is better."""

_DATA_PORT: Final = "2888"
_ELECTION_PORT: Final = "3888"
_PEER: Final = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[^:\s\[\]]+)(?::([0-9]{1,5}))?(?::([0-9]{1,5}))?")


def read_peers(words: str) -> Sequence[str]:
    """`host[:port[:port]]` with commas, server 1 first: each with both of its ports.

    Raises BarnabasError with what is wrong.
    """
    peers = []
    for word in words.split(","):
        found = _PEER.fullmatch(word.strip())
        data, election = (found[2] or _DATA_PORT, found[3] or _ELECTION_PORT) if found else ("", "")
        if found is None or not (0 < int(data) < 65536 and 0 < int(election) < 65536):
            raise BarnabasError(
                f"--peers: {word.strip()!r} is no server: write host, or host:2888:3888."
            )
        peers.append(f"{found[1]}:{int(data)}:{int(election)}")
    if len(peers) < MEMBERS_MIN:
        raise BarnabasError(
            f"--peers names {len(peers)}: an ensemble on several machines needs {MEMBERS_MIN} "
            "servers at least, to survive the death of one."
        )
    if len(set(peers)) < len(peers):
        raise BarnabasError("--peers names the same server twice.")
    return peers


class ZooKeeperMember:
    """Server `number` (from 1) of `peers`, in a folder below `directory`."""

    def __init__(
        self,
        directory: Path,
        number: int,
        peers: Sequence[str],
        *,
        port: int,
        host: str,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        if not 1 <= number <= len(peers):
            raise BarnabasError(
                f"--server {number}: --peers names servers 1 to {len(peers)}, in this order."
            )
        self.directory = directory
        self.number = number
        self.count = len(peers)
        self._folder = ZooKeeperFolder(directory, f"{number}/{self.count}")
        self.server = ZooKeeperServer(
            directory / f"server-{number}",
            port=port,
            host=host,
            number=number,
            peers=dict(enumerate(peers, 1)),
            settings=settings,
        )

    def __enter__(self) -> Self:
        """Start the process; `wait_ready` returns once a majority is there."""
        self._folder.take()
        try:
            self.server.start()
        except BaseException:
            self._folder.give_back()
            raise
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.server.stop()
        self._folder.give_back()

    def wait_ready(self) -> None:
        """However long the other machines take. Raises BarnabasError when the server has ended."""
        self.server.wait_ready(math.inf)
