"""Copiers and their broker are killed, and the copy is exact all the same. (See txn_kill_run.)"""

from pathlib import Path

from tests.chaos.copy_lives import CopyLives, Plan
from tests.chaos.txn_kill_run import run, summary

_PLAN = Plan(copier_kills=3, broker_kills=1, records=4_000, copiers=2, partitions=3)
_SEED = 3


def _told(lives: CopyLives) -> str:
    return f"data in {lives.home}\n{summary(lives)}"


def test_kills_of_copiers_and_of_their_broker(tmp_path: Path) -> None:
    """In two runs, the second of which takes up what the first has left."""
    first = run(_PLAN, _SEED, tmp_path, stop_after=2)
    assert not first.problems, _told(first)
    lives = run(_PLAN, _SEED, tmp_path)
    assert not lives.problems, _told(lives)
    assert lives.records >= _PLAN.records
    hit = [strike.is_broker for strike in lives.strikes]
    assert (hit.count(False), hit.count(True)) == (_PLAN.copier_kills, _PLAN.broker_kills)
    assert lives.verdict is not None
    assert lives.verdict.is_clean, _told(lives)
    for what in ("transactions committed", "values acknowledged", "offsets of groups found"):
        assert lives.verdict.tally[what] > 0, _told(lives)
