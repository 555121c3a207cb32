"""Ask a real Kafka and Barnabas the same scenarios, and say what they answer differently.

python -m tests.compat.clients.group_compare [groups|transactions] [--out REPORT] [--answers FOLDER]

Exit code 1 when a difference has no explanation in the table of known ones, or an explanation has
no difference any more. With --answers, what Kafka answered is kept there and asked only once.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.compat.clients import (
    group_differential,
    group_known_differences,
    txn_differential,
    txn_known_differences,
)
from tests.compat.clients.group_differential import (
    Answers,
    Stage,
    Started,
    ask,
    barnabas,
    differences,
    kafka,
)
from tests.compat.clients.group_known_differences import Table, unexplained, unneeded
from tests.compat.clients.group_probe import GroupProbe
from tests.compat.clients.txn_probe import TxnProbe
from tests.compat.real_kafka import KAFKA_VERSION


@dataclass(frozen=True)
class Subject:
    """What is asked about, and which differences are known."""

    name: str
    stages: tuple[Stage, ...]
    asker: type[GroupProbe]
    known: Table

    def ask(self, start: Callable[[Stage], AbstractContextManager[Started]]) -> Answers:
        """Every scenario's answers."""
        return ask(start, stages=self.stages, asker=self.asker)


SUBJECTS: Final = {
    "groups": Subject(
        "groups", group_differential.STAGES, GroupProbe, group_known_differences.KNOWN
    ),
    "transactions": Subject(
        "transactions", txn_differential.STAGES, TxnProbe, txn_known_differences.KNOWN
    ),
}
_OWN_FIELD: Final = ".unknown_tagged_fields"
"""What only Barnabas says, where every client steps over it."""


def report(subject: Subject, kafkas: Answers, ours: Answers) -> tuple[str, bool]:
    """What to print, and whether everything is explained."""
    found = list(differences(kafkas, ours))
    open_questions = unexplained(found, subject.known)
    idle_rows = unneeded(found, subject.known)
    differing = {_question(line) for line in found if _OWN_FIELD not in line}
    headline = (
        f"{len(kafkas)} questions about {subject.name}, asked of Apache Kafka {KAFKA_VERSION} "
        f"and of Barnabas: {len(kafkas) - len(differing)} answers are alike in every field of "
        f"Kafka's, {len(differing)} differ; {len(open_questions)} differences are unexplained."
    )
    lines = [headline, ""]
    for pattern, reason in subject.known:
        matching = [line for line in found if re.search(pattern, line)]
        if matching:
            lines += [f"{reason} ({len(matching)})", f"    for instance {_short(matching[0])}"]
    lines += [f"UNEXPLAINED {_short(line)}" for line in open_questions]
    lines += [f"NO LONGER NEEDED {pattern}: {reason}" for pattern, reason in idle_rows]
    return "\n".join(lines), not open_questions and not idle_rows


def _question(line: str) -> str:
    return line.split(": .", 1)[0]


def _short(line: str) -> str:
    return line if len(line) <= 240 else line[:240] + "..."


def main() -> int:
    """Ask both, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject", choices=SUBJECTS, nargs="?", default="groups")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--answers", type=Path)
    arguments = parser.parse_args()
    print("asking Apache Kafka (some minutes)", file=sys.stderr, flush=True)
    subject = SUBJECTS[arguments.subject]
    kafkas = _kept(subject, arguments.answers)
    print("asking Barnabas", file=sys.stderr, flush=True)
    text, explained = report(subject, kafkas, subject.ask(barnabas))
    print(text)
    if arguments.out:
        arguments.out.write_text(f"{text}\n")
    return 0 if explained else 1


def _kept(subject: Subject, folder: Path | None) -> Answers:
    if folder is None:
        return subject.ask(kafka)
    kept = folder / f"kafka-{KAFKA_VERSION}-{subject.name}.json"
    if kept.exists():
        answers: Answers = json.loads(kept.read_text())
        return answers
    answers = subject.ask(kafka)
    folder.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(answers, ensure_ascii=False))
    return answers


if __name__ == "__main__":
    sys.exit(main())
