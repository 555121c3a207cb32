"""What group scenarios play on: a topic, a producer that feeds it, members, and bounded waits."""

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Producer
from tests.compat.clients.probe import Probe
from tests.compat.group_member import Commit, GroupMember, Membership, Place, Way, owned_twice

WAIT_S: Final = 60.0
"""How long anything may take that must happen; nothing passes or fails by being quick."""
LOOK_S: Final = 0.02
CALM_S: Final = 1.0
"""How long a group is looked at when nothing may happen in it."""
PATIENT_MS: Final = 30_000
"""A session that outlasts every scenario in which all members live."""
SHORT_MS: Final = 3_000
"""A session that is over soon, for scenarios in which a member falls silent."""
HEARTBEAT_MS: Final = 300
PARTITIONS: Final = 6


class Feed:
    """Writes numbered messages, one partition after the other, and remembers them."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        self._topic = topic
        self._partitions = partitions
        self.sent: list[str] = []

    def send(self, count: int) -> list[str]:
        """Write so many, and return when the broker has them."""
        values = [str(len(self.sent) + n) for n in range(count)]
        failed: list[Any] = []
        for value in values:
            self._producer.produce(
                self._topic,
                value.encode(),
                partition=int(value) % self._partitions,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        assert self._producer.flush(WAIT_S) == 0
        assert not failed
        self.sent += values
        return values

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write all along while the block lasts."""
        done = threading.Event()

        def write() -> None:
            while not done.wait(0.05):
                self.send(self._partitions)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@dataclass
class GroupStage:
    """One topic, one way to be a member, and everything that was started here."""

    way: Way
    bootstrap: str
    partitions: int = PARTITIONS
    session_ms: int = PATIENT_MS
    members: list[GroupMember] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.topic = f"groups-{uuid.uuid4().hex[:10]}"
        self.group = f"of-{self.topic}"
        probe = Probe(self.bootstrap)
        probe.make_topic(self.topic, self.partitions)
        probe.reconnect()
        self.feed = Feed(self.bootstrap, self.topic, self.partitions)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self.members:
            member.discard()

    def join(
        self,
        count: int = 1,
        *,
        group: str | None = None,
        instance_id: str | None = None,
        commit: Commit = "after",
        way: Way | None = None,
    ) -> list[GroupMember]:
        """Start members at once; they are in the group when they own something."""
        chosen = way or self.way
        membership = Membership(
            bootstrap=self.bootstrap,
            group=group or self.group,
            topics=[self.topic],
            protocol=chosen.protocol,
            assignor=chosen.assignor,
            session_ms=self.session_ms,
            heartbeat_ms=HEARTBEAT_MS,
            instance_id=instance_id,
            commit=commit,
        )
        command = chosen.command()
        started = [
            GroupMember(f"{chosen.name} #{len(self.members) + n}", command, membership)
            for n in range(count)
        ]
        self.members += started
        return started

    def until(
        self, what: str, holds: Callable[[], bool], lacking: Callable[[], object] = str
    ) -> None:
        """Wait for it; when it does not come, say what is lacking and what every member said."""
        deadline = time.monotonic() + WAIT_S
        while not holds():
            if time.monotonic() > deadline or any(member.crashed() for member in self.members):
                about = f"never: {what} {lacking()}"
                raise AssertionError("\n".join([about, *map(str, self.members)]))
            time.sleep(LOOK_S)

    def balanced(self, members: Sequence[GroupMember]) -> None:
        """Wait until every partition has exactly one owner and nobody has two more than another."""
        self.until(f"balanced among {len(members)}", lambda: self._is_balanced(members))

    def calm(self, members: Sequence[GroupMember], act: Callable[[], None]) -> None:
        """Do something that may not move a partition at anybody."""
        before = [self._moves(member) for member in members]
        act()
        time.sleep(CALM_S)
        after = [self._moves(member) for member in members]
        assert after == before, "\n".join(map(str, self.members))

    def seen(self, members: Sequence[GroupMember], values: Sequence[str] | None = None) -> None:
        """Wait until these members together have received all of these values, or all there are."""
        wanted = set(self.feed.sent if values is None else values)

        def missing() -> list[str]:
            return sorted(wanted.difference(received(members)), key=int)

        self.until("every message seen", lambda: not missing(), missing)

    def seen_once(self, members: Sequence[GroupMember], values: Sequence[str]) -> None:
        """What these members received is exactly this, nothing twice."""
        self.seen(members, values)
        time.sleep(CALM_S)
        assert Counter(received(members)) == Counter(values), "\n".join(map(str, members))

    def never_owned_twice(self) -> None:
        """At no time two members of a group took one partition for their own."""
        assert owned_twice(self.members) == [], "\n".join(map(str, self.members))

    def committed(self) -> dict[Place, int]:
        """The group's offsets, as the broker answers them."""
        probe = Probe(self.bootstrap)
        wanted = {
            "group_id": self.group,
            "topics": [{"name": self.topic, "partition_indexes": list(range(self.partitions))}],
        }
        answer = probe.quietly("offset_fetch", 8, {"groups": [wanted]})
        probe.reconnect()
        (group,) = answer["groups"]
        assert group["error_code"] == "NONE", answer
        (topic,) = group["topics"]
        return {
            (self.topic, row["partition_index"]): row["committed_offset"]
            for row in topic["partitions"]
        }

    def _is_balanced(self, members: Sequence[GroupMember]) -> bool:
        owned = [member.owned for member in members]
        sizes = [len(places) for places in owned]
        return (
            sum(sizes) == self.partitions
            and len(frozenset().union(*owned)) == self.partitions
            and max(sizes) - min(sizes) <= 1
        )

    @staticmethod
    def _moves(member: GroupMember) -> int:
        return sum(bool(event.places) for event in member.history)


def received(members: Sequence[GroupMember]) -> list[str]:
    """The values that came, in no order."""
    return [message.value for member in members for message in list(member.received)]
