"""Kill copiers and their broker again and again: `python tests/chaos/txn_kill_run.py`.

Copiers read, transform, write and commit offsets in transactions; in the end the output must be
an exact copy of the input, in order. Progress is saved after each kill, so that a run that was
stopped goes on where it was.
"""

import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.chaos.command_line import run_from_command_line
from tests.chaos.copier_phase import Phase
from tests.chaos.copy_lives import CopyLives, Plan, Strike

_HOME: Final = Path(tempfile.gettempdir()) / "barnabas-txn-kill-run"
_FULL: Final = Plan()


def _load(state_path: Path) -> dict[str, Any]:
    if not state_path.exists():
        return {"strikes": [], "runs": 0, "counts": {}, "seconds": 0.0}
    state: dict[str, Any] = json.loads(state_path.read_text())
    return state


def _save(state_path: Path, lives: CopyLives, seconds: float) -> None:
    commits, aborts = lives.ended
    state = {
        "strikes": [asdict(strike) for strike in lives.strikes],
        "runs": lives.run + 1,
        "counts": {
            "fed": lives.fed + lives.feeder.fed, "misses": lives.misses, "fenced": lives.fenced,
            "commits": commits, "aborts": aborts,
        },
        "seconds": seconds,
    }  # fmt: skip
    fresh = state_path.with_suffix(".new")
    fresh.write_text(json.dumps(state))
    os.replace(fresh, state_path)


def targets(plan: Plan, seed: int) -> list[bool]:
    """Which strike hits the broker; the same in every run of a seed."""
    order = [True] * plan.broker_kills + [False] * plan.copier_kills
    random.Random(seed).shuffle(order)
    return order


def run(plan: Plan, seed: int, home: Path, stop_after: int | None = None) -> CopyLives:
    """Go on until everybody was killed as planned, or something is wrong."""
    home.mkdir(parents=True, exist_ok=True)
    state_path = home / "state.json"
    state = _load(state_path)
    strikes = [Strike(**each) for each in state["strikes"]]
    lives = CopyLives(home, seed, plan, state["runs"], strikes, **state["counts"])
    began = time.monotonic() - state["seconds"]
    order = targets(plan, seed)[: stop_after or plan.strikes]
    try:
        lives.open()
        for is_broker in order[len(lives.strikes) :]:
            strike = lives.strike(is_broker=is_broker)
            _save(state_path, lives, time.monotonic() - began)
            print(line_of(len(lives.strikes), strike), file=sys.stderr, flush=True)
            if lives.problems:
                break
        if stop_after is None:
            lives.finish()
    finally:
        lives.close()
    if stop_after is None:
        lives.judge()
    lives.seconds = time.monotonic() - began
    return lives


def line_of(number: int, strike: Strike) -> str:
    """One kill in one line."""
    whom = "broker" if strike.is_broker else "copier"
    return (
        f"{number:3}  {whom}  after {strike.after_s:5.2f} s  "
        f"{strike.copied:7,} records copied  {strike.phase}"
    )


def summary(lives: CopyLives) -> str:
    """What is to be told, as text."""
    lines = [line_of(number, strike) for number, strike in enumerate(lives.strikes, 1)]
    hits = Counter((strike.is_broker, strike.phase) for strike in lives.strikes)
    kills = Counter(strike.is_broker for strike in lives.strikes)
    plan, (commits, aborts) = lives.plan, lives.ended
    told = f"seed {lives.seed}, {lives.seconds:.0f} s: {len(lives.problems)} problems"
    lines += [
        "",
        f"SIGKILL to one of {plan.copiers} copiers and to their broker, {told}",
        f"{'in the middle of':40} {'copier':>8} {'broker':>8}",
    ]
    lines += [
        f"{each.value:40} {hits[False, each.value]:8} {hits[True, each.value]:8}"
        for each in Phase if each.is_work
    ]  # fmt: skip
    lines += [
        f"{'together':40} {kills[False]:8} {kills[True]:8}",
        f"{'records in the input, without aborted':40} {lives.records:8,}  the output equals them",
        f"{'transactions of copiers committed':40} {commits:8,}  as those knew that lived",
        f"{'transactions of copiers aborted':40} {aborts:8,}  and done again",
        f"{'copiers that were fenced':40} {lives.fenced:8,}  and began again",
        f"{'kills that hit nobody at work':40} {lives.misses:8,}  not counted above",
    ]
    seconds = [strike.after_s for strike in lives.strikes] or [0.0]
    lines.append(f"from kill to kill: median {statistics.median(seconds):.2f} s, "
                 f"most {max(seconds):.2f} s")  # fmt: skip
    if lives.verdict is not None:
        lines += ["", "The histories of feeder, copiers and readers, by barnabas verify:"]
        lines += [f"{what:40} {count:8,}" for what, count in lives.verdict.tally.items()]
        lag = lives.verdict.worst_lag
        whose = f"until {lag.reader} read {lag.value} in {lag.partition}"
        lines.append(f"worst real-time lag {lag.nanoseconds / 1e9:.2f} s, {whose}")
        found = ", ".join(f"{many} {what}" for what, many in lives.verdict.counts.items())
        lines.append(f"found: {found or 'nothing'}")
    lines += [f"PROBLEM {problem}" for problem in lives.problems]
    return "\n".join(lines) + "\n"


def _run_with(copier_kills: int, seed: int, home: Path) -> CopyLives:
    """Everything else in proportion."""
    share = copier_kills / _FULL.copier_kills
    plan = Plan(copier_kills, round(_FULL.broker_kills * share), round(_FULL.records * share))
    return run(plan, seed, home)


def main() -> int:
    """Run as told on the command line; 1 when something is wrong."""
    return run_from_command_line(__doc__, "--kills", _HOME, _run_with, summary, _FULL.copier_kills)


if __name__ == "__main__":
    sys.exit(main())
