"""`barnabas verify`: look for what can not be right in the recorded histories of clients."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.cli.ending import FAILED
from barnabas.cli.output import AsJson, print_json

if TYPE_CHECKING:
    from barnabas.verify.findings import Verdict

EXAMPLES: Final = """\b
Examples:
  barnabas verify history.jsonl
  barnabas verify run/*.jsonl                      one run, a file for each process
  barnabas verify history.jsonl --json | jq .anomaly
\b
A history has one JSON object a line: what a process is about to do, and what became of it.
  {"process": "w1", "type": "invoke", "f": "txn", "time": 1, "value": [["send", "t", 0, "a"]]}
  {"process": "w1", "type": "commit", "f": "txn", "time": 2}
  {"process": "w1", "type": "ok", "f": "txn", "time": 3, "value": [["send", "t", 0, "a", 7]]}
  {"process": "r1", "type": "ok", "f": "poll", "time": 4, "value": [["poll", "t", 0, [[7, "a"]]]]}
"""


def verify(
    histories: Annotated[
        list[Path],
        typer.Argument(
            metavar="HISTORY",
            help="Files of JSON lines; several are taken as one run, ordered by time.",
            exists=True,
            dir_okay=False,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Find lost, doubled, aborted, torn and disordered records in histories; exit 1 if there are.

    A history tells what clients sent, committed and read, with the answers they got: recorded at
    any Kafka broker, by any program. Every value must be sent once only, and a history should end
    with reads to the end of every partition. Each finding is one sentence that names values,
    offsets and processes. The format is described in docs/verify.md.
    """
    from barnabas.verify.checker import check
    from barnabas.verify.parsing import read_histories

    verdict = check(read_histories(histories))
    for finding in verdict.findings:
        if as_json:
            print_json(finding.to_json())
        else:
            print(f"{finding.anomaly:<22} {finding.sentence}")
    if as_json:
        print_json(verdict.to_json())
    else:
        _show(verdict)
    if not verdict.is_clean:
        raise typer.Exit(FAILED)


def _show(verdict: "Verdict") -> None:
    for what, count in verdict.tally.items():
        print(f"{what:<24} {count:>12,}")
    lag = verdict.worst_lag
    if lag.value:
        told = f"{lag.nanoseconds / 1e9:.3f} s, until {lag.reader} read {lag.value!r}"
        print(f"worst real-time lag: {told} ({lag.partition}).")
    if verdict.is_clean:
        print("Nothing is wrong.")
        return
    print(", ".join(f"{count} {each}" for each, count in verdict.counts.items()) + ".")
