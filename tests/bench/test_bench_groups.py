"""The benchmark of groups, on a small scale: what it counts, and what it says when it can not."""

from pathlib import Path

import pytest

from barnabas.bench import groups
from barnabas.bench.group_members import Order
from barnabas.bench.groups import Crowd, Options, members, percentile
from barnabas.bench.subject import free_port
from barnabas.model.errors import BarnabasError


def test_a_few_groups_of_both_protocols(tmp_path: Path) -> None:
    report = groups.run(Options(tmp_path, groups=2, members=2, rounds=1, seconds=0.5))
    assert [row["protocol"] for row in report.rows] == ["classic", "consumer"]
    for row in report.rows:
        assert row["members"] == 4
        assert row["beats_per_s"] > 0
        assert row["p99_ms"] > 0
        assert row["rss_mib"] > 1
    assert "bare loop" in report.render()


def test_members_that_find_no_broker_say_so() -> None:
    order = Order("127.0.0.1", free_port(), "classic", 1, 1, 1.0, "t")
    with members(order) as crowd, pytest.raises(BarnabasError, match="stopped"):
        _hear(crowd)


def _hear(crowd: Crowd) -> None:
    crowd.hear()


def test_percentiles() -> None:
    values = [float(number) for number in range(100)]
    assert percentile(values, 0.99) == 99.0
    assert percentile([5.0], 0.99) == 5.0
