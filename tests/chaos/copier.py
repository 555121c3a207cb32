"""A copier in a process of its own: read, transform, write, commit the offsets with it.

    python copier.py ADDRESS SLOT NAME HOME SEED

It reads topic `input` in group `copiers`, sees only what is committed, and writes each record,
changed, to the same partition of `output`, in transactions that also commit the group's offsets.
Some transactions it aborts on purpose, and does them again. It may be killed at any time: the
next process with its SLOT takes over its transactional id. NAME is new with each life.
"""

import ctypes
import os
import random
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from tests.chaos import transacting
from tests.chaos.copier_phase import Phase, PhaseFile
from tests.chaos.recorder import Recorder
from tests.chaos.transacting import SOON, FencedError, error_of

INPUT: Final = "input"
OUTPUT: Final = "output"
GROUP: Final = "copiers"
FENCED: Final = 3
"""Exit code of a copier that was fenced: its next life goes on."""

_DIE_WITH_PARENT: Final = 1
"""PR_SET_PDEATHSIG of Linux."""
_RECORDS_MAX: Final = 500
_OFFSETS_S_MAX: Final = 20.0
"""A broker that has died is replaced, or back, before that."""
_ABORTED_SHARE: Final = 0.1
_SEPARATOR: Final = "|"


def transformed(value: str) -> str:
    """What becomes of a value."""
    return value[::-1].upper()


def original_of(copied: str) -> str:
    """The transformed value in a record of the output: without the attempt that wrote it."""
    return copied.rpartition(_SEPARATOR)[0]


