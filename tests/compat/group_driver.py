"""What the drivers of the Python libraries share: orders come and events go as JSON lines.

A driver is one member of a group, in a process of its own: it can be stopped, continued and killed
like anybody's consumer. What it is told and what it says is written down in `group_member.py`.
"""

import json
import queue
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

POLL_S: Final = 0.1

Place = tuple[str, int]
"""A topic and one of its partitions."""
Row = tuple[str, int, int, str]
"""A message: topic, partition, offset, value."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the driver is started with."""

    bootstrap: str
    group: str
    topics: list[str]
    protocol: str
    assignor: str
    instance_id: str | None
    session_ms: int
    heartbeat_ms: int
    commit: str


class RefusedError(Exception):
    """The broker, or the library, did not take the commit."""


class Library(Protocol):
    """What is asked of a library."""

    def poll(self) -> Sequence[Row]:
        """The messages that came within POLL_S."""

    def commit(self, offsets: dict[Place, int]) -> None:
        """Commit these and wait for the answer; RefusedError when it is a no."""

    def close(self) -> None:
        """Leave the group as the library does it."""


class Positions:
    """What the member owns, as far as it has been told, and how far it has read there."""

    def __init__(self) -> None:
        self._owned: set[Place] = set()
        self._next: dict[Place, int] = {}

    def assigned(self, places: Iterable[Place]) -> None:
        """The library gave these."""
        given = sorted(places)
        self._owned.update(given)
        tell("assigned", partitions=given)

    def revoked(self, places: Iterable[Place], event: str = "revoked") -> None:
        """The library took these away; whatever was read there is not this member's to commit."""
        gone = sorted(places)
        self._owned.difference_update(gone)
        for place in gone:
            self._next.pop(place, None)
        tell(event, partitions=gone)

    def received(self, rows: Sequence[Row]) -> None:
        """These were read.

        aiokafka hands out what it had fetched before also between the revocation and the next
        assignment: read, but no longer this member's to commit.
        """
        for topic, partition, offset, _ in rows:
            if (topic, partition) in self._owned:
                self._next[topic, partition] = offset + 1
        tell("received", messages=rows)

    def read(self) -> dict[Place, int]:
        """What there is to commit."""
        return dict(self._next)


def options() -> Options:
    """What the parent wrote on the command line."""
    return Options(**json.loads(sys.argv[1]))


def tell(event: str, **values: Any) -> None:
    """Say what happened, with the time by the clock that every process here shares."""
    sys.stdout.write(json.dumps({"event": event, "at": time.time(), **values}) + "\n")
    sys.stdout.flush()


def serve(library: Library, positions: Positions, *, commit_after: bool) -> None:
    """Poll, and do as told, until told to leave or until the parent has gone."""
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read_orders, args=(orders,), daemon=True).start()
    tell("ready")
    owes = False
    while True:
        while not orders.empty():
            order = orders.get()
            if order["op"] == "leave":
                tell("leaving")
                library.close()
                tell("left")
                return
            # Work that takes its time, on the thread that polls, as users do it.
            tell("working")
            time.sleep(order["after_s"])
            _commit(library, positions)
        rows = library.poll()
        if rows:
            positions.received(rows)
        if commit_after and (rows or owes):
            # What was refused while the group was on the move is owed until it is taken.
            owes = not _commit(library, positions)


def _commit(library: Library, positions: Positions) -> bool:
    """Whether what was read is committed."""
    offsets = positions.read()
    try:
        if offsets:
            library.commit(offsets)
    except RefusedError as error:
        tell("refused", error=str(error))
        return False
    else:
        rows = [(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        tell("committed", offsets=rows)
        return True


def _read_orders(orders: "queue.SimpleQueue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    orders.put({"op": "leave"})
