"""Consumers killed at every point: at most once never repeats, at least once never loses, and with
a ledger the result is exact.

The demonstration is docs/examples/delivery_semantics.py: real processes, real SIGKILL. Killing one
takes about a second; each promise is a test, so that a failure names it.
"""

from pathlib import Path

import pytest
from docs.examples import delivery_semantics as demo


def outcomes(bootstrap: str, mode: demo.Mode, directory: Path) -> dict[str, demo.Outcome]:
    return {
        point: demo.demonstrate(bootstrap, mode, point, directory) for point in demo.KILL_POINTS
    }


def test_at_most_once_never_repeats(bootstrap: str, tmp_path: Path) -> None:
    found = outcomes(bootstrap, "at-most-once", tmp_path)
    assert [each.repeated for each in found.values()] == [0] * len(demo.KILL_POINTS)
    # The record that was being worked on is lost, and no other.
    assert {point: each.lost for point, each in found.items()} == {
        "read": 1,
        "half processed": 1,
        "processed": 0,
        "before commit": 0,
        "after commit": 1,
    }


def test_at_least_once_never_loses(bootstrap: str, tmp_path: Path) -> None:
    found = outcomes(bootstrap, "at-least-once", tmp_path)
    assert [each.lost for each in found.values()] == [0] * len(demo.KILL_POINTS)
    for point in ("half processed", "processed", "before commit"):
        assert found[point].repeated >= 1, point
    assert found["after commit"].exact


def test_with_a_ledger_the_result_is_exact(bootstrap: str, tmp_path: Path) -> None:
    found = outcomes(bootstrap, "exactly-once", tmp_path)
    assert [each for each in found.values() if not each.exact] == []


@pytest.mark.parametrize("mode", demo.MODES)
def test_the_demonstration_would_notice_who_is_not_killed(
    bootstrap: str, tmp_path: Path, mode: demo.Mode
) -> None:
    with pytest.raises(RuntimeError, match="was to be killed"):
        demo.demonstrate(bootstrap, mode, "nowhere", tmp_path)  # type: ignore[arg-type]
