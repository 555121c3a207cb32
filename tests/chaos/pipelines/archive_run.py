"""Archive a topic with kills, and replay it: `python tests/chaos/pipelines/archive_run.py`.

Retention deletes behind the archive all the while. `barnabas sql` must count each offset once
whenever it is asked, and the replayed topic must be the one that was written, record by record.
Progress is saved after each strike: a run that was stopped goes on where it was.
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.chaos.command_line import run_from_command_line
from tests.chaos.pipelines.archive_lives import ArchiveLives, Plan
from tests.chaos.pipelines.striking import kills_of, lines_of, strike_all

_HOME: Final = Path(tempfile.gettempdir()) / "barnabas-archive-kill-run"
_FULL: Final = Plan()
_DONE: Final = "records in the archive"


def run(plan: Plan, seed: int, home: Path) -> ArchiveLives:
    """Strike as planned, finish, compare."""
    return strike_all(ArchiveLives(home, plan, seed), _DONE)


def summary(lives: ArchiveLives) -> str:
    """What is to be told, as text."""
    lines = lines_of(lives.strikes, _DONE)
    told = f"seed {lives.seed}, {lives.seconds:.0f} s: {len(lives.problems)} problems"
    counts = [
        *kills_of(lives.strikes, "barnabas archive"),
        ("SIGKILL to `barnabas replay`", lives.replay_kills),
        ("records written to the topic", lives.fed),
        ("of them deleted by retention in the end", lives.deleted),
        ("files of the archive", lives.files),
        ("records in the replayed topic, read_committed", lives.replayed),
    ]
    lines += ["", f"A topic, its archive and its replay, {told}"]
    lines += [f"{what:52} {count:10,}" for what, count in counts]
    asked = ", ".join(f"{count:,}" for count in lives.answers)
    lines.append(f"barnabas sql counted, each offset once: {asked}")
    lines += [f"PROBLEM {problem}" for problem in lives.problems]
    if not lives.problems:
        lines.append("The replayed topic is the one that was written: records and their order.")
    return "\n".join(lines) + "\n"


def _run(driver_kills: int, seed: int, home: Path) -> ArchiveLives:
    """Everything else in proportion to the drivers killed."""
    share = driver_kills / _FULL.driver
    plan = Plan(
        driver_kills,
        round(_FULL.broker * share),
        round(_FULL.whole * share),
        round(_FULL.replay * share),
        round(_FULL.records * share),
    )
    return run(plan, seed, home)


def main() -> int:
    """Run as told on the command line; 1 when something is wrong."""
    return run_from_command_line(__doc__, "--kills", _HOME, _run, summary, _FULL.driver)


if __name__ == "__main__":
    sys.exit(main())
