"""The arithmetic of the reports, and how they are shown."""

import json
from typing import Any

import pytest

from barnabas.bench import clients, ratio, startup
from barnabas.bench.crew import add_up
from barnabas.bench.load import Outcome
from barnabas.bench.report import Column, Report, spread
from barnabas.bench.subject import fill, parse_bootstrap
from barnabas.model.errors import BarnabasError


def round_of(records: int, seconds: float, cpu: float | None) -> ratio.Round:
    return ratio.Round(Outcome(10, records, records * 100, seconds, seconds / 4), cpu)


def test_the_ratio_is_the_median_of_the_pairs() -> None:
    pairs = [
        (round_of(80, 1.0, 0.002), round_of(100, 1.0, 0.001)),
        (round_of(90, 1.0, 0.004), round_of(100, 0.5, 0.001)),
        (round_of(600, 1.0, 0.002), round_of(1_000, 1.0, 0.002)),
    ]
    row = ratio.summarize(ratio.SHAPES[0], pairs)
    assert row["ratio"] == pytest.approx(0.6)
    assert (row["ratio_low"], row["ratio_high"]) == pytest.approx((0.45, 0.8))
    assert row["cpu_ratio"] == pytest.approx(0.5)
    assert row["broker_records_per_second"] == 90
    assert row["limit_records_per_second"] == 200
    assert row["broker_cpu_us_per_request"] == pytest.approx(200)
    assert row["broker_generator_load"] == pytest.approx(0.25)


def test_without_cpu_time_there_is_no_cpu_ratio() -> None:
    row = ratio.summarize(ratio.SHAPES[0], [(round_of(50, 1.0, None), round_of(100, 1.0, 0.001))])
    assert (row["ratio"], row["cpu_ratio"], row["broker_cpu_us_per_request"]) == (0.5, None, None)
    assert "-" in Report("ratio", {}, ratio.COLUMNS, [row]).render().splitlines()[-1].split()


def test_spread_is_the_distance_of_the_quartiles() -> None:
    assert spread([100.0]) == 0
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 3)
    assert spread([7.0, 7.0, 7.0]) == 0


def test_several_workers_add_up() -> None:
    both = add_up([Outcome(1, 10, 100, 2.0, 0.5), Outcome(2, 20, 200, 3.0, 0.25)])
    assert both == Outcome(3, 30, 300, 3.0, 0.75)


def test_start_up_is_compared_pair_by_pair() -> None:
    row = startup.summarize([0.4, 0.9, 0.5], [0.1, 0.1, 0.25])
    assert (row["start_ms"], row["baseline_ms"]) == pytest.approx((500, 100))
    assert row["ratio"] == pytest.approx(4.0)
    assert (row["start_low_ms"], row["start_high_ms"]) == pytest.approx((400, 900))


def test_client_figures() -> None:
    row = clients.summarize(
        "x", [clients.Figure(10.0, 1.0), clients.Figure(30.0, 3.0), clients.Figure(20.0, 2.0)], 1000
    )
    assert (row["records_per_second"], row["low"], row["high"]) == (20, 10, 30)
    assert row["broker_cpu_us_per_record"] == pytest.approx(2000)


def test_a_report_reads_back_and_lines_up() -> None:
    columns = (Column("name", "name"), Column("rate", "rate", "{:,.0f}"))
    rows: list[dict[str, Any]] = [
        {"name": "a", "rate": 1234.5},
        {"name": "long name", "rate": None},
    ]
    report = Report("trial", {"rounds": 1}, columns, rows, ("A note.",))
    read = json.loads(report.to_json())
    assert (read["benchmark"], read["results"], read["notes"]) == ("trial", rows, ["A note."])
    assert report.render().splitlines() == [
        "name        rate",
        "---------  -----",
        "a          1,234",
        "long name      -",
        "",
        "A note.",
    ]


def test_a_command_line_is_filled_in(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("data")
    assert fill(["up", "--port={port}", "{data}"], 9, folder) == ["up", "--port=9", str(folder)]


def test_addresses() -> None:
    assert parse_bootstrap("localhost:9092") == ("localhost", 9092)
    assert parse_bootstrap("[::1]:9092") == ("::1", 9092)
    for wrong in ("localhost", ":9092", "localhost:x"):
        with pytest.raises(BarnabasError):
            parse_bootstrap(wrong)
