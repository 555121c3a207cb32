"""The verdict on a history."""

from collections import Counter
from collections.abc import Iterable

from barnabas.verify.facts import NEVER, Fate
from barnabas.verify.findings import Anomaly, Verdict
from barnabas.verify.gathering import Gathering
from barnabas.verify.history import Event
from barnabas.verify.judging import Judging


def check(events: Iterable[Event]) -> Verdict:
    """Read a whole history, in the order of its time, and say what is wrong with it.

    The events themselves are not kept; what is kept grows with the number of values and of
    consumers' jumps. HistoryError when the events are no history.
    """
    facts = Gathering()
    for event in events:
        facts.take(event)
    Judging(facts).judge()
    facts.positions.judge()
    findings = facts.findings
    counts = {each: findings.counts[each] for each in Anomaly if findings.counts[each]}
    return Verdict(findings.kept, counts, _tally(facts), facts.worst_lag)


def _tally(facts: Gathering) -> dict[str, int]:
    fates = Counter(transaction.fate for transaction in facts.transactions)
    writes = [
        write for partition in facts.partitions.values() for write in partition.writes.values()
    ]
    return {
        "events": facts.events,
        "processes": facts.processes,
        "partitions": len(facts.partitions),
        "transactions": len(facts.transactions),
        "transactions committed": fates[Fate.COMMITTED],
        "transactions aborted": fates[Fate.FAILED],
        "transactions unknown": fates[Fate.UNKNOWN],
        "values sent": sum(write.operation is not None for write in writes),
        "values acknowledged": sum(
            write.operation is not None and write.fate is Fate.COMMITTED for write in writes
        ),
        "values read": sum(write.seen != NEVER for write in writes),
        "records read": facts.records_read,
        "offsets of groups found": facts.positions.found,
    }
