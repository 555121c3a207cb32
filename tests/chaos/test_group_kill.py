"""A broker that is killed or stopped under groups forgets nothing of them. (See group_kill_run.)"""

from pathlib import Path

from tests.chaos.group_kill_run import run, summary
from tests.chaos.group_lives import Cast, GroupLives

_RESTARTS = 3
_SEED = 4
_LASTS_S = (0.2, 0.6)
_CAST = Cast(raw_classic=3, raw_consumer=3, eager=0, cooperative=2, consumer=2)


def _verdict(lives: GroupLives) -> str:
    return f"seed {lives.seed}, data in {lives.home}\n{summary(lives)}"


def test_restarts_under_groups(tmp_path: Path) -> None:
    """In two runs, the second of which takes up the data and the counts of the first."""
    first = run(_RESTARTS - 1, _SEED, tmp_path, _LASTS_S, _CAST)
    assert not first.problems, _verdict(first)
    lives = run(_RESTARTS, _SEED, tmp_path, _LASTS_S, _CAST)
    assert not lives.problems, _verdict(lives)
    assert len(lives.lives) == _RESTARTS
    counts = lives.journal.counts
    for promise in (
        "commits acknowledged", "offsets checked", "generations checked", "shares checked",
        "records covered", "generations", "epochs", "assignments",
    ):  # fmt: skip
        assert counts[promise] > first.journal.counts[promise] > 0, _verdict(lives)
