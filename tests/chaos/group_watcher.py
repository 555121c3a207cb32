"""One who asks again and again for what groups have committed, who owns what, and their epochs."""

import time
from collections.abc import Collection
from typing import Final

from tests.chaos import group_asks
from tests.chaos.group_asks import Description
from tests.chaos.group_raw import Stage
from tests.chaos.load import Worker

from barnabas.link.sync import Link
from barnabas.model.errors import ErrorCode

_PAUSE_S: Final = 0.03


class Watcher(Worker):
    """Sees offsets and epochs go forward and partitions in one hand, or complains."""

    def __init__(self, stage: Stage, classic: Collection[str], consumer: Collection[str]) -> None:
        super().__init__("watcher", stage.journal)
        self._stage = stage
        self._classic = tuple(classic)
        self._consumer = tuple(consumer)

    def work(self) -> None:
        while not self.stopping.is_set():
            try:
                with Link(*self._stage.address, timeout_s=30.0) as link:
                    while not self.stopping.is_set():
                        self._look(link)
                        time.sleep(_PAUSE_S)
            except OSError:
                time.sleep(_PAUSE_S)  # Between two lives.

    def _look(self, link: Link) -> None:
        journal = self._stage.journal
        for group in (*self._classic, *self._consumer):
            floors = journal.floors(group)
            found = group_asks.committed(link, group)
            if not isinstance(found, ErrorCode):
                journal.fetch(group, floors, found)
            elif found not in group_asks.AWAY:
                journal.complain(f"the offsets of {group} are not told: {found.name}")
        for group in self._classic:
            self._note(group, group_asks.described(link, group))
        for group in self._consumer:
            self._note(group, group_asks.consumer_described(link, group, self._stage.names))

    def _note(self, group: str, told: Description | ErrorCode) -> None:
        if not isinstance(told, ErrorCode):
            self._stage.journal.describe(group, told)
