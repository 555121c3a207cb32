"""What goes on beside the copiers: somebody writes their input, somebody reads their output."""

import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from tests.chaos.history_readers import READ_COMMITTED, ClientReader
from tests.chaos.history_writers import TransactionalWriter
from tests.chaos.journal import Journal
from tests.chaos.load import Worker
from tests.chaos.recorder import Recorder
from tests.chaos.talk import Place
from tests.chaos.transacting import FencedError

_RECORDS_MAX: Final = 800
_ABORTED_SHARE: Final = 0.1
_IDLE_S: Final = 0.01


class Feeder(Worker):
    """Writes the input in transactions, some of which it aborts; no faster than it is told."""

    def __init__(
        self, run: int, journal: Journal, recorder: Recorder, address: str,
        places: Sequence[Place], seed: str,
    ) -> None:  # fmt: skip
        super().__init__(f"feeder.{run}", journal)
        self._recorder = recorder
        self._address = address
        self._places = places
        self._random = random.Random(f"{seed}/feeder")
        self._lives = 0
        self.fed = 0
        """Records in transactions that were committed."""
        self.room: Callable[[], int] = lambda: 0
        """How many it may write now."""

    def work(self) -> None:
        while not self.stopping.is_set():
            self._lives += 1
            name = f"{self.name}.{self._lives}"
            try:
                self._feed(
                    TransactionalWriter(self._recorder, name, self._places, self._address, "feeder")
                )
            except FencedError:
                continue  # Nobody knows what became of the last transaction; the next are new.

    def _feed(self, writer: TransactionalWriter) -> None:
        while not self.stopping.is_set():
            room = self.room()
            if room <= 0:
                time.sleep(_IDLE_S)
                continue
            count = min(room, self._random.randint(1, _RECORDS_MAX))
            commits = self._random.random() >= _ABORTED_SHARE
            if writer.transact(count, commits=commits) == "ok":
                self.fed += count


class Follower(Worker):
    """Reads along, from the start."""

    def __init__(
        self, name: str, journal: Journal, recorder: Recorder, address: str,
        places: Sequence[Place], isolation: str = READ_COMMITTED,
    ) -> None:  # fmt: skip
        super().__init__(name, journal)
        self._reader = ClientReader(recorder, name, places, address, isolation)
        self.seen = 0

    def work(self) -> None:
        while not self.stopping.is_set():
            self.seen += self._reader.poll()
        self._reader.close()
