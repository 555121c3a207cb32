"""Clients of every kind, for a moment, with and without a kill: `barnabas verify` finds nothing."""

from pathlib import Path

import pytest
from tests.chaos.txn_soak import Cast, soak, summary

_CAST = Cast(transactional=2, idempotent=1, plain=1, readers=1)


@pytest.mark.parametrize("kill_every_s", [None, 2.0], ids=["in peace", "killed"])
def test_nothing_is_wrong_with_what_clients_saw(tmp_path: Path, kill_every_s: float | None) -> None:
    run, verdict = soak(tmp_path, 5, 3.0, kill_every_s, _CAST)
    told = summary(run, verdict)
    assert verdict.is_clean, told
    assert not run.journal.problems, told
    assert (run.kills > 0) == (kill_every_s is not None)
    for what in ("transactions committed", "transactions aborted", "values acknowledged",
                 "offsets of groups found"):  # fmt: skip
        assert verdict.tally[what] > 0, told
