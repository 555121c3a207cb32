"""Break a Spark job, its executors and its broker: `python tests/chaos/spark/run.py`.

A topic is transformed into another exactly once while drivers, executors and the broker are
killed and shuffle files vanish. In the end the output must be what a computation over the whole
input gives, row for row. The control, the same sink without its marker, must not. Progress is
saved after each strike: a run that was stopped goes on where it was.
"""

import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.chaos.command_line import run_from_command_line
from tests.chaos.spark.lives import Plan, SparkLives, Strike

_HOME: Final = Path(tempfile.gettempdir()) / "barnabas-spark-kill-run"
_FULL: Final = Plan()
CONTROL: Final = Plan(8, 0, 0, 0, records=0, forgetful=True)


@dataclass
class Both:
    """The run, and the control that must fail."""

    lives: SparkLives
    control: SparkLives

    @property
    def problems(self) -> list[str]:
        """An inexact output, or a control that proves nothing."""
        unmoved = [] if self.control.problems else ["the control without the marker stayed exact"]
        return self.lives.problems + unmoved


def _load(home: Path, plan: Plan, seed: int) -> SparkLives:
    path = home / "state.json"
    lives = SparkLives(home, plan, seed)
    if path.exists():
        state = json.loads(path.read_text())
        lives.strikes = [Strike(**each) for each in state["strikes"]]
        lives.next_number, lives.seconds = state["next_number"], state["seconds"]
    return lives


def _save(lives: SparkLives) -> None:
    state = {
        "strikes": [asdict(strike) for strike in lives.strikes],
        # Beyond what the feeder may have written since it was asked.
        "next_number": lives.feeder.next_number + 100_000,
        "seconds": lives.seconds,
    }
    fresh = lives.home / "state.new"
    fresh.write_text(json.dumps(state))
    os.replace(fresh, lives.home / "state.json")


def run(plan: Plan, seed: int, home: Path) -> SparkLives:
    """Strike as planned, let the job finish, judge."""
    home.mkdir(parents=True, exist_ok=True)
    lives = _load(home, plan, seed)
    began = time.monotonic() - lives.seconds
    order = plan.order
    random.Random(seed).shuffle(order)
    try:
        lives.open()
        for target in order[len(lives.strikes) :]:
            strike = lives.strike(target)
            lives.seconds = time.monotonic() - began
            _save(lives)
            print(line_of(len(lives.strikes), strike), file=sys.stderr, flush=True)
        lives.finish()
    finally:
        lives.close()
    lives.seconds = time.monotonic() - began
    return lives


def line_of(number: int, strike: Strike) -> str:
    """One strike in one line."""
    return (
        f"{number:3}  {strike.target:9} after {strike.after_s:6.1f} s  "
        f"{strike.committed:10,} offsets of output committed  {strike.moment}"
    )


def summary(both: Both) -> str:
    """What is to be told, as text."""
    lives, control = both.lives, both.control
    lines = [line_of(number, strike) for number, strike in enumerate(lives.strikes, 1)]
    hits = Counter(strike.target for strike in lives.strikes)
    told = f"seed {lives.seed}, {lives.seconds:.0f} s: {len(both.problems)} problems"
    lines += ["", f"Topic, transformation with a shuffle, topic: exactly once, {told}"]
    for target, what in (
        ("driver", "SIGKILL to the driver (Python and Java)"),
        ("executor", "SIGKILL to an executor of the standalone cluster"),
        ("shuffle", "shuffle files deleted until the batch died of it"),
        ("broker", "SIGKILL to the broker, and started again"),
    ):
        lines.append(f"{what:52} {hits[target]:10,}")
    if lives.judgement is not None:
        judged = lives.judgement
        lines += [
            f"{'records committed in the input':52} {judged.inputs:10,}",
            f"{'rows in the output, read_committed':52} {judged.outputs:10,}",
            f"{'rows missing':52} {judged.missing.total():10,}",
            f"{'rows too many':52} {judged.surplus.total():10,}",
        ]
    if control.judgement is not None:
        judged = control.judgement
        lines.append(
            f"The control without the marker: {len(control.strikes)} drivers killed, "
            f"{judged.surplus.total():,} rows too many and {judged.missing.total():,} missing "
            f"of {judged.outputs:,}."
        )
    lines += [f"PROBLEM {problem}" for problem in both.problems]
    return "\n".join(lines) + "\n"


def _run_both(driver_kills: int, seed: int, home: Path) -> Both:
    """Everything else in proportion to the drivers killed."""
    share = driver_kills / _FULL.driver
    plan = Plan(
        driver_kills,
        round(_FULL.executor * share),
        round(_FULL.shuffle * share),
        round(_FULL.broker * share),
        round(_FULL.records * share),
    )
    control = run(CONTROL, seed, home / "control")
    return Both(run(plan, seed, home / "run"), control)


def main() -> int:
    """Run as told on the command line; 1 when something is wrong."""
    return run_from_command_line(__doc__, "--kills", _HOME, _run_both, summary, _FULL.driver)


if __name__ == "__main__":
    sys.exit(main())
