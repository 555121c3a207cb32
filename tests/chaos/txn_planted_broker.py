"""A broker with a planted defect: `python txn_planted_broker.py DEFECT REPORT WISHES up …`.

`barnabas verify` must name what each of them does to its clients; see test_txn_planted.
"""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.chaos import observed_broker
from tests.chaos.broker_process import BrokerProcess


def shows_open_transactions() -> None:
    """The last stable offset is the high watermark, whatever is open."""
    from barnabas.replica.partition import Partition

    Partition.last_stable_offset = property(  # type: ignore[assignment, method-assign]
        lambda self: self.high_watermark
    )


def commits_what_was_aborted() -> None:
    """Whatever was decided, the marker in the log says: committed."""
    from barnabas.replica.partition import Partition

    append_marker = Partition.append_marker

    def commit(self: Partition, marker: Any, now_ms: int) -> Any:
        return append_marker(self, dataclasses.replace(marker, committed=True), now_ms)

    Partition.append_marker = commit  # type: ignore[method-assign]


def aborts_a_part_of_what_was_committed() -> None:
    """In partitions with the number 1 every marker says: aborted."""
    from barnabas.replica.partition import Partition

    append_marker = Partition.append_marker

    def abort(self: Partition, marker: Any, now_ms: int) -> Any:
        if self.log.partition.partition == 1:
            marker = dataclasses.replace(marker, committed=False)
        return append_marker(self, marker, now_ms)

    Partition.append_marker = abort  # type: ignore[method-assign]


def forgets_a_marker() -> None:
    """Partitions with the number 1 get no markers."""
    from barnabas.broker.markers import PartitionMarkers

    append = PartitionMarkers._append

    def append_elsewhere(self: PartitionMarkers, marker: Any, at: Any) -> Any:
        is_data = not at.topic.startswith("__")
        return None if is_data and at.partition == 1 else append(self, marker, at)

    PartitionMarkers._append = append_elsewhere  # type: ignore[method-assign]


def keeps_offsets_of_what_was_aborted() -> None:
    """The offsets of every transaction count."""
    from barnabas.coordinator.group.offsets.pending import PendingOffsets

    end = PendingOffsets.end

    def commit(self: PendingOffsets, producer_id: int, *, committed: bool) -> Any:
        return end(self, producer_id, committed=True)

    PendingOffsets.end = commit  # type: ignore[method-assign]


def loses_offsets_of_what_was_committed() -> None:
    """The offsets of no transaction count."""
    from barnabas.coordinator.group.offsets.pending import PendingOffsets

    end = PendingOffsets.end

    def abort(self: PendingOffsets, producer_id: int, *, committed: bool) -> Any:
        return end(self, producer_id, committed=False)

    PendingOffsets.end = abort  # type: ignore[method-assign]


def forgets_producers() -> None:
    """After each start nobody is known."""
    from barnabas.log.producers import ProducerStates
    from barnabas.replica.partition import Partition

    begin = Partition.__init__

    def begin_anew(self: Partition, log: Any, *arguments: Any) -> None:
        log.producers = ProducerStates()
        begin(self, log, *arguments)

    Partition.__init__ = begin_anew  # type: ignore[assignment, method-assign]


def acknowledges_without_writing() -> None:
    """Records for topic `late` are acknowledged at once; to write them is left for later, which
    for a broker that is killed is never."""
    from barnabas.log.log import Appended
    from barnabas.replica.partition import Partition

    append = Partition.append
    promised: dict[str, int] = {}

    def promise(
        self: Partition, records: Any, header: Any, now_ms: int, guard: Any = None, **more: Any
    ) -> Any:
        if self.log.partition.topic != "late":
            return append(self, records, header, now_ms, guard, **more)
        first = promised.get(self.log.directory, 0)
        promised[self.log.directory] = first + header.count
        return Appended(first, first + header.count - 1, -1, False), None

    Partition.append = promise  # type: ignore[method-assign]


def tells_of_no_aborts() -> None:
    """Who reads what is committed is not told what was aborted."""
    from barnabas.replica.partition import Partition

    Partition.aborted_transactions = lambda *_: []  # type: ignore[method-assign]


def compacts_open_transactions() -> None:
    """The cleaner looks at what is not decided yet, and takes it for good."""
    from barnabas.broker.cleaning import Cleaning
    from barnabas.log.cleaner.choosing import cleanable

    def look_at(self: Cleaning, partition: Any) -> Any:
        log = partition.log
        return cleanable(log, self._store.cleaned_to.get(log.partition), log.end_offset,
                         self._clock.wall_ms())  # fmt: skip

    Cleaning._look_at = look_at  # type: ignore[method-assign]


def compacts_aborted_as_committed() -> None:
    """The cleaner does not know what was aborted."""
    from barnabas.broker import cleaning
    from barnabas.log.cleaner.choosing import plan_cleaning

    def plan(*arguments: Any) -> Any:
        return dataclasses.replace(plan_cleaning(*arguments), aborted=None)

    cleaning.plan_cleaning = plan  # type: ignore[assignment, attr-defined]


DEFECTS: Final[dict[str, Callable[[], None]]] = {
    each.__name__: each
    for each in (
        shows_open_transactions,
        commits_what_was_aborted,
        aborts_a_part_of_what_was_committed,
        forgets_a_marker,
        keeps_offsets_of_what_was_aborted,
        loses_offsets_of_what_was_committed,
        forgets_producers,
        acknowledges_without_writing,
        tells_of_no_aborts,
        compacts_open_transactions,
        compacts_aborted_as_committed,
    )
}
_IN_THE_FIRST_LIFE: Final = acknowledges_without_writing.__name__


class TxnPlantedBroker(BrokerProcess):
    """A broker process with the defect that its home is named after."""

    def argv(self) -> list[str]:
        """Through this file."""
        python, plain, *rest = super().argv()
        defect = self.home.name
        if defect == _IN_THE_FIRST_LIFE and self.starts > 1:
            return [python, plain, *rest]
        return [python, __file__, defect, *rest]


if __name__ == "__main__":
    DEFECTS[sys.argv.pop(1)]()
    observed_broker.main()
