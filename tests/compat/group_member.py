"""A member of a group: a process with somebody's client library in it, which reports what it sees.

The process is started with one argument, a JSON object: bootstrap, group, topics, protocol (classic
or consumer), assignor, instance_id, session_ms, heartbeat_ms, and commit: "auto" (the library does
it), "after" (each batch, once it is reported) or "told". Orders go to its standard input:
    {"op": "commit", "after_s": n}   work for so long without polling, then commit what was read
    {"op": "leave"}                  close the consumer and end; the end of the input means the same
Events come from its standard output, each with "at", the time of day:
    ready, working, leaving, left    how far it is
    assigned, revoked, lost          partitions: [[topic, partition], ...] that come or go
    received                         messages: [[topic, partition, offset, value], ...]
    committed, refused, error        what became of a commit; what else the library complains about
"""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

ROOT: Final = Path(__file__).parents[2]
END_WAIT_S: Final = 30.0
COMING: Final = "assigned"
GOING: Final = frozenset({"revoked", "lost"})
ENDING: Final = frozenset({"leaving", "killed", "paused"})

Place = tuple[str, int]
Commit = Literal["auto", "after", "told"]


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to be in a group: a library, a protocol, an assignor."""

    name: str
    command: Callable[[], list[str]]
    protocol: str = "classic"
    assignor: str = "range"
    cooperative: bool = False
    static: bool = True
    """Whether the library knows static members."""


@dataclass(frozen=True, kw_only=True)
class Membership:
    """What one member is started with."""

    bootstrap: str
    group: str
    topics: Sequence[str]
    protocol: str
    assignor: str
    session_ms: int
    heartbeat_ms: int
    instance_id: str | None = None
    commit: Commit = "after"


class Received(NamedTuple):
    """A message as it arrived."""

    topic: str
    partition: int
    offset: int
    value: str


class Event(NamedTuple):
    """Something that happened to a member."""

    kind: str
    at: float
    places: frozenset[Place]
    detail: str = ""


class GroupMember:
    """One process; its events are collected by a thread, and everything here is what it said."""

    def __init__(self, name: str, command: list[str], membership: Membership) -> None:
        self.name = name
        self.history: list[Event] = []
        self.received: list[Received] = []
        self.owned: frozenset[Place] = frozenset()
        self.alive = True
        self._process = subprocess.Popen(
            [*command, json.dumps(asdict(membership))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __str__(self) -> str:
        start = self.history[0].at if self.history else 0.0
        lines = [
            f"  {event.at - start:7.3f} {event.kind} {_short(event.places)} {event.detail}"
            for event in self.history
            if event.kind != "committed"
        ]
        state = "running" if self.alive else f"ended ({self._process.poll()})"
        about = f"{self.name}: {state}, owns {_short(self.owned)}, received {len(self.received)}"
        return "\n".join([about, *lines])

    def crashed(self) -> bool:
        """Whether the process has ended although nobody told it to."""
        return self.alive and self._process.poll() not in {None, 0}

    def said(self, kind: str) -> int:
        """How often it has said this."""
        return sum(event.kind == kind for event in self.history)

    def commit(self, after_s: float = 0.0) -> None:
        """Let it commit what it has read, after so much work."""
        self._order({"op": "commit", "after_s": after_s})

    def leave(self) -> None:
        """Let it close its consumer, and wait until the process has ended."""
        self._order({"op": "leave"})
        self._process.wait(END_WAIT_S)
        self._end()

    def kill(self) -> None:
        """End it without a word to anybody."""
        self._process.kill()
        self._process.wait(END_WAIT_S)
        self._end()
        self._happened("killed")

    def pause(self) -> None:
        """Stop the process: it keeps its connections and hears nothing."""
        self._process.send_signal(signal.SIGSTOP)
        self._happened("paused")

    def resume(self) -> None:
        """Let it go on where it was."""
        self._process.send_signal(signal.SIGCONT)
        self._happened("resumed")

    def discard(self) -> None:
        """Whatever state it is in, leave no process behind."""
        if self.alive:
            self.kill()

    def _order(self, order: dict[str, Any]) -> None:
        if self._process.stdin is None:
            raise AssertionError("the member has no pipes")
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def _end(self) -> None:
        self._reader.join(END_WAIT_S)
        self.alive = False
        self.owned = frozenset()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _happened(self, kind: str) -> None:
        self.history.append(Event(kind, time.time(), frozenset()))

    def _read(self) -> None:
        if self._process.stdout is None:
            raise AssertionError("the member has no pipes")
        for line in self._process.stdout:
            self._take(json.loads(line))

    def _take(self, told: dict[str, Any]) -> None:
        kind = told["event"]
        if kind == "received":
            self.received += [Received(*row) for row in told["messages"]]
            return
        places = frozenset((topic, partition) for topic, partition in told.get("partitions", ()))
        if kind == COMING:
            self.owned |= places
        elif kind in GOING:
            self.owned -= places
        detail = str(told.get("error", told.get("offsets", "")))
        self.history.append(Event(kind, told["at"], places, detail))


class Span(NamedTuple):
    """For how long a member took a partition for its own."""

    place: Place
    start: float
    end: float
    member: str


def spans(member: GroupMember) -> Iterator[Span]:
    """Every time it owned something, by its own account."""
    since: dict[Place, float] = {}
    for event in member.history:
        if event.kind == COMING:
            for place in event.places:
                since.setdefault(place, event.at)
        ended = set(since) if event.kind in ENDING else event.places & set(since)
        if event.kind in GOING | ENDING:
            for place in ended:
                yield Span(place, since.pop(place), event.at, member.name)
    for place, start in since.items():
        yield Span(place, start, float("inf"), member.name)


def owned_twice(members: Sequence[GroupMember]) -> list[tuple[Span, Span]]:
    """Pairs of members that had one partition at one time."""
    found = sorted(span for member in members for span in spans(member))
    return [
        (one, other)
        for one, other in pairwise(found)
        if one.place == other.place and other.start < one.end
    ]


def _short(places: frozenset[Place]) -> str:
    return "{" + ", ".join(str(partition) for _, partition in sorted(places)) + "}"
