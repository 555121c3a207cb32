"""A correct log in memory, clients that use it at random, and the history they record."""

import random
from dataclasses import dataclass, field
from typing import Any

from tests.verify.recorded import Recorded

PARTITIONS = 3


@dataclass
class Stored:
    """What lies at an offset: a value, or the marker of a transaction (None)."""

    value: str | None
    is_committed: bool | None
    """None: the transaction is still open."""


@dataclass
class Txn:
    """A transaction that is under way."""

    process: str
    values: list[str]
    stored: list[tuple[str, int, int]] = field(default_factory=list)
    offset: int | None = None
    is_asked: bool = False


class Model:
    """Everything that can happen to a correct broker's clients, step by step."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.it = Recorded()
        self.logs: list[list[Stored]] = [[] for _ in range(PARTITIONS)]
        self.open: dict[str, Txn] = {}
        self.places: dict[tuple[str, int], int] = {}
        self.group_offset: int | None = None
        self._number = 0
        for reader in ("rc", "ru"):
            self._assign(reader)

    def run(self, steps: int) -> Recorded:
        """So many steps, then everything ends and is read."""
        for _ in range(steps):
            self.random.choice(
                (self._send, self._begin, self._begin, self._advance, self._advance,
                 self._advance, self._read, self._fetch_offset, self._lose)
            )()  # fmt: skip
        for name in tuple(self.open):
            while name in self.open:
                self._advance(name)
        for reader in ("rc", "ru"):
            for partition in range(PARTITIONS):
                self._read(reader, partition, None)
        return self.it

    # --- writers -------------------------------------------------------------------------------

    def _values(self, count: int) -> list[str]:
        values = []
        for _ in range(count):
            self._number += 1
            partition = self.random.randrange(PARTITIONS)
            values.append(f"v{self._number}" + (f"@{partition}" if partition else ""))
        return values

    def _append(self, value: str, is_committed: bool | None) -> tuple[str, int, int]:
        partition = int(value.partition("@")[2] or 0)
        self.logs[partition].append(Stored(value, is_committed))
        return value, partition, len(self.logs[partition]) - 1

    def _send(self) -> None:
        values = self._values(self.random.randint(1, 3))
        self.it.begin("plain", "send", values)
        outcome = self.random.choice(("ok", "ok", "fail", "info"))
        if outcome == "fail":
            self.it.end("plain", "send", "fail")
            return
        if outcome == "info":
            # Of what is stored some is acknowledged: the rest was told to have failed, or nothing.
            told: dict[str, int | None] = dict.fromkeys(values)
            for value in values[: self.random.randint(0, len(values))]:
                _, _, offset = self._append(value, True)
                told[value] = offset if self.random.random() < 0.5 else None
            self.it.end("plain", "send", "info", told)
            return
        stored = [self._append(value, True) for value in values]
        self.it.end("plain", "send", "ok", {value: offset for value, _, offset in stored})

    def _begin(self) -> None:
        name = f"w{self.random.randint(1, 3)}"
        if name in self.open:
            return
        txn = Txn(name, self._values(self.random.randint(1, 4)))
        steps: list[Any] = []
        if self.random.random() < 0.3 and not any(each.offset for each in self.open.values()):
            txn.offset = (self.group_offset or 0) + 1
            steps = [["offset", "g", "t", 0, txn.offset]]
        self.open[name] = txn
        self.it.begin(name, "txn", txn.values, *steps)

    def _advance(self, name: str | None = None) -> None:
        """One step of an open transaction: a record stored, the commit asked, the end."""
        if not self.open:
            return
        txn = self.open[name or self.random.choice(sorted(self.open))]
        if len(txn.stored) < len(txn.values):
            if self.random.random() < 0.1:
                self._end(txn, "fail")
                return
            txn.stored.append(self._append(txn.values[len(txn.stored)], None))
        elif not txn.is_asked and self.random.random() < 0.2:
            self._end(txn, "fail")
        elif not txn.is_asked:
            txn.is_asked = True
            self.it.line(txn.process, "commit", "txn")
        else:
            self._end(txn, self.random.choice(("ok", "ok", "ok", "fail", "info")))

    def _end(self, txn: Txn, outcome: str) -> None:
        del self.open[txn.process]
        is_committed = outcome == "ok" or (outcome == "info" and self.random.random() < 0.5)
        for _, partition, offset in txn.stored:
            self.logs[partition][offset].is_committed = is_committed
        for partition in {partition for _, partition, _ in txn.stored}:
            self.logs[partition].append(Stored(None, True))
        if is_committed and txn.offset is not None:
            self.group_offset = txn.offset
        told = {value: offset for value, _, offset in txn.stored} if outcome == "ok" else None
        self.it.end(txn.process, "txn", outcome, told)

    # --- readers -------------------------------------------------------------------------------

    def _assign(self, reader: str) -> None:
        starts = [self.places.get((reader, each), 0) for each in range(PARTITIONS)]
        for partition, start in enumerate(starts):
            self.places[reader, partition] = start
        self.it.assign(reader, *starts)

    def _lose(self) -> None:
        """A consumer begins at the start again, or where it was."""
        reader = self.random.choice(("rc", "ru"))
        if self.random.random() < 0.5:
            self.it.line(reader, "info", "crash")
        if self.random.random() < 0.5:
            for partition in range(PARTITIONS):
                self.places[reader, partition] = 0
        self._assign(reader)

    def _read(
        self, reader: str | None = None, partition: int | None = None, most: int | None = 4
    ) -> None:
        reader = reader or self.random.choice(("rc", "ru"))
        partition = self.random.randrange(PARTITIONS) if partition is None else partition
        log, of_committed = self.logs[partition], reader == "rc"
        records: dict[int, str] = {}
        position = self.places[reader, partition]
        while position < len(log) and (most is None or len(records) < most):
            stored = log[position]
            if of_committed and stored.is_committed is None:
                break  # The last stable offset.
            if stored.value is not None and (stored.is_committed or not of_committed):
                records[position] = stored.value
            position += 1
        told = position if self.random.random() < 0.5 or most is None else None
        if records or told is not None:
            isolation = "read_committed" if of_committed else "read_uncommitted"
            self.it.poll(reader, records, told, partition=partition, isolation=isolation)
        if told is not None or records:
            self.places[reader, partition] = told if told is not None else max(records) + 1

    def _fetch_offset(self) -> None:
        self.it.found("rc", self.group_offset)
