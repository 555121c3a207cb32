"""Kill a broker again and again in mid-load: `python tests/chaos/kill_run.py --kills 30`.

Progress is saved after each kill, so that a run that was stopped goes on where it was.
"""

import json
import os
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.chaos.command_line import run_from_command_line
from tests.chaos.lives import Life, Lives

_HOME: Final = Path(tempfile.gettempdir()) / "barnabas-kill-run"


def _load(state_path: Path) -> dict[str, Any]:
    if not state_path.exists():
        counts = dict.fromkeys(("runs", "acknowledged", "seen", "repeated", "resumed"), 0)
        return {"lives": [], "pages": {}, **counts}
    state: dict[str, Any] = json.loads(state_path.read_text())
    return state


def _save(state_path: Path, lives: Lives) -> None:
    repeated, resumed = lives.repeats()
    state = {
        "lives": [asdict(life) for life in lives.lives],
        "pages": lives.ledger.to_json(),
        "runs": lives.run + 1,
        "acknowledged": lives.acknowledged,
        "seen": lives.seen,
        "repeated": repeated,
        "resumed": resumed,
    }
    fresh = state_path.with_suffix(".new")
    fresh.write_text(json.dumps(state))
    os.replace(fresh, state_path)


def run(kills: int, seed: int, home: Path, lasts_s: tuple[float, float] = (1.0, 3.0)) -> Lives:
    """Go on until there were so many kills, or something is wrong; every client has ended."""
    state_path = home / "state.json"
    state = _load(state_path)
    home.mkdir(parents=True, exist_ok=True)
    lives = Lives(
        home=home,
        seed=seed,
        run=state["runs"],
        lives=[Life(**life) for life in state["lives"]],
        acknowledged=state["acknowledged"],
        seen=state["seen"],
        repeated=state["repeated"],
        resumed=state["resumed"],
    )
    try:
        lives.open(state["pages"])
        while len(lives.lives) < kills and not lives.problems:
            life = lives.kill(*lasts_s)
            _save(state_path, lives)
            print(line_of(len(lives.lives), life), file=sys.stderr, flush=True)
        lives.end_load()
        _check_once_more(lives)
        _save(state_path, lives)
    finally:
        lives.close()
    return lives


def _check_once_more(lives: Lives) -> None:
    """Everything is answered now; a clean stop and start must change nothing of it."""
    code = lives.broker.terminate()
    if code != 0:
        lives.journal.complain(f"a clean stop ended with exit code {code}")
    lives.revive(0.0)
    lives.lives.pop()


def line_of(number: int, life: Life) -> str:
    """One kill in one line."""
    return (
        f"kill {number:3}  after {life.lasted_s:4.2f} s   start {life.start_ms:5.0f} ms   "
        f"{life.records:8,} records   {life.log_bytes / 1e6:6.1f} MB   {life.torn} torn"
    )


def summary(lives: Lives) -> str:
    """What is to be told, as text."""
    starts = [life.start_ms for life in lives.lives] or [0.0]
    lines = [line_of(number, life) for number, life in enumerate(lives.lives, 1)]
    verdict = f"{len(lives.problems)} problems"
    spread = (
        f"least {min(starts):.0f} ms, median {statistics.median(starts):.0f} ms, "
        f"most {max(starts):.0f} ms"
    )
    lines += [
        "",
        f"SIGKILL in mid-load, {len(lives.lives)} times, seed {lives.seed}: {verdict}",
        f"records acknowledged to producers      {lives.acknowledged:12,}  none may be lost",
        f"records seen by consumers              {lives.seen:12,}  each must still be there",
        f"acknowledged batches sent once more    {lives.repeated:12,}  none may be stored twice",
        f"unanswered batches sent once more      {lives.resumed:12,}  none may be stored twice",
        f"records in the logs at the end         {lives.ledger.records:12,}  offsets without gaps",
        f"start-up after the kill, from exec to the first acknowledged record: {spread}",
    ]
    lines += [f"PROBLEM {problem}" for problem in lives.problems]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run as told on the command line; 1 when something is wrong."""
    return run_from_command_line(__doc__, "--kills", _HOME, run, summary)


if __name__ == "__main__":
    sys.exit(main())
