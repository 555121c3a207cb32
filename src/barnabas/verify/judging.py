"""What a whole history says: who read what must not be there, what is missing, what was skipped."""

from bisect import bisect_left, bisect_right

from barnabas.verify.facts import NEVER, Fate, Gap, Operation, PartitionFacts, Write
from barnabas.verify.findings import Anomaly, Finding, Findings
from barnabas.verify.gathering import Gathering

_NAMED_MAX = 5


class Judging:
    """Goes through all facts once, in an order that depends on nothing but them."""

    def __init__(self, facts: Gathering) -> None:
        self._findings: Findings = facts.findings
        self._partitions = facts.partitions
        self._transactions = facts.transactions
        self._latest: dict[PartitionFacts, dict[str, int]] = {}

    def judge(self) -> None:
        """Everything."""
        partitions = [self._partitions[place] for place in sorted(self._partitions)]
        for partition in partitions:
            self._latest[partition] = _latest_by_key(partition)
        for partition in partitions:
            self._judge_places(partition)
            self._judge_reads(partition)
            self._judge_missing(partition)
            self._judge_gaps(partition)
        for transaction in self._transactions:
            self._judge_whole(transaction)

    # --- one place each ------------------------------------------------------------------------

    def _judge_places(self, partition: PartitionFacts) -> None:
        for write in partition.writes.values():
            is_once = write.operation is None or write.operation.idempotent
            if is_once and write.is_elsewhere:
                self._find(
                    Anomaly.DUPLICATE,
                    f"{_named(write)} is at offsets {_listed(write.offsets)}",
                    write,
                )
            acknowledged = write.acknowledged
            if acknowledged is not None:
                there = partition.at.get(acknowledged)
                if there is not None and there is not write:
                    clashing = partition.clashes.setdefault(acknowledged, [])
                    if write not in clashing:
                        clashing.append(write)
        for offset in sorted(partition.clashes):
            writes = [partition.at[offset], *partition.clashes[offset]]
            self._find(
                Anomaly.INCONSISTENT_OFFSETS,
                f"offset {offset} is that of {' and of '.join(map(_named, writes))}",
                *writes,
                offsets=(offset,),
            )

    # --- what must not be read -----------------------------------------------------------------

    def _judge_reads(self, partition: PartitionFacts) -> None:
        if not partition.has_sends:
            return  # Whoever writes there is not in this history.
        for write in partition.writes.values():
            if write.seen == NEVER:
                continue
            operation = write.operation
            where = f"was read by {write.reader} at offset {write.offset}"
            if operation is None:
                self._find(
                    Anomaly.UNKNOWN_VALUE, f"{write.value!r} {where}, and nobody has sent it", write
                )
            elif write.seen < operation.invoked:
                self._find(
                    Anomaly.UNKNOWN_VALUE, f"{_named(write)} {where} before it was sent", write
                )
            else:
                self._judge_read(operation, write, where)

    def _judge_read(self, operation: Operation, write: Write, where: str) -> None:
        if not operation.is_transaction:
            if operation.fate is Fate.FAILED:
                text = f"{_named(write)} {where}, but its send has failed"
                self._find(Anomaly.ABORTED_READ, text, write)
            return
        if write.seen_committed == NEVER:
            return
        if operation.fate is Fate.FAILED:
            why = "was never asked to commit" if operation.asked == NEVER else "was aborted"
            text = f"{_named(write)} {where}, but its transaction {why}"
            self._find(Anomaly.ABORTED_READ, text, write)
        elif write.seen_committed < operation.asked:
            text = f"{_named(write)} {where} before its transaction was asked to commit"
            self._find(Anomaly.PRECOMMITTED_READ, text, write)

    # --- what must be read ---------------------------------------------------------------------

    def _judge_missing(self, partition: PartitionFacts) -> None:
        """Sends that stand for themselves."""
        for write in partition.writes.values():
            operation = write.operation
            if operation is None or operation.is_transaction:
                continue
            if write.fate is Fate.COMMITTED and self._is_missing(write):
                self._complain_of(write)

    def _judge_whole(self, transaction: Operation) -> None:
        """A transaction that was committed, or was seen to be."""
        fate = transaction.fate
        if fate is Fate.FAILED:
            return
        seen = [each for each in transaction.writes if self._partition(each).has_seen(each)]
        if fate is Fate.UNKNOWN and not seen:
            return
        missing = [each for each in transaction.writes if self._is_missing(each)]
        if not missing:
            return
        if not seen:
            for write in missing:
                self._complain_of(write)
            return
        self._find(
            Anomaly.TORN_TRANSACTION,
            f"of the transaction of {transaction.process} {_several(seen)} was read, "
            f"but {_several(missing)} never was",
            *missing,
            *seen[:_NAMED_MAX],
        )

    def _complain_of(self, write: Write) -> None:
        partition = self._partition(write)
        offset = max(write.offsets, default=None)
        if offset is not None and partition.has_passed(offset, write):
            high = max(partition.high, partition.high_committed)
            whom = "" if write.seen == NEVER else " by those who read what is committed"
            text = (
                f"{_named(write)} was acknowledged at offset {offset} and never read{whom}, "
                f"although readers came to offset {high}"
            )
            self._find(Anomaly.LOST_WRITE, text, write)
        else:
            text = f"{_named(write)} was acknowledged and not read by the end"
            self._find(Anomaly.UNSEEN, text, write)

    def _is_missing(self, write: Write) -> bool:
        partition = self._partition(write)
        if not partition.is_read or partition.has_seen(write):
            return False
        return not self._is_replaced(partition, write)

    def _is_replaced(self, partition: PartitionFacts, write: Write) -> bool:
        """Whether compaction may have removed it."""
        if write.key is None:
            return False
        latest = self._latest[partition].get(write.key)
        return latest is not None and latest > max(write.offsets, default=NEVER)

    # --- what was skipped ----------------------------------------------------------------------

    def _judge_gaps(self, partition: PartitionFacts) -> None:
        if not partition.gaps:
            return
        visible = {
            of_committed: sorted(
                offset
                for offset, write in partition.at.items()
                if self._is_due(partition, write, of_committed)
            )
            for of_committed in {gap.of_committed for gap in partition.gaps}
        }
        for gap in partition.gaps:
            self._judge_gap(partition, gap, visible[gap.of_committed])

    def _is_due(self, partition: PartitionFacts, write: Write, of_committed: bool) -> bool:
        """Whether every consumer of this kind must have got it that came by."""
        if self._is_replaced(partition, write):
            return False
        if of_committed:
            return write.seen_committed != NEVER and write.fate is not Fate.FAILED
        # Compaction also removes what was aborted.
        return write.key is None or write.fate is Fate.COMMITTED

    def _judge_gap(self, partition: PartitionFacts, gap: Gap, visible: list[int]) -> None:
        between = visible[bisect_right(visible, gap.after) : bisect_left(visible, gap.before)]
        skipped = [partition.at[offset] for offset in between]
        if skipped:
            self._find(
                Anomaly.INT_POLL_SKIP if gap.within_one else Anomaly.POLL_SKIP,
                f"{gap.reader} came from offset {gap.after} to {gap.before} without "
                f"{_several(skipped)}",
                *skipped,
                processes=(gap.reader,),
            )

    # --- words ---------------------------------------------------------------------------------

    def _partition(self, write: Write) -> PartitionFacts:
        return self._partitions[write.place]

    def _find(
        self,
        anomaly: Anomaly,
        text: str,
        *writes: Write,
        offsets: tuple[int, ...] = (),
        processes: tuple[str, ...] = (),
    ) -> None:
        names = tuple(dict.fromkeys(write.place.directory for write in writes))
        concerned = dict.fromkeys(processes)
        for write in writes:
            if write.operation is not None:
                concerned[write.operation.process] = None
            if write.reader:
                concerned[write.reader] = None
        self._findings.add(
            Finding(
                anomaly,
                f"{names[0]}: {text}." if len(names) == 1 else f"{text[0].upper()}{text[1:]}.",
                names,
                tuple(write.value for write in writes),
                offsets or tuple(each for write in writes for each in write.offsets),
                tuple(concerned),
            )
        )


def _latest_by_key(partition: PartitionFacts) -> dict[str, int]:
    """The highest offset at which each key was seen by those who read what is committed."""
    latest: dict[str, int] = {}
    for write in partition.writes.values():
        if write.key is not None and partition.has_seen(write) and write.fate is not Fate.FAILED:
            latest[write.key] = max(latest.get(write.key, NEVER), *write.offsets)
    return latest


def _named(write: Write) -> str:
    if write.operation is None:
        return repr(write.value)
    return f"{write.value!r} of {write.operation.process}"


def _listed(offsets: tuple[int, ...]) -> str:
    return " and ".join(map(str, offsets))


def _several(writes: list[Write]) -> str:
    named = [
        f"{write.value!r} ({write.place.directory}, offset {max(write.offsets, default='unknown')})"
        for write in writes[:_NAMED_MAX]
    ]
    more = len(writes) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")
