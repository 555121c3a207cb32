"""`python -m barnabas.cli.demo`: a broker, two client libraries, groups, transactions, and kills in
the middle.

Everything told is checked; whatever does not hold ends the demonstration with exit code 1.
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from barnabas.cli import demo_copier
from barnabas.cli.demo_clients import (
    WAIT_S,
    ConfluentKafka,
    Event,
    Library,
    Stored,
    create_topic,
    other_library,
)
from barnabas.cli.demo_groups import Group, rows
from barnabas.cli.ending import exit_code
from barnabas.cli.output import table
from barnabas.model.errors import BarnabasError

PARTITIONS: Final = 3
EVENTS: Final = 6000
_CUSTOMERS: Final = ("Olga", "Frieda", "Amalia", "Pepi", "Hans", "Otto", "Sortini", "Klamm")
_KINDS: Final = ("ordered", "paid", "shipped", "returned")
_READY: Final = re.compile(r"ready at ([^ ;]+):(\d+);")


class BrokerProcess:
    """`barnabas up` as a process of its own."""

    def __init__(self, data: str) -> None:
        self._data = data
        self._process: subprocess.Popen[str] | None = None
        self.port = 0

    @property
    def bootstrap(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> float:
        """Start it, on the same port as before; seconds until it was ready."""
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "barnabas.cli.main", "up", "--data", self._data,
             "--port", str(self.port), "--log-level", "error"],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        found = _READY.search(self._process.stdout.readline() if self._process.stdout else "")
        if found is None:
            self.stop()
            raise BarnabasError("The broker did not start.")
        self.port = int(found[2])
        return time.perf_counter() - began

    def kill(self) -> None:
        """End it as a crash would: SIGKILL, nothing is tidied up."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._reap()

    def stop(self) -> int:
        """End it as Ctrl-C would; its exit code."""
        if self._process is None:
            return 0
        self._process.terminate()
        return self._reap()

    def _reap(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        try:
            return process.wait(WAIT_S)
        finally:
            process.kill()
            if process.stdout is not None:
                process.stdout.close()


def events(count: int) -> list[Event]:
    """Small orders of a few customers."""
    return [
        Event(
            _CUSTOMERS[number * 7 % len(_CUSTOMERS)].encode(),
            json.dumps({"order": number, "event": _KINDS[number % len(_KINDS)]}).encode(),
        )
        for number in range(count)
    ]


def main() -> None:
    """Tell the story, then exit."""
    sys.exit(exit_code(tell))


def tell() -> None:
    """Start, stream, kill, restart, compare."""
    with tempfile.TemporaryDirectory(prefix="barnabas-demo-") as data:
        broker = BrokerProcess(data)
        try:
            seconds = broker.start()
            chapter(f"A broker, ready after {seconds * 1000:.0f} ms at {broker.bootstrap}")
            first, second = ConfluentKafka(broker.bootstrap), other_library(broker.bootstrap)
            exchange(broker, first, second, "orders")
            exchange(broker, second, first, "answers")
            survive_a_kill(broker, first, second)
            share_in_groups(broker, first)
            copy_exactly_once(broker, first)
            code = broker.stop()
            require(code == 0, f"the broker stopped with exit code {code}")
            verify_files(data)
        finally:
            broker.kill()
    print("\nEvery statement above was checked. `barnabas up` starts a broker that stays.")


def chapter(title: str) -> None:
    """A heading."""
    print(f"\n\033[1m{title}\033[0m" if sys.stdout.isatty() else f"\n{title}", flush=True)


def require(held: bool, otherwise: str) -> None:
    """End the demonstration when something told does not hold."""
    if not held:
        raise BarnabasError(f"The demonstration found a mismatch: {otherwise}.")


def exchange(broker: BrokerProcess, writer: Library, reader: Library, topic: str) -> None:
    """One library writes, the other reads the same, in the same order by key."""
    create_topic(broker.bootstrap, topic, PARTITIONS)
    sent = events(EVENTS)
    stored = writer.send(topic, sent)
    require(len(stored) == len(sent), f"{len(stored)} of {len(sent)} events were acknowledged")
    read = reader.read(topic, PARTITIONS, len(sent))
    require(sorted(read) == sorted(stored), f"{reader.name} read something else than was sent")
    require(by_key(read) == by_key_as_sent(sent), "the events of a key changed their order")
    chapter(
        f"{len(sent)} events with {len(_CUSTOMERS)} keys written to {topic!r} by {writer.name}, "
        f"read by {reader.name}"
    )
    print(table(("partition", "events", "offsets", "keys"), _rows(read)))
    print("Nothing is missing, nothing came twice, and each key's events are in order.")


def _rows(read: Sequence[Stored]) -> list[tuple[object, ...]]:
    counts = Counter(each.partition for each in read)
    rows: list[tuple[object, ...]] = []
    for number in range(PARTITIONS):
        keys = {each.event.key.decode() for each in read if each.partition == number}
        offsets = f"0 to {counts[number] - 1}" if counts[number] else "none"
        rows.append((number, counts[number], offsets, ", ".join(sorted(keys))))
    return rows


def by_key(read: Sequence[Stored]) -> dict[bytes, list[bytes]]:
    """The values of each key, in the order of their offsets."""
    found: dict[bytes, list[bytes]] = {}
    for each in sorted(read):
        found.setdefault(each.event.key, []).append(each.event.value)
    return found


def by_key_as_sent(sent: Sequence[Event]) -> dict[bytes, list[bytes]]:
    """The values of each key, in the order they were sent."""
    found: dict[bytes, list[bytes]] = {}
    for event in sent:
        found.setdefault(event.key, []).append(event.value)
    return found


def survive_a_kill(broker: BrokerProcess, writer: ConfluentKafka, reader: Library) -> None:
    """SIGKILL in the midst of writing; what was acknowledged must all be there afterwards."""
    topic = "ledger"
    create_topic(broker.bootstrap, topic, PARTITIONS)
    chapter(f"{EVENTS} events written to {topic!r} by {writer.name}; SIGKILL in the midst of it")
    kill = _KillInTheMiddle(broker, writer.producer())
    kill.write(topic, events(EVENTS))
    print(
        f"{kill.acknowledged_at_kill} events were acknowledged when the broker was killed. It was "
        f"back after {kill.restart_s * 1000:.0f} ms, and the producer went on by itself."
    )
    require(kill.acknowledged_at_kill > 0, "nothing had been acknowledged when the kill came")
    require(len(kill.stored) == EVENTS, f"only {len(kill.stored)} events were acknowledged")
    read = reader.read(topic, PARTITIONS, EVENTS)
    lost = set(kill.stored) - set(read)
    require(not lost, f"{len(lost)} acknowledged events were lost")
    twice = [value for value, count in Counter(each.event for each in read).items() if count > 1]
    require(not twice, f"{len(twice)} events are there twice")
    require(by_key(read) == by_key_as_sent(events(EVENTS)), "the events of a key lost their order")
    print(
        table(
            ("acknowledged", "read by", "found", "lost", "twice"),
            [(len(kill.stored), reader.name, len(read), len(lost), len(twice))],
        )
    )


class _KillInTheMiddle:
    """A producer that goes on writing while its broker is killed and started again."""

    def __init__(self, broker: BrokerProcess, producer: Any) -> None:
        self._broker = broker
        self._producer = producer
        self.stored: list[Stored] = []
        self.acknowledged_at_kill = 0
        self.restart_s = 0.0

    def write(self, topic: str, sent: Sequence[Event]) -> None:
        """A third that is acknowledged, a third that is on its way at the kill, the rest."""
        third = len(sent) // 3
        self._hand_over(topic, sent[:third])
        deadline = time.monotonic() + WAIT_S
        while len(self.stored) < third and time.monotonic() < deadline:
            self._producer.poll(0.01)
        self._hand_over(topic, sent[third : 2 * third])
        self._accident()
        self._hand_over(topic, sent[2 * third :])
        self._producer.flush(WAIT_S)

    def _hand_over(self, topic: str, sent: Sequence[Event]) -> None:
        for event in sent:
            self._producer.produce(topic, event.value, event.key, on_delivery=self._delivered)
            self._producer.poll(0)

    def _accident(self) -> None:
        self._broker.kill()
        self._producer.poll(0)
        self.acknowledged_at_kill = len(self.stored)
        self.restart_s = self._broker.start()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            raise BarnabasError(f"An event was given up by its producer: {error}.")
        event = Event(message.key(), message.value())
        self.stored.append(Stored(message.partition(), message.offset(), event))


def share_in_groups(broker: BrokerProcess, writer: ConfluentKafka) -> None:
    """Each group sees everything, each event goes to one member, and positions outlive a kill."""
    topic = "payments"
    chapter(f"Two groups read {topic!r}; the broker is killed while they are in the midst of it")
    create_topic(broker.bootstrap, topic, PARTITIONS)
    shared = Group(broker.bootstrap, "billing", topic, members=2, protocol="classic")
    audit = Group(broker.bootstrap, "audit", topic, members=1, protocol="consumer")
    for group in (shared, audit):
        group.assigned(PARTITIONS)
    writer.send(topic, events(EVENTS))
    shared.read(EVENTS // 2)
    audit.read(EVENTS // 3)
    broker.kill()
    broker.start()
    for group in (shared, audit):
        group.read(EVENTS)
        group.leave()
    header = ("group", "protocol", "events by member", "together", "twice")
    print(table(header, rows([shared, audit])))
    more = writer.send(topic, events(100))
    late = Group(broker.bootstrap, "billing", topic, members=1, protocol="classic")
    late.read(len(more))
    late.leave()
    fresh = {(each.partition, each.offset) for each in more}
    require(late.places() == fresh, "a group did not go on where it was")
    print(f"{len(more)} more were written; 'billing' came back and saw exactly those.")


def copy_exactly_once(broker: BrokerProcess, writer: ConfluentKafka) -> None:
    """A copier and the broker are killed in mid-transaction; the copy is exact all the same."""
    source, target = "readings", "copies"
    for topic in (source, target):
        create_topic(broker.bootstrap, topic, PARTITIONS)
    stored = writer.send(source, events(EVENTS))
    chapter(f"{EVENTS} events copied from {source!r} to {target!r}, exactly once")
    kills = []
    for who in ("copier", "broker"):
        copier = demo_copier.start(broker.bootstrap, source, target)
        kills.append((who, demo_copier.copied(copier, EVENTS // 4)))
        if who == "broker":
            broker.kill()
            broker.start()
        copier.kill()
        copier.communicate(timeout=WAIT_S)
    last = demo_copier.start(broker.bootstrap, source, target)
    last.communicate(timeout=2 * WAIT_S)
    require(last.returncode == 0, f"a copier ended with exit code {last.returncode}")
    read = writer.read(target, PARTITIONS, EVENTS)
    wanted = {key: [value.upper() for value in values] for key, values in by_key(stored).items()}
    require(by_key(read) == wanted, "the copy is not exact")
    for who, count in kills:
        print(f"The {who} was killed when {count} events were copied or on their way.")
    print(f"{len(read)} copies: none is missing, none is there twice, each key's are in order.")


def verify_files(data: str) -> None:
    """`barnabas log verify` has to find nothing."""
    chapter("barnabas log verify")
    done = subprocess.run(
        [sys.executable, "-m", "barnabas.cli.main", "log", "verify", data],
        stdout=subprocess.PIPE, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    print(done.stdout.strip())
    require(done.returncode == 0, "the files are damaged")


if __name__ == "__main__":
    main()
