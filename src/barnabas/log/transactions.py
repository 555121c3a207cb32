"""Which transactions a partition holds that are not decided, or decided but not yet for everybody.

Pure state. Readers of committed records stop at the first of them. Transactions begin at the end
of the log, so the order in which they begin is the order of their first offsets.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.model.transactions import Marker
from barnabas.wire.records.control import EndTransactionMarker, marker_batch


class CompletedTransaction(NamedTuple):
    """A transaction that has got its marker, which lies at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class Transactions:
    """Begun, ended, and from which offset on that matters."""

    __slots__ = ("_ended", "ongoing")

    def __init__(self) -> None:
        self.ongoing: OrderedDict[int, int] = OrderedDict()
        """Producer id to first offset, the lowest offset first."""
        self._ended: list[tuple[int, int]] = []
        """Marker and first offset of those whose marker may lie above the high watermark. Both
        rise: one that began later and ended sooner than another never decides anything."""

    def __bool__(self) -> bool:
        return bool(self.ongoing or self._ended)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """The first batch of a transaction was written."""
        self.ongoing[producer_id] = first_offset

    def end(self, producer_id: int, marker_offset: int) -> None:
        """Its marker was written."""
        first = self.ongoing.pop(producer_id)
        ended = self._ended
        while ended and ended[-1][1] >= first:
            ended.pop()
        ended.append((marker_offset, first))

    def restore(self, ongoing: Iterable[tuple[int, int]]) -> None:
        """Replace everything by these: producer id and first offset of each."""
        self.ongoing = OrderedDict(sorted(ongoing, key=lambda each: each[1]))
        self._ended.clear()

    def keep_ended(self, before: "Transactions", up_to: int) -> None:
        """What had ended before the log was cut at `up_to` may still not be so for everybody."""
        self._ended.extend(each for each in before._ended if each[0] < up_to)

    def first_unstable(self, high_watermark: int) -> int | None:
        """The first offset whose fate is unknown, or known only by a marker that is not committed.

        `high_watermark` never falls, except by `restore`.
        """
        self.settle(high_watermark)
        undecided, ended = self.first_undecided(), self._ended
        if not ended:
            return undecided
        return ended[0][1] if undecided is None else min(undecided, ended[0][1])

    def settle(self, high_watermark: int) -> None:
        """Forget those whose markers are committed."""
        ended = self._ended
        settled = 0
        while settled < len(ended) and ended[settled][0] < high_watermark:
            settled += 1
        del ended[:settled]

    def first_undecided(self) -> int | None:
        """The first offset of the oldest transaction without a marker."""
        return next(iter(self.ongoing.values()), None)

    def stable_after(self, ending: CompletedTransaction) -> int:
        """Below which offset everything is decided once this one has ended."""
        for producer_id, first_offset in self.ongoing.items():
            if producer_id != ending.producer_id:
                return first_offset
        return ending.last_offset + 1


def ending_batch(marker: Marker, now_ms: int) -> bytes:
    """The control batch that a marker is stored as."""
    return marker_batch(
        EndTransactionMarker(marker.committed, marker.coordinator_epoch),
        timestamp=now_ms,
        producer_id=marker.producer_id,
        producer_epoch=marker.epoch,
    )
