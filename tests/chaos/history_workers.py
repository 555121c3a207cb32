"""Writers at work, each in a thread of its own: they record what they do, until stopped."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.chaos.history_writers import SendingWriter, TransactionalWriter
from tests.chaos.journal import Journal
from tests.chaos.load import Worker
from tests.chaos.recorder import Recorder
from tests.chaos.talk import Place
from tests.chaos.transacting import FencedError

_ABORTED_SHARE: Final = 0.1


@dataclass(frozen=True)
class Desk:
    """What all writers of a run have in common."""

    journal: Journal
    recorder: Recorder
    address: str
    seed: int
    records: tuple[int, int] = (1, 20)
    """At once, from and to."""
    pause_s: float = 0.01
    """Between two of them."""


class WritingWorker(Worker):
    """Knows how much it has done, and what it was last told to be stored."""

    def __init__(self, name: str, desk: Desk, places: Sequence[Place]) -> None:
        super().__init__(name, desk.journal)
        self.desk = desk
        self.places = places
        self.random = random.Random(f"{desk.seed}/{name}")
        self.done = 0
        self.stored = 0
        """Records that were acknowledged, or committed."""
        self.lacking = 0
        """Records that were sent without a transaction, and not acknowledged."""
        self.last_told = 0.0, 0.0
        """When what was acknowledged last had begun, and when that was told: monotonic clock."""
        self._began = 0.0

    def next_count(self) -> int:
        """How many records come next; they are sent from now on."""
        self._began = time.monotonic()
        return self.random.randint(*self.desk.records)

    def acknowledged(self, count: int) -> None:
        """All that was sent is stored."""
        self.stored += count
        self.last_told = self._began, time.monotonic()


class Sending(WritingWorker):
    """Sends without transactions; round `keys` where there are any."""

    def __init__(
        self, name: str, desk: Desk, places: Sequence[Place], *, idempotent: bool = True,
        keys: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(name, desk, places)
        self._keys = keys
        self._writer = SendingWriter(
            desk.recorder, name, places, desk.address, idempotent=idempotent
        )

    def work(self) -> None:
        while not self.stopping.is_set():
            key = self._keys[self.done % len(self._keys)] if self._keys else None
            count = self.next_count()
            if self._writer.send(count, key):
                self.acknowledged(count)
            self.lacking = self._writer.lacking
            self.done += 1
            time.sleep(self.desk.pause_s)


class Transacting(WritingWorker):
    """One transaction after the other, some of them aborted; a group may move with them."""

    def __init__(
        self, name: str, desk: Desk, places: Sequence[Place], group: str | None = None,
        transactional_id: str | None = None,
    ) -> None:  # fmt: skip
        """The id is the name unless it is told."""
        super().__init__(name, desk, places)
        self.transactional_id = transactional_id or name
        self._group = group
        self.lives = 0

    def work(self) -> None:
        while not self.stopping.is_set():
            self.lives += 1
            # One life commits offsets: the next would begin with lower ones.
            group = self._group if self.lives == 1 else None
            try:
                writer = TransactionalWriter(
                    self.desk.recorder, f"{self.name}.{self.lives}", self.places,
                    self.desk.address, self.transactional_id, group,
                )  # fmt: skip
            except FencedError:
                continue
            try:
                while not self.stopping.is_set():
                    self._transact(writer)
            except FencedError:
                continue
            finally:
                writer.close()

    def _transact(self, writer: TransactionalWriter) -> None:
        commits = self.done > 0 and self.random.random() >= _ABORTED_SHARE
        count = self.next_count()
        if writer.transact(count, commits=commits) == "ok":
            self.acknowledged(count)
        self.done += 1
        time.sleep(self.desk.pause_s)
