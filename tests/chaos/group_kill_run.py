"""Restart a broker again and again under groups: `python tests/chaos/group_kill_run.py`.

It is killed or stopped in the middle of rebalances, commits and revocations. Progress is saved
after each restart, so that a run that was stopped goes on where it was.
"""

import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.chaos.command_line import run_from_command_line
from tests.chaos.group_lives import Cast, GroupLives, Life
from tests.chaos.group_moments import Phase

_HOME: Final = Path(tempfile.gettempdir()) / "barnabas-group-kill-run"
_ENDS: Final = tuple(product((True, False), Phase))
"""Every way to end a life: kill or stop, in the middle of what."""


def _load(state_path: Path) -> dict[str, Any]:
    if not state_path.exists():
        return {"lives": [], "runs": 0, "journal": None}
    state: dict[str, Any] = json.loads(state_path.read_text())
    return state


def _save(state_path: Path, lives: GroupLives) -> None:
    state = {
        "lives": [asdict(life) for life in lives.lives],
        "runs": lives.run + 1,
        "journal": lives.journal.to_json(),
    }
    fresh = state_path.with_suffix(".new")
    fresh.write_text(json.dumps(state))
    os.replace(fresh, state_path)


def ends(lives: GroupLives) -> Iterator[tuple[bool, Phase]]:
    """Each way once, in some order; then again in another. Where an earlier run stopped it goes
    on with those it has not had."""
    had = Counter((life.is_kill, Phase(life.phase)) for life in lives.lives)
    while True:
        least = min(had[end] for end in _ENDS)
        end = lives.random.choice([each for each in _ENDS if had[each] == least])
        had[end] += 1
        yield end


def run(
    restarts: int,
    seed: int,
    home: Path,
    lasts_s: tuple[float, float] = (0.5, 2.5),
    cast: Cast | None = None,
) -> GroupLives:
    """Go on until there were so many restarts, or something is wrong; every client has ended."""
    home.mkdir(parents=True, exist_ok=True)
    state_path = home / "state.json"
    state = _load(state_path)
    lives = GroupLives(
        home, seed, state["runs"], cast or Cast(), [Life(**life) for life in state["lives"]]
    )
    way = ends(lives)
    try:
        lives.open(state["journal"])
        while len(lives.lives) < restarts and not lives.problems:
            is_kill, phase = next(way)
            life = lives.end_life(phase, *lasts_s, is_kill=is_kill)
            _save(state_path, lives)
            print(line_of(len(lives.lives), life), file=sys.stderr, flush=True)
        lives.end()
        lives.check_once_more()
        _save(state_path, lives)
    finally:
        lives.close()
    return lives


def line_of(number: int, life: Life) -> str:
    """One restart in one line."""
    how = "SIGKILL" if life.is_kill else "SIGTERM"
    return (
        f"{number:3}  {how}  after {life.lasted_s:4.2f} s  {life.phase:41}  "
        f"start {life.start_ms:5.0f} ms  stable {life.stable_s:5.2f} s  "
        f"{life.unanswered:3} unanswered offsets kept"
    )


_ROWS: Final = (
    ("commits acknowledged", "none may be lost"),
    ("offsets checked", "none may go back, none may be made up"),
    ("generations checked", "generations and epochs: none may go back"),
    ("shares checked", "no partition may be owned twice"),
    ("records produced", ""),
    ("records covered", "by all groups: each must have been consumed"),
    ("generations", "rebalances of the raw classic group that were shared out"),
    ("epochs", "rebalances of the groups of the consumer protocol"),
    ("assignments", "told to librdkafka's consumers"),
    ("revocations", "told to raw members of the consumer protocol"),
    ("SyncGroup written, not answered", "answered the same when asked again"),
)


def summary(lives: GroupLives) -> str:
    """What is to be told, as text."""
    lines = [line_of(number, life) for number, life in enumerate(lives.lives, 1)]
    hits = Counter((life.is_kill, life.phase) for life in lives.lives)
    kills = sum(life.is_kill for life in lives.lives)
    ways = f"{kills} SIGKILL and {len(lives.lives) - kills} SIGTERM"
    lines += [
        "",
        f"Restarts under groups, {ways}, seed {lives.seed}: {len(lives.problems)} problems",
        f"{'in the middle of':44} {'SIGKILL':>8} {'SIGTERM':>8}",
    ]
    lines += [
        f"{each.value:44} {hits[True, each.value]:8} {hits[False, each.value]:8}" for each in Phase
    ]
    counts = lives.journal.counts
    lines += [f"{name:32} {counts[name]:12,}  {promise}".rstrip() for name, promise in _ROWS]
    kept = sum(life.unanswered for life in lives.lives)
    lines.append(f"{'OffsetCommit written, unanswered':32} {kept:12,}  kept")
    lines.append(_spread("stable again", [life.stable_s for life in lives.lives]))
    lines += [f"PROBLEM {problem}" for problem in lives.problems]
    return "\n".join(lines) + "\n"


def _spread(what: str, seconds: list[float]) -> str:
    known = seconds or [0.0]
    return (
        f"{what} after: least {min(known):.2f} s, median {statistics.median(known):.2f} s, "
        f"most {max(known):.2f} s"
    )


def main() -> int:
    """Run as told on the command line; 1 when something is wrong."""
    return run_from_command_line(__doc__, "--restarts", _HOME, run, summary)


if __name__ == "__main__":
    sys.exit(main())
