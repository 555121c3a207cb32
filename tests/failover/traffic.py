"""Clients that write and read numbers all the time, whatever happens to the brokers meanwhile."""

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

PARTITIONS: Final = 3
_PAUSE_S: Final = 0.004
_END_S_MAX: Final = 120.0


@dataclass
class Notes:
    """What one writer was told, and one reader saw; each list has one thread that adds to it."""

    topic: str
    sent: int = 0
    acknowledged: dict[int, tuple[int, int | None, float]] = field(default_factory=dict)
    """By number: partition, offset, and when that was told. librdkafka tells no offset of what was
    refused by a leader that went on in a new epoch, once what came after it has been taken: that
    can only be if it is there."""
    seen: dict[int, list[tuple[int, int]]] = field(
        default_factory=lambda: {number: [] for number in range(PARTITIONS)}
    )
    """By partition: offsets and numbers, as they came."""
    problems: list[str] = field(default_factory=list)

    def acknowledge(self, number: int, partition: int, offset: int | None) -> None:
        """A write was confirmed."""
        if number in self.acknowledged:
            self.problems.append(f"{self.topic}: {number} was acknowledged twice")
        self.acknowledged[number] = partition, offset, time.monotonic()

    def see(self, partition: int, offset: int, number: int) -> None:
        """A record was read: offsets without gaps, numbers in the order they were written."""
        seen = self.seen[partition]
        before, last = seen[-1] if seen else (-1, partition - PARTITIONS)
        if offset != before + 1:
            self.problems.append(f"{self.topic}-{partition}: {offset} was read after {before}")
        if number != last + PARTITIONS:
            self.problems.append(f"{self.topic}-{partition}@{offset}: {number} came after {last}")
        known = self.acknowledged.get(number)
        if known is not None and (known[0] != partition or known[1] not in (None, offset)):
            self.problems.append(f"{self.topic}: {number} is at {offset}, not at {known}")
        seen.append((offset, number))

    def read(self) -> int:
        """How many records were read."""
        return sum(map(len, self.seen.values()))


class Client(threading.Thread):
    """A writer or a reader in a thread of its own; what it raises is a problem."""

    def __init__(self, notes: Notes, work: Callable[["Client"], None], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.notes = notes
        self.stopping = threading.Event()
        self._work = work

    def run(self) -> None:
        """Until told to stop."""
        try:
            self._work(self)
        except Exception as error:  # noqa: BLE001 - the test fails with it
            self.notes.problems.append(f"{self.name}: {type(error).__name__}: {error}")

    def next_number(self) -> int | None:
        """What to write next, to the partition of its remainder; None: it is time to end."""
        if self.stopping.wait(_PAUSE_S):
            return None
        number = self.notes.sent
        self.notes.sent += 1
        return number

    def end(self) -> None:
        """Stop, and wait for what is under way."""
        self.stopping.set()
        self.join(_END_S_MAX)
        if self.is_alive():
            self.notes.problems.append(f"{self.name} does not end")


class Traffic:
    """A writer and a reader of each library, each pair on a topic of its own."""

    def __init__(self) -> None:
        self.notes: dict[str, Notes] = {}
        self._writers: list[Client] = []
        self._readers: list[Client] = []

    def add(
        self,
        library: str,
        topic: str,
        write: Callable[[Client], None],
        read: Callable[[Client], None],
    ) -> None:
        """Begin with one more pair."""
        notes = self.notes[library] = Notes(topic)
        self._writers.append(Client(notes, write, f"{library} writer"))
        self._readers.append(Client(notes, read, f"{library} reader"))
        self._writers[-1].start()
        self._readers[-1].start()

    def wait_for_more(self, least: int = 50, timeout_s: float = 60.0) -> None:
        """Return once everybody has written and read so many more in each partition."""
        before = {library: notes.sent for library, notes in self.notes.items()}
        deadline = time.monotonic() + timeout_s
        while behind := self._behind(before, least):
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {timeout_s:g} s {', '.join(behind)} did not get on")
            time.sleep(0.02)
        self.check()

    def _behind(self, before: dict[str, int], least: int) -> list[str]:
        """Everything that was sent from now on, in every partition."""
        behind = []
        for library, notes in self.notes.items():
            goal = before[library] + least
            if not all(number in notes.acknowledged for number in range(goal - PARTITIONS, goal)):
                behind.append(f"{library}'s writer")
            if any(not seen or seen[-1][1] < goal - PARTITIONS for seen in notes.seen.values()):
                behind.append(f"{library}'s reader")
        return behind

    def check(self) -> None:
        """Nothing that must not be has happened so far."""
        problems = [problem for notes in self.notes.values() for problem in notes.problems]
        assert not problems, problems[:10]

    def resumed_s(self, since: float, partition: int = 0) -> dict[str, float]:
        """When a partition's writes went on after they stood still the longest, by library."""
        found = {}
        for library, notes in self.notes.items():
            times = sorted(
                at
                for where, _, at in list(notes.acknowledged.values())
                if where == partition and at >= since
            )
            pauses = [(after - at, after) for at, after in itertools.pairwise([since, *times])]
            found[library] = max(pauses)[1] - since
        return found

    def end(self) -> None:
        """Stop writing, read to the end, and see that everything that was sent is there, once."""
        for writer in self._writers:
            writer.end()
        deadline = time.monotonic() + _END_S_MAX
        while any(notes.read() < notes.sent for notes in self.notes.values()):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        for reader in self._readers:
            reader.end()
        for notes in self.notes.values():
            if notes.read() != notes.sent or len(notes.acknowledged) != notes.sent:
                notes.problems.append(
                    f"{notes.topic}: {notes.sent} sent, {len(notes.acknowledged)} acknowledged, "
                    f"{notes.read()} read"
                )
        self.check()

    def stop(self) -> None:
        """However it went."""
        for client in self._writers + self._readers:
            client.stopping.set()
        for client in self._writers + self._readers:
            client.join(_END_S_MAX)
