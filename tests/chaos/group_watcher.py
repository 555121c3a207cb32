"""One who asks again and again for what groups have committed, and for their epochs."""

import time
from collections.abc import Collection
from typing import Final

from tests.chaos import group_asks
from tests.chaos.group_raw import Stage
from tests.chaos.load import Worker

from barnabas.link.sync import Link
from barnabas.model.errors import ErrorCode

_PAUSE_S: Final = 0.03


class Watcher(Worker):
    """Sees offsets and epochs go forward, or complains."""

    def __init__(self, stage: Stage, groups: Collection[str], consumer_groups: Collection[str]):
        super().__init__("watcher", stage.journal)
        self._stage = stage
        self._groups = tuple(groups)
        self._consumer_groups = tuple(consumer_groups)

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
        for group in self._groups:
            floors = journal.floors(group)
            found = group_asks.committed(link, group)
            if not isinstance(found, ErrorCode):
                journal.fetch(group, floors, found)
            elif found not in group_asks.AWAY:
                journal.complain(f"the offsets of {group} are not told: {found.name}")
        for group in self._consumer_groups:
            told = group_asks.consumer_described(link, group, self._stage.names)
            if not isinstance(told, ErrorCode):
                journal.group_epoch(group, told.epoch)
