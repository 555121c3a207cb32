"""Makes, changes and deletes topics without end, and remembers what it was told about each."""

import threading
import time
from typing import Final

from tests.chaos import talk
from tests.chaos.journal import Journal
from tests.chaos.load import Worker

from barnabas.link.sync import Link

_RETRY_S: Final = 0.01
_KEY: Final = "retention.ms"


class TopicMaker(Worker):
    """`promised` are the topics that must exist, with their config; `gone` those that must not.

    What was asked for but not answered is in neither, and a config that was is None: both
    outcomes are right. Of every `keep_one_of` topics one is kept.
    """

    def __init__(
        self,
        name: str,
        journal: Journal,
        address: tuple[str, int],
        *,
        pause_s: float,
        keep_one_of: int,
    ) -> None:
        super().__init__(name, journal)
        self._address = address
        self._pause_s = pause_s
        self._keep_one_of = keep_one_of
        self._number = 0
        self._lock = threading.Lock()
        self.promised: dict[str, str | None] = {}
        self.gone: set[str] = set()

    def work(self) -> None:
        while not self.stopping.is_set():
            try:
                with Link(*self._address, timeout_s=30.0) as link:
                    while not self.stopping.is_set():
                        self._one_topic(link)
                        time.sleep(self._pause_s)
            except OSError:
                time.sleep(_RETRY_S)  # It is dead, or just dying; the next life is soon.

    def _one_topic(self, link: Link) -> None:
        self._number += 1
        name = f"{self.name}-{self._number}"
        talk.create_topic(link, name, 2, {_KEY: "1000000"})
        self._promise(name, None)
        value = str(self._number + 1_000_000)
        talk.set_config(link, name, _KEY, value)
        self._promise(name, value)
        if self._number % self._keep_one_of:
            with self._lock:
                del self.promised[name]
            talk.delete_topic(link, name)
            with self._lock:
                self.gone.add(name)

    def _promise(self, name: str, value: str | None) -> None:
        with self._lock:
            self.promised[name] = value

    def facts(self) -> tuple[dict[str, str | None], set[str]]:
        """What is promised at this moment."""
        with self._lock:
            return dict(self.promised), set(self.gone)


def check_topics(link: Link, promised: dict[str, str | None], gone: set[str]) -> list[str]:
    """What is not as it was promised."""
    there = talk.topics(link)
    problems = [f"topic {name} was deleted and is back" for name in sorted(gone & there.keys())]
    for name, value in promised.items():
        if name not in there:
            problems.append(f"topic {name} was created and is gone")
        elif value is not None and talk.config_of(link, name, _KEY) != value:
            problems.append(f"{_KEY} of topic {name} is not {value} any more")
        elif any(row["error_code"] != "NONE" for row in there[name]["partitions"]):
            problems.append(f"topic {name} has a partition that is offline")
    return problems
