"""A story of clients with transactions on one broker, the same each time, recorded as it goes.

Nothing in it depends on who is faster: readers look when everything before is answered, and what
takes its time (markers, compaction) is waited for.
"""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.chaos import talk
from tests.chaos.broker_process import BrokerProcess
from tests.chaos.history_readers import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    GroupReader,
    RawReader,
)
from tests.chaos.history_writers import RepeatingWriter, SendingWriter, TransactionalWriter
from tests.chaos.recorder import Recorder
from tests.chaos.talk import Place

from barnabas.link.sync import Link
from barnabas.verify.checker import check
from barnabas.verify.findings import Verdict
from barnabas.verify.parsing import read_history

SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.backoff.ms": "50",
}
_ORDERS: Final[list[Place]] = [("orders", 0), ("orders", 1)]
_LATE: Final[list[Place]] = [("late", 0)]
_KEPT: Final[list[Place]] = [("kept", 0)]
_GROUP: Final = "readers"
_BATCHES: Final = 4
"""Of records that fill segments, so that those before are closed."""
_PATIENCE_S: Final = 60.0
_LOOK_S: Final = 0.02


class Story:
    """One broker and those who use it."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.path: Path = broker.home / "history.jsonl"
        self._recorder = Recorder(self.path)
        places = [*_ORDERS, *_LATE, *_KEPT]
        self._committed = RawReader(self._recorder, "committed", places, READ_COMMITTED)
        self._everything = RawReader(self._recorder, "everything", places, READ_UNCOMMITTED)
        self._group = GroupReader(self._recorder, "group", _GROUP, _ORDERS[:1])

    def tell(self) -> Verdict:
        """From the beginning to the end; what the checker says of it."""
        with self.broker.link() as link:
            talk.create_topic(link, "orders", 2)
            talk.create_topic(link, "late", 1)
            talk.create_topic(link, "kept", 1, {"internal.segment.bytes": "1024"})
            self._transactions(link)
            self._compaction(link)
        self._kill()
        with self.broker.link() as link:
            self._end(link)
        self._recorder.close()
        return check(read_history(self.path))

    # --- chapters ------------------------------------------------------------------------------

    def _transactions(self, link: Link) -> None:
        """One is committed, one aborted, one committed; somebody looks while each is open."""
        address = self.broker.address
        sender = SendingWriter(self._recorder, "sender", _ORDERS, address)
        writer = TransactionalWriter(self._recorder, "writer", _ORDERS, address, "w", _GROUP)
        sender.send(4)
        for commits in (True, False, True):
            writer.transact(4, commits=commits, hold=lambda: self._look(link))
            sender.send(2)
            self._settle(link)
        writer.close()

    def _compaction(self, link: Link) -> None:
        """A key has a value, and then one in a transaction that is open while the log is
        compacted, and aborted in the end; another key's second value was aborted before."""
        address = self.broker.address
        sender = SendingWriter(self._recorder, "keeper", _KEPT, address)
        first = TransactionalWriter(self._recorder, "undecided", _KEPT, address, "u")
        second = TransactionalWriter(self._recorder, "undone", _KEPT, address, "v")
        for key in ("decided", "done", "replaced", "replaced"):
            sender.send(1, key)
        second.transact(1, commits=False, key="done")

        def compact() -> None:
            for _ in range(_BATCHES):
                sender.send(10, "filling")
            talk.set_config(link, "kept", "min.cleanable.dirty.ratio", "0.01")
            talk.set_config(link, "kept", "cleanup.policy", "compact")
            replaced = 2
            self._wait("compaction", lambda: replaced not in self._offsets(link))

        for _ in range(_BATCHES):
            sender.send(10, "replaced")
        first.transact(1, commits=False, key="decided", hold=compact)
        self._settle_only(link, _KEPT[0])

    def _kill(self) -> None:
        """A producer is not told that its records are there, and sends them again."""
        with self.broker.link() as link:
            late = RepeatingWriter(self._recorder, "late", _LATE, link)
            late.send(link, 3)
            repeating = RepeatingWriter(self._recorder, "repeating", _ORDERS[:1], link)
            repeating.begin(link, 3)
        self.broker.kill()
        self.broker.start()
        with self.broker.link() as link:
            repeating.again(link)
            later = RepeatingWriter(self._recorder, "later", _LATE, link)
            later.send(link, 5)

    def _end(self, link: Link) -> None:
        self._look(link)
        for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
            places = [*_ORDERS, *_LATE, *_KEPT]
            name = f"final-{isolation}"
            RawReader(self._recorder, name, places, isolation).read_to_end(link)

    # --- looking -------------------------------------------------------------------------------

    def _look(self, link: Link) -> None:
        """Everybody reads what there is."""
        self._everything.read_to_end(link)
        self._committed.read_to_end(link)

    def _settle(self, link: Link) -> None:
        """Read on once every marker is written, as far as that will ever be."""
        self._settle_only(link, _ORDERS[0])
        self._wait("the group", lambda: self._offset_is_told(link))
        self._look(link)

    def _settle_only(self, link: Link, place: Place) -> None:
        self._wait("markers", lambda: self._is_settled(link, place))

    def _is_settled(self, link: Link, place: Place) -> bool:
        self._look(link)
        return self._committed.position[place] == talk.offset_of(link, place, -1)

    def _offset_is_told(self, link: Link) -> bool:
        try:
            self._group.read(link)
        except ConnectionError:
            return False
        return True

    def _offsets(self, link: Link) -> set[int]:
        """Of the records in the compacted topic, read by nobody in particular."""
        with closing(Recorder(Path("/dev/null"))) as nobody:
            reader = RawReader(nobody, "", _KEPT, READ_UNCOMMITTED)
            return {each.offset for each in reader.read(link, _KEPT[0])}

    @staticmethod
    def _wait(what: str, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: nothing happens")
            time.sleep(_LOOK_S)
