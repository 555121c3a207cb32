"""Kill a pipeline and its broker: `python tests/chaos/pipelines/run.py`.

Readings become windows in a topic and rows in a table at once, and poison goes to the dead
letters, while drivers, the command itself and the broker are killed. In the end all three must be
what a computation over the whole input gives. Progress is saved after each strike: a run that was
stopped goes on where it was.
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.chaos.command_line import run_from_command_line
from tests.chaos.pipelines.lives import PipelineLives, Plan
from tests.chaos.pipelines.striking import kills_of, lines_of, strike_all

_HOME: Final = Path(tempfile.gettempdir()) / "barnabas-pipeline-kill-run"
_FULL: Final = Plan()
_DONE: Final = "offsets read by the three queries"


def run(plan: Plan, seed: int, home: Path) -> PipelineLives:
    """Strike as planned, finish, compare."""
    return strike_all(PipelineLives(home, plan, seed), _DONE)


def summary(lives: PipelineLives) -> str:
    """What is to be told, as text."""
    lines = lines_of(lives.strikes, _DONE)
    told = f"seed {lives.seed}, {lives.seconds:.0f} s: {len(lives.problems)} problems"
    lines += ["", f"Topic to windows in a topic, rows in a table, dead letters, {told}"]
    counts = [
        *kills_of(lives.strikes, "barnabas pipeline run"),
    ]
    if lives.judgement is not None:
        counts += [
            ("records in the input", lives.judgement.inputs),
            ("windows in the topic, read_committed", lives.judgement.windows),
            ("rows in the table, read by delta-rs", lives.judgement.rows),
            ("dead letters, read_committed", lives.judgement.dead),
        ]
    lines += [f"{what:52} {count:10,}" for what, count in counts]
    lines += [f"PROBLEM {problem}" for problem in lives.problems]
    if lives.judgement is not None and not lives.problems:
        lines.append("All three equal the batch computation over the input, row for row.")
    return "\n".join(lines) + "\n"


def _run(driver_kills: int, seed: int, home: Path) -> PipelineLives:
    """Everything else in proportion to the drivers killed."""
    share = driver_kills / _FULL.driver
    return run(
        Plan(
            driver_kills,
            round(_FULL.broker * share),
            round(_FULL.whole * share),
            round(_FULL.records * share),
        ),
        seed,
        home,
    )


def main() -> int:
    """Run as told on the command line; 1 when something is wrong."""
    return run_from_command_line(__doc__, "--kills", _HOME, _run, summary, _FULL.driver)


if __name__ == "__main__":
    sys.exit(main())
