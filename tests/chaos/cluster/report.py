"""A run's results for people."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.chaos.cluster.faults import Kind
from tests.chaos.cluster.hosting import SESSION_S
from tests.chaos.cluster.results import BOUND_S, CHANGED, GRACE_S, Part, Results, percentile

ASKED: Final[Mapping[str, int]] = {
    "minutes": 60,
    Kind.KILL: 60,
    Kind.PAUSE: 40,
    Kind.CUT: 40,
    Kind.QUORUM: 5,
    "values acknowledged": 1_000_000,
    "transactions committed": 10_000,
}
"""What a whole run has at least."""
_COUNTED: Final = (
    "values sent",
    "values acknowledged",
    "values read",
    "records read",
    "transactions",
    "transactions committed",
    "transactions aborted",
    "transactions unknown",
    "transactions hijacked",
    "deliveries not acknowledged",
    "copiers that began again",
    "offsets of groups found",
    "groups: assignments",
    "groups: commits acknowledged",
    "groups: offsets checked",
    "groups: records covered",
)


def report(results: Results, *, is_finished: bool = True) -> str:
    """All of it, as text."""
    return "\n".join(_lines(results, is_finished)) + "\n"


def _lines(results: Results, is_finished: bool) -> Iterator[str]:
    minutes = results.seconds / 60
    yield (
        f"Three brokers and three ZooKeeper servers, {minutes:.1f} minutes in "
        f"{len(results.parts)} parts, seed {results.seed}."
    )
    yield f"RF 3, min.insync.replicas 2, session {SESSION_S:g} s, {results.network}."
    yield ""
    yield f"Found: {_found(results)}."
    if not is_finished:
        yield "It is NOT finished: the same command goes on."
    yield ""
    struck_at_all = any(part.struck for part in results.parts)
    yield from _faults(results)
    for what in _COUNTED:
        yield f"{what:46} {results.tally()[what]:12,}"
    yield ""
    if struck_at_all:
        yield from _asked(results)
    yield from _recovery(results)
    yield from _parts(results)
    yield from _problems(results)


def _faults(results: Results) -> Iterator[str]:
    struck = results.struck()
    for kind, count in sorted(results.left_out().items()):
        yield f"{kind + ', impossible on this machine':46} {count:12,}"
    if not struck:
        yield "Nothing was broken."
        yield ""
        return
    for kind in dict.fromkeys(kind for kind, _ in sorted(struck)):
        yield f"{kind:46} {sum(n for (k, _), n in struck.items() if k == kind):12,}"
        for (each, target), count in sorted(struck.items()):
            if each == kind:
                yield f"    {target:42} {count:12,}"
    yield f"{'faults':46} {struck.total():12,}"
    yield ""


def _found(results: Results) -> str:
    if results.is_clean:
        return "nothing"
    return "PROBLEMS, see below" if results.parts else "nothing was run"


def is_passed(results: Results, minutes: float | None) -> bool:
    """Clean; and a whole run (of so many minutes; None: without faults) has all that is asked."""
    is_whole = minutes is not None and minutes >= ASKED["minutes"]
    return results.is_clean and not (is_whole and lacking(results))


def lacking(results: Results) -> list[str]:
    """What a whole run would have more of."""
    struck: Counter[str] = Counter()
    for (kind, _), count in results.struck().items():
        struck[kind] += count
    # An hour that lacks a second is none: never round up.
    minutes = int(results.seconds / 60 * 10) / 10
    found = {"minutes": minutes, **struck, **results.tally()}
    return [
        f"{what}: {found.get(what, 0):,} of {least:,}"
        for what, least in ASKED.items()
        if found.get(what, 0) < least
    ]


def _asked(results: Results) -> Iterator[str]:
    what = "; ".join(lacking(results))
    yield f"Not enough yet of {what}." if what else "Enough of everything."
    yield ""


def _recovery(results: Results) -> Iterator[str]:
    resumed = results.resumed()
    if not resumed:
        return
    slowest = results.slowest()
    yield (
        f"From a heal (all processes serve, all links are whole) until the slowest of all writers "
        f"has an acknowledgement of what it sent after it, {len(slowest):,} heals (no hijacks):"
    )
    held = "held" if results.is_in_time else "NOT held"
    yield (
        f"{_spread(slowest)}; p99 is to be at most session + {GRACE_S:g} s = {BOUND_S:g} s: {held}"
    )
    yield f"Of every writer after every fault, {len(resumed):,} times: {_spread(resumed)}."
    yield ""
    for kind in dict.fromkeys(each.kind for part in results.parts for each in part.struck):
        times = results.slowest(kind)
        yield (
            f"    {kind:17} p50 {percentile(times, 0.5):6.2f} s   "
            f"p99 {percentile(times, 0.99):6.2f} s   most {percentile(times, 1.0):6.2f} s"
        )
    yield ""


def _spread(times: Sequence[float]) -> str:
    p50, p99, most = (percentile(times, share) for share in (0.5, 0.99, 1.0))
    return f"p50 {p50:.2f} s, p99 {p99:.2f} s, most {most:.2f} s"


def _parts(results: Results) -> Iterator[str]:
    yield (
        "part   seconds   faults   acknowledged   transactions   worst lag   in sync   "
        "commit     verdict"
    )
    for part in results.parts:
        yield (
            f"{part.number:4} {part.seconds:9.0f} {len(part.struck):8} "
            f"{part.tally.get('values acknowledged', 0):14,} "
            f"{part.tally.get('transactions', 0):14,} "
            f"{part.worst_lag_s:9.1f} s {part.in_sync_s:7.1f} s   "
            f"{part.commit or 'unknown':8}   {_verdict(part)}"
        )
    yield ""
    yield (
        "Worst lag: the longest that an acknowledged record stayed unread. In sync: from the last "
        "heal until every replica was."
    )
    if any(part.commit.endswith(CHANGED) for part in results.parts):
        yield f"{CHANGED}: with changes that are in no commit."


def _verdict(part: Part) -> str:
    if part.is_clean:
        return "clean, replicas alike"
    found = [f"{count} {what}" for what, count in part.anomalies.items()]
    broken = ["BROKE OFF"] if part.broke_off else []
    return ", ".join([*broken, *found, f"{len(part.problems)} problems"])


def _problems(results: Results) -> Iterator[str]:
    for part in results.parts:
        if part.remarks:
            yield ""
            yield f"Part {part.number}, started again by the rig:"
            yield from (f"    {remark}" for remark in part.remarks)
        if not part.is_clean:
            yield ""
            yield f"Part {part.number} (kept in {part.evidence}):"
            yield from (f"    {problem}" for problem in part.problems)
