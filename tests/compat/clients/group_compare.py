"""Ask a real Kafka and Barnabas the same group scenarios, and say what they answer differently.

python -m tests.compat.clients.group_compare [--out REPORT.txt] [--answers FOLDER]

Exit code 1 when a difference has no explanation in `group_known_differences`, or an explanation
has no difference any more. With --answers, what Kafka answered is kept there and asked only once.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Final

from tests.compat.clients.group_differential import Answers, ask, barnabas, differences, kafka
from tests.compat.clients.group_known_differences import KNOWN, unexplained, unneeded
from tests.compat.real_kafka import KAFKA_VERSION

_OWN_FIELD: Final = ".unknown_tagged_fields"
"""What only Barnabas says, where every client steps over it."""


def report(kafkas: Answers, ours: Answers) -> tuple[str, bool]:
    """What to print, and whether everything is explained."""
    found = list(differences(kafkas, ours))
    open_questions, idle_rows = unexplained(found), unneeded(found)
    differing = {_question(line) for line in found if _OWN_FIELD not in line}
    headline = (
        f"{len(kafkas)} questions about groups, asked of Apache Kafka {KAFKA_VERSION} and of "
        f"Barnabas: {len(kafkas) - len(differing)} answers are alike in every field of Kafka's, "
        f"{len(differing)} differ; {len(open_questions)} differences are unexplained."
    )
    lines = [headline, ""]
    for pattern, reason in KNOWN:
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
    parser.add_argument("--out", type=Path)
    parser.add_argument("--answers", type=Path)
    arguments = parser.parse_args()
    print("asking Apache Kafka (some minutes)", file=sys.stderr, flush=True)
    kafkas = _kept(arguments.answers)
    print("asking Barnabas", file=sys.stderr, flush=True)
    text, explained = report(kafkas, ask(barnabas))
    print(text)
    if arguments.out:
        arguments.out.write_text(f"{text}\n")
    return 0 if explained else 1


def _kept(folder: Path | None) -> Answers:
    if folder is None:
        return ask(kafka)
    kept = folder / f"kafka-{KAFKA_VERSION}-groups.json"
    if kept.exists():
        answers: Answers = json.loads(kept.read_text())
        return answers
    answers = ask(kafka)
    folder.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(answers, ensure_ascii=False))
    return answers


if __name__ == "__main__":
    sys.exit(main())
