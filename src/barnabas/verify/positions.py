"""Committed offsets of groups: none comes out of what was aborted, none goes back."""

from typing import NamedTuple

from barnabas.model.topics import TopicPartition
from barnabas.verify.facts import NEVER, Fate, Operation
from barnabas.verify.findings import Anomaly, Finding, Findings
from barnabas.verify.history import CommittedOffset


class _Slot(NamedTuple):
    """Where a group's offset of a partition is kept."""

    group: str
    place: TopicPartition


class _Found(NamedTuple):
    """What OffsetFetch has said."""

    slot: _Slot
    offset: int | None
    fetch: Operation


class Positions:
    """Offered and found offsets. Judged at the end, when the fate of everything is known."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._offers: dict[_Slot, list[tuple[int, Operation]]] = {}
        self._by_operation: dict[Operation, list[tuple[_Slot, int]]] = {}
        self._acknowledged: dict[_Slot, list[tuple[int, Operation]]] = {}
        """In the order in which they were."""
        self._found: list[_Found] = []

    @property
    def found(self) -> int:
        """How many were looked at."""
        return len(self._found)

    def offer(self, operation: Operation, step: CommittedOffset) -> None:
        """An operation is about to commit an offset."""
        if step.offset is not None:
            slot = _Slot(step.group, step.place)
            self._offers.setdefault(slot, []).append((step.offset, operation))
            self._by_operation.setdefault(operation, []).append((slot, step.offset))

    def commit(self, operation: Operation) -> None:
        """An operation was acknowledged."""
        for slot, offset in self._by_operation.pop(operation, ()):
            self._acknowledged.setdefault(slot, []).append((offset, operation))

    def find(self, fetch: Operation, step: CommittedOffset) -> None:
        """A group's offset was asked for, and told."""
        self._found.append(_Found(_Slot(step.group, step.place), step.offset, fetch))

    def judge(self) -> None:
        """Look at everything that was found."""
        for found in self._found:
            if not self._judge_source(found):
                self._judge_floor(found)

    def _judge_source(self, found: _Found) -> bool:
        """True when somebody is to blame for this offset."""
        offers = self._offers.get(found.slot)
        if found.offset is None or offers is None:
            return False
        begun = [
            each for offset, each in offers
            if offset == found.offset and each.invoked < found.fetch.ended
        ]  # fmt: skip
        if any(_may_show(each, found.fetch) for each in begun):
            return False
        told = f"offset {found.offset} was found"
        if not begun:
            self._find(Anomaly.UNKNOWN_VALUE, found, f"{told}, which nobody had committed")
        elif all(each.fate is Fate.FAILED for each in begun):
            self._find(Anomaly.ABORTED_OFFSET, found, f"{told}, which was only offered by "
                       f"{begun[0].process} in what was aborted", begun[0].process)  # fmt: skip
        else:
            self._find(Anomaly.PRECOMMITTED_READ, found, f"{told} before the transaction of "
                       f"{begun[0].process} was asked to commit", begun[0].process)  # fmt: skip
        return True

    def _judge_floor(self, found: _Found) -> None:
        done = [
            each for each in self._acknowledged.get(found.slot, ())
            if each[1].ended < found.fetch.invoked
        ]  # fmt: skip
        if not done:
            return
        floor, by = done[-1]
        if found.offset is not None and found.offset >= floor:
            return
        if any(
            offset == found.offset and each is not by and each.fate is not Fate.FAILED
            and (each.ended > by.invoked or each.ended == NEVER)
            for offset, each in self._offers[found.slot]
        ):  # fmt: skip
            return  # Committed at the same time or later: that one may be the last.
        told = "nothing" if found.offset is None else f"offset {found.offset}"
        self._find(
            Anomaly.LOST_OFFSET, found,
            f"{told} was found after {by.process} had committed {floor}", by.process,
        )  # fmt: skip

    def _find(self, anomaly: Anomaly, found: _Found, text: str, *processes: str) -> None:
        slot = found.slot
        name = slot.place.directory
        self._findings.add(
            Finding(
                anomaly,
                f"{name}: of group {slot.group} {text} (by {found.fetch.process}).",
                (name,),
                (),
                () if found.offset is None else (found.offset,),
                (*processes, found.fetch.process),
            )
        )


def _may_show(offer: Operation, fetch: Operation) -> bool:
    if offer.fate is Fate.FAILED:
        return False
    return not offer.is_transaction or offer.asked < fetch.ended