class Copier:
    """One life."""

    def __init__(
        self, address: str, slot: str, name: str, home: Path, seed: str,
        stopping: threading.Event,
    ) -> None:  # fmt: skip
        self._name = name
        self._stopping = stopping
        self._random = random.Random(f"{seed}/{name}")
        self._phase = PhaseFile(home / f"{name}.phase")
        self._recorder = Recorder(home / "histories" / f"{name}.jsonl")
        self._attempt = 0
        self._rebalances = 0
        self._owned: set[int] = set()
        self._parent = os.getppid()
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 3_000,
                "heartbeat.interval.ms": 300,
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 20,
                **SOON,
            }
        )
        self._producer = transacting.transactional_producer(address, f"copier-{slot}")

    def run(self) -> None:
        """Copy until told to stop, or until whoever started it is gone."""
        self._phase.enter(Phase.JOINING)
        self._recorder.note(self._name, "ok", "subscribe", [INPUT])
        self._consumer.subscribe(
            [INPUT], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        while not self._stopping.is_set() and os.getppid() == self._parent:
            before = self._rebalances
            messages = self._poll()
            if self._rebalances != before:
                # Some of it may be somebody else's by now: begin where the group stands.
                self._rewind()
            elif messages and not self._copy(messages):
                self._rewind()
        self._consumer.close()

    # --- the group -----------------------------------------------------------------------------

    def _assigned(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._owned |= {place.partition for place in places}
        self._phase.enter(Phase.POLLING if self._owned else Phase.JOINING)

    def _revoked(self, _consumer: Consumer, places: list[TopicPartition]) -> None:
        self._rebalances += 1
        self._owned -= {place.partition for place in places}
        self._phase.enter(Phase.POLLING if self._owned else Phase.JOINING)

    def _rewind(self) -> None:
        """Go to the committed offsets of all that is ours."""
        places = [TopicPartition(INPUT, partition) for partition in sorted(self._owned)]
        try:
            for place in self._consumer.committed(places, transacting.PATIENCE_S):
                place.offset = max(place.offset, 0)
                self._consumer.seek(place)
        except KafkaException as problem:
            raise FencedError(f"the place to go on is not told: {problem}") from problem

    def _poll(self) -> list[Message]:
        got = self._consumer.consume(self._random.randint(1, _RECORDS_MAX), timeout=0.1)
        messages = []
        for message in got:
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.fatal():
                raise FencedError(str(error))
        self._note_poll(messages)
        return messages

    def _note_poll(self, messages: Sequence[Message]) -> None:
        steps: dict[int, list[Any]] = {}
        for message in messages:
            partition = int(message.partition() or 0)
            step = steps.setdefault(partition, ["poll", INPUT, partition, []])
            step[3].append([message.offset(), _text_of(message)])
        if steps:
            self._recorder.note(self._name, "ok", "poll", [*steps.values()])

    # --- transactions --------------------------------------------------------------------------

    def _copy(self, messages: Sequence[Message]) -> bool:
        """Until it is committed; False when the group has moved on."""
        while self._random.random() < _ABORTED_SHARE:
            if not self._transact(messages, commits=False):
                return False
        return self._transact(messages, commits=True)

    def _transact(self, messages: Sequence[Message], *, commits: bool) -> bool:
        """One attempt; False when it did not go as intended."""
        self._attempt += 1
        sends = [
            ["send", OUTPUT, message.partition(),
             f"{transformed(_text_of(message))}{_SEPARATOR}{self._name}.{self._attempt}"]
            for message in messages
        ]  # fmt: skip
        ends: dict[int, int] = {}
        for message in messages:
            ends[int(message.partition() or 0)] = int(message.offset() or 0) + 1
        offsets = [["offset", GROUP, INPUT, *end] for end in ends.items()]
        self._recorder.note(self._name, "invoke", "txn", [*sends, *offsets])
        try:
            is_as_meant = self._attempt_to(sends, ends, messages, commits=commits)
        except FencedError:
            self._recorder.note(self._name, "info", "txn")
            raise
        self._phase.enter(Phase.POLLING)
        return is_as_meant

    def _attempt_to(
        self, sends: list[list[Any]], ends: dict[int, int], messages: Sequence[Message],
        *, commits: bool,
    ) -> bool:  # fmt: skip
        producer = self._producer
        self._phase.enter(Phase.SENDING)
        producer.begin_transaction()
        for send, message in zip(sends, messages, strict=True):
            _, topic, partition, value = send
            producer.produce(
                topic, value=value, key=message.key(), partition=partition,
                on_delivery=partial(_delivered, send),
            )  # fmt: skip
        producer.flush(transacting.PATIENCE_S)
        self._phase.enter(Phase.OFFSETS)
        is_there = all(len(send) == 5 for send in sends) and self._send_offsets(ends)
        if not is_there or not commits:
            self._phase.enter(Phase.ABORTING)
            transacting.abort(producer)
            self._phase.aborted()
            self._recorder.note(self._name, "fail", "txn")
            return is_there
        self._phase.enter(Phase.COMMITTING)
        self._recorder.note(self._name, "commit", "txn")
        outcome = transacting.commit(producer)
        if outcome == "ok":
            self._phase.committed(len(sends))
        self._recorder.note(self._name, outcome, "txn", sends if outcome == "ok" else None)
        return outcome == "ok"

    def _send_offsets(self, ends: dict[int, int]) -> bool:
        places = [TopicPartition(INPUT, *end) for end in ends.items()]
        # librdkafka 2.16 waits for ever, whatever it is told, once it has forgotten a broker that
        # was the group's coordinator: it keeps looking at what it has closed itself.
        watch = threading.Timer(_OFFSETS_S_MAX, self._give_up)
        watch.start()
        try:
            self._producer.send_offsets_to_transaction(
                places, self._consumer.consumer_group_metadata(), _OFFSETS_S_MAX
            )
        except KafkaException as problem:
            if error_of(problem).txn_requires_abort():
                return False
            raise FencedError(str(problem)) from problem
        finally:
            watch.cancel()
        return True

    def _give_up(self) -> None:
        """As if killed: the next life takes over, and aborts what this one leaves open."""
        print(f"{self._name}: no answer to the offsets", file=sys.stderr, flush=True)
        os._exit(FENCED)


def _delivered(send: list[Any], error: KafkaError | None, message: Message) -> None:
    """A record that is there has its offset in the history."""
    if error is None:
        send.append(message.offset())


def _text_of(message: Message) -> str:
    return (message.value() or b"").decode()


def main() -> int:
    """One life, as told on the command line."""
    _, address, slot, name, home, seed = sys.argv
    # Whoever started it may be killed while it is waiting inside librdkafka.
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    try:
        Copier(address, slot, name, Path(home), seed, stopping).run()
    except (FencedError, KafkaException) as reason:
        print(f"{name}: {reason}", file=sys.stderr, flush=True)
        return FENCED
    return 0


if __name__ == "__main__":
    sys.exit(main())
