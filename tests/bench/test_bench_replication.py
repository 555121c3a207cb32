"""Three replicas next to one: small loads on real brokers, and the sums that are done with them."""

from pathlib import Path

import pytest

from barnabas.bench import replication
from barnabas.bench.load import Outcome
from barnabas.bench.replication import ALONE, ONE, THREE, Round, busiest, summarize


def a_round(seconds: float, *cpu_seconds: float, late: float = 0.0) -> Round:
    outcome = Outcome(10, 1_000, 10**9, seconds, cpu_seconds=0.1)
    return Round(outcome, seconds + late, cpu_seconds)


def test_every_figure_is_there(tmp_path: Path) -> None:
    report = replication.run(
        replication.Options(
            tmp_path, rounds=2, seconds=5.0, volume_bytes=200_000, idle=2, keep_awake=False,
            shapes=replication.SHAPES[-1:],
        )
    )  # fmt: skip
    assert [(row["shape"], row["acks"]) for row in report.rows] == [
        ("produce 8 KB, depth 5", "1"),
        ("produce 8 KB, depth 5", "all"),
        ("produce 8 KB, depth 5, 2 idle", "1"),
        ("produce 8 KB, depth 5, 2 idle", "all"),
    ]
    for row in report.rows:
        assert all(row[column.key] for column in report.columns)
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
        assert row["ratio_everywhere"] <= row["ratio_high"]
    assert list(tmp_path.iterdir()) == []


def test_what_the_cores_allow_for() -> None:
    assert busiest((1.0, 0.5), 2) == 1.0
    assert busiest((1.0, 1.0, 1.0, 1.0), 2) == 2.0
    row = summarize(
        {
            THREE: [a_round(4, 1.5, 1.0, 1.0, late=4), a_round(8, 1.5, 1.0, 1.0)],
            ONE: [a_round(2, 1.0), a_round(4, 1.0)],
            ALONE: [a_round(1, 1.0), a_round(2, 1.0)],
        },
        cores=2,
    )
    assert (row["ratio"], row["ratio_low"], row["ratio_high"]) == (0.25, 0.25, 0.25)
    assert (row["ratio_to_one"], row["ratio_everywhere"]) == (0.5, pytest.approx(0.1875))
    assert row["possible"] == pytest.approx(1.0 / ((1.5 + 2.0 + 0.1) / 2))
    assert row["ideal"] == pytest.approx(1.0 / ((3.0 + 0.1) / 2))
    assert (row["leader_cpu_s_per_gb"], row["follower_cpu_s_per_gb"]) == (1.5, 1.0)
